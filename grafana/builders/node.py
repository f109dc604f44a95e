"""One node, or a few: what it draws and wastes, what each of its GPUs does, what is wrong with it."""

from __future__ import annotations

from .classes import GPU_WORDS
from .dashboard import as_json
from .panels import CURRENCY, NODE, SITE, Row, by_gpu, column, cost, lines, listing, number, quiet, timeline

POWER, WASTED = f"idlewatt_node_power_watts{{{NODE}}}", f"idlewatt_node_wasted_power_watts{{{NODE}}}"
GPUS = f"idlewatt_node_gpus{{{NODE}}}"


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("node", "Node", "What a node draws and wastes, and what each of its GPUs does; jobs, days and kWh "
                   "are on idlewatt's own page.",
                   ((4, _figures()), (9, _over_time()), (14, _gpus()), (8, _tables())), shows=("node",))


def _kwh(by: str = "") -> str:
    return f"sum{by} (sum_over_time({WASTED}[$__range:$__interval])) * $__interval_ms / 3.6e9"


def _figures() -> Row:
    return (
        (5, number("Power of the node", "Of the whole node, at the wall where it has a meter.", f"sum({POWER})", "watt",
                   empty="not measured")),
        (5, number("Wasted by the node now", "Power that does no work: of its GPUs and, while it is empty, its host.",
                   f"sum({WASTED})", "watt", empty="unknown")),
        (5, number("Wasted by the node in the time range", "Energy of the chosen nodes that did no work.", _kwh(),
                   "kwatth", empty="unknown")),
        (5, number("Cost of what the node wasted", "The same in money, at the prices that idlewatt published.",
                   cost(WASTED), CURRENCY, decimals=2, empty="unknown")),
        (4, number("GPUs held of the node", "Share of its GPUs that jobs hold now, whether they use them or not.",
                   f'sum(idlewatt_node_gpus{{{NODE}, state="allocated"}}) / sum({GPUS})', "percentunit"))
    )


def _over_time() -> Row:
    return (
        (14, lines("Power of the node over time", "Of the chosen nodes the ten that draw most, and the part of their "
                   "power that does no work; 'estimated' and 'gpus' are no wall meters.",
                   ((f"topk(10, sum by ({SITE}, node, source) ({POWER}))", "{{node}} ({{source}})"),
                    (f"topk(10, sum by ({SITE}, node) ({WASTED}))", "{{node}} wasted")), "watt")),
        (10, lines("GPUs of the node by state over time", "How many GPUs of the chosen nodes jobs hold, are free, "
                   "stranded, or not measured.", ((f"sum by (state) ({GPUS})", "{{state}}"),), "short", stacked=True)))


def _gpus() -> Row:
    few = f"topk(8, sum by ({SITE}, node) (max_over_time({GPUS}[$__range] @ end())))"
    states = f"idlewatt_gpu_state{{{NODE}}} and on ({SITE}, node) {few}"
    return (
        (24, timeline("GPUs of the node over time", "What each GPU did, of eight of the chosen nodes at most. Red and "
                      "violet in the middle of a job: talk to its owner.",
                      by_gpu(states), "{{node_gpu}}", GPU_WORDS, page=32)),)


def _tables() -> Row:
    errors = f"max by ({SITE}, node, gpu, xid) (idlewatt_gpu_error_info{{{NODE}}})"
    outside = f"max by ({SITE}, node, gpu) (idlewatt_outside_scheduler_since_timestamp_seconds{{{NODE}}}) * 1000"
    return (
        (8, listing("Errors of the node's GPUs", "GPUs whose driver has reported an error since it was loaded, with "
                    "NVIDIA's number (Xid) of the last one.", (errors,),
                    {"cluster": "Cluster", "node": "Node", "gpu": "GPU", "xid": "Xid"},
                    empty=quiet("no GPU has reported an error"))),
        (8, listing("In use outside the scheduler on the node", "GPUs that have been busy for minutes although the "
                    "scheduler says that nobody holds them.", (outside,),
                    {"cluster": "Cluster", "node": "Node", "gpu": "GPU", "Value": "Since"},
                    special={"Since": column("dateTimeFromNow")}, empty=quiet("none is"))),
        (8, listing("Chosen nodes that could be powered down", "Empty, measured, and needed by no known job soon.",
                    (f"sum by ({SITE}, node) ({POWER} and on ({SITE}, node) idlewatt_power_down_info{{{NODE}}})",),
                    {"cluster": "Cluster", "node": "Node", "Value": "Draws now"}, unit="watt",
                    empty=quiet("none could"))))

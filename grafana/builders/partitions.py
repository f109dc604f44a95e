"""Partitions and fragmentation: what is free, why it cannot be used, and which jobs wait."""

from __future__ import annotations

from .classes import CLASSES, GPU_WORDS, POWER_CLASSES
from .dashboard import as_json
from .panels import (
    MEMBERS,
    PARTITION,
    SITE,
    Row,
    at_least,
    by_gpu,
    by_kind,
    column,
    largest,
    lines,
    listing,
    number,
    quiet,
    timeline,
)

GPUS = f"idlewatt_gpus{{{PARTITION}}}"
HELD = f"idlewatt_allocated_gpus{{{PARTITION}}}"
STRANDED = f"idlewatt_stranded_gpus{{{PARTITION}}}"
PENDING = f"idlewatt_pending_jobs{{{PARTITION}}}"
OUTSIDE = f"idlewatt_outside_scheduler_since_timestamp_seconds{{{MEMBERS}}}"
CAUSES = {
    "cpu": ("CPUs are taken", "#ef6c00"),
    "memory": ("Memory is taken", "#8e24aa"),
    "gpu_fragment": ("Scattered over nodes", "#e09f00"),
    "constraint": ("Features, reservations", "#78909c"),
    "topology": ("Over too many switches", "#43a047"),
    "insufficient": ("Waiting jobs are larger", "#1e88a8"),
}
NODE_WORDS = {
    "0": ("empty", POWER_CLASSES["idle_unallocated"].color),
    "1": ("partly used", POWER_CLASSES["host_active"].color),
    "2": ("full", POWER_CLASSES["productive"].color),
    "3": ("has GPUs that are free but unusable", POWER_CLASSES["stranded"].color),
    "4": ("partly not measured", POWER_CLASSES["unmeasured"].color),
    "5": ("out of service", POWER_CLASSES["unavailable"].color),
    "6": ("in use outside the scheduler", POWER_CLASSES["outside_scheduler"].color),
}


def _gpus_in(state: str = "") -> str:
    chosen = f', state=~"{state}"' if state else ""
    return f"sum by ({SITE}, node) (idlewatt_node_gpus{{{MEMBERS}{chosen}}})"


# The first line that holds for a node is its state.
NODE_STATE = " or ".join((
    f"({_gpus_in('unavailable')} == {_gpus_in()}) * 0 + 5",
    f"({_gpus_in('outside_scheduler')} > 0) * 0 + 6",
    f"({_gpus_in('unmeasured')} > 0) * 0 + 4",
    f"({_gpus_in('stranded')} > 0) * 0 + 3",
    f"({_gpus_in('allocated')} == {_gpus_in()}) * 0 + 2",
    f"({_gpus_in('allocated')} > 0) * 0 + 1",
    f"{_gpus_in()} * 0"))


def _wasteful(count: int) -> str:
    """Return the nodes that wasted most over the time range: a browser draws no thousand rows."""
    wasted = f"idlewatt_node_wasted_power_watts{{{MEMBERS}}}"
    return f"topk({count}, sum by ({SITE}, node) (avg_over_time({wasted}[$__range] @ end())))"


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("partitions", "Partitions and fragmentation",
                   "What is free, why waiting jobs cannot use it, and how full the partitions are.",
                   ((4, _figures()), (6, _table()), (9, _stranded()), (9, _shares()), (9, _flavours()), (10, _nodes()),
                    (16, _gpus()), (9, _states())), shows=("partition",))


def _figures() -> Row:
    return (
        (4, number("GPUs of the partitions",
                   "GPUs of the chosen partitions, in service or not.", f"sum({GPUS})", "locale")),
        (4, number("Held by jobs", "Share of the GPUs that jobs hold now, whether they use them or not, and "
                   "whether anybody measures it.",
                   f"sum({HELD}) / sum({GPUS})", "percentunit")),
        (4, number("Stranded GPUs", "Free GPUs that no waiting job can use. Orange from 1: advice may free some.",
                   f"sum({STRANDED})", "locale", steps=((None, "green"), (1.0, "orange")))),
        (4, number("Worst fragmentation", "The largest share, over the chosen partitions, of free GPUs that the usual "
                   "demand of the last seven days cannot use (FGD, ATC'23).",
                   f"max(idlewatt_fragmentation_ratio{{{PARTITION}}})", "percentunit",
                   empty="none free or no data")),
        (4, number("Waiting jobs", "Jobs in the queues of the chosen partitions; each task of an array counts.",
                   f"sum({PENDING}) or 0 * sum({GPUS})", "locale")),
        (4, number("Empty nodes", "Chosen nodes without a job on any GPU, powered and in service.",
                   f"count({_gpus_in('idle|stranded')} == {_gpus_in()} > 0) or 0 * count({_gpus_in()})", "locale")))


def _table() -> Row:
    return (
        (16, listing("Partitions now",
                     "One row a partition: how many GPUs, how many jobs hold, how many no job can use, "
                     "what share of power is wasted at least, and how many jobs wait.",
                     (f"sum by ({SITE}, partition) ({GPUS})", f"sum by ({SITE}, partition) ({HELD})",
                      f"sum by ({SITE}, partition) ({STRANDED})",
                      at_least(f"sum by ({SITE}, partition) (idlewatt_wasted_power_watts{{{PARTITION}}}) / "
                               f"sum by ({SITE}, partition) (idlewatt_power_watts{{{PARTITION}}})",
                               f"{SITE}, partition"),
                      f"sum by ({SITE}, partition) ({PENDING}) or 0 * sum by ({SITE}, partition) ({GPUS})"),
                     {"cluster": "Cluster", "partition": "Partition", "Value #A": "GPUs", "Value #B": "Held",
                      "Value #C": "Stranded",
                      "Value #D": "Power wasted", "Value #E": "Waiting jobs"},
                     unit="locale", special={"Power wasted": column("percentunit")})),
        (8, listing("In use outside the scheduler", "GPUs of the chosen nodes that have been busy for minutes although "
                    "the scheduler says that nobody holds them, the longest first. They are in no wasted figure.",
                    (f"bottomk(50, max by ({SITE}, node, gpu) ({OUTSIDE})) * 1000",),
                    {"cluster": "Cluster", "node": "Node", "gpu": "GPU", "Value": "Since"},
                    special={"Since": column("dateTimeFromNow")}, order="Since", empty=quiet("none is"))))


def _stranded() -> Row:
    return (
        (12, lines("Stranded GPUs by cause", "Free GPUs that no eligible waiting job can use, by what binds first. "
                   "CPUs and memory: jobs took more than their share. Scattered: enough are free, on several nodes.",
                   ((f"sum by (cause) ({STRANDED})", "{{cause}}"),), "short", stacked=True, names=CAUSES)),
        (12, lines("Waiting jobs by reason", "Why the scheduler says that jobs wait. Resources: first in line. "
                   "Priority: behind another. Anything else is worth a look.",
                   ((f"sum by (reason) ({PENDING})", "{{reason}}"),), "short", stacked=True,
                   empty=quiet("no job waits"))))


def _shares() -> Row:
    return (
        (12, lines("Utilisation of GPU time", "Share of GPU time that jobs held over the sliding window, Eq. (4) of "
                   "the GIST AI-X paper. 'limit' counts the requested time limit, as the paper does, and overstates "
                   "use when jobs end early: above 100 % others run on GPUs that still count for a job that has ended. "
                   "'actual' is what was really held. Of the ten largest partitions.",
                   ((f"avg by ({SITE}, partition, basis) (idlewatt_utilization_ratio{{{PARTITION}}}) "
                     f"and on ({SITE}, partition) {largest(10)}", "{{partition}}, {{basis}}"),), "percentunit")),
        (12, lines("Fragmentation of free GPUs",
                   "Share of the free GPUs that the usual demand of the last seven days cannot use "
                   "(FGD, ATC'23), of the ten largest partitions. High with many free GPUs: jobs should be placed "
                   "closer together.",
                   ((f"avg by ({SITE}, partition) (idlewatt_fragmentation_ratio{{{PARTITION}}}) "
                     f"and on ({SITE}, partition) {largest(10)}", "{{partition}}"),), "percentunit", most=1.0,
                   empty=quiet("nothing is free, or no demand is known"))))


def _flavours() -> Row:
    watts = f"sum by ({SITE}, flavour) (idlewatt_flavour_{{}}power_watts{{{{{{}}}}}})"
    return (
        (12, lines("Power of held GPUs by flavour", "What the GPUs draw that jobs hold, by the flavour of the job: "
                   "what users ask for under a name (flavours in the configuration), else the size, 4-gpu for three "
                   "and four. Without a name: jobs that no flavour allows; idlewatt flavours tells why.",
                   ((watts.format("", PARTITION), "{{flavour}}"),), "watt", stacked=True,
                   empty=quiet("no job holds a GPU that is measured"))),
        (12, lines("Share of it that is wasted, by flavour", "Of the power that GPUs draw in the hands of jobs, the "
                   "part that does no work. One flavour far above the others: its jobs ask for more than they use.",
                   ((f"{watts.format('wasted_', PARTITION)} / {watts.format('', PARTITION)}", "{{flavour}}"),),
                   "percentunit", most=1.0, empty=quiet("no job holds a GPU that is measured"))))


def _nodes() -> Row:
    return (
        (24, timeline("Nodes over time", "What each node's GPUs were doing, twenty nodes a page: of the chosen nodes "
                      "the 60 that wasted most over the time range. A node that is empty for hours could be powered "
                      "down; one with stranded GPUs needs other neighbours.",
                      f"({NODE_STATE}) and on ({SITE}, node) {_wasteful(60)}", "{{node}}", NODE_WORDS)),)


def _gpus() -> Row:
    states = f"idlewatt_gpu_state{{{MEMBERS}}} and on ({SITE}, node) {_wasteful(8)}"
    return (
        (24, timeline("GPUs over time", "Every GPU of the eight chosen nodes that wasted most over the time range; "
                      "the dashboard Node shows one alone. Red and violet in the middle of a job: talk to its owner.",
                      by_gpu(states), "{{node_gpu}}", GPU_WORDS, page=32)),)


def _states() -> Row:
    return (
        (24, lines("GPUs by state", "Every GPU of the chosen partitions by what it does.",
                   by_kind("state", "idlewatt_gpus", PARTITION), "short", stacked=True, names=CLASSES)),)

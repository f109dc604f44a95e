"""Cluster waste: which watts do no work, why, where and in whose jobs; in kWh and money."""

from __future__ import annotations

from .classes import CLASSES, POWER_CLASSES, any_of
from .dashboard import as_json
from .panels import (
    CURRENCY,
    MEMBERS,
    PARTITION,
    PRICE,
    SITE,
    Panel,
    Row,
    at_least,
    bars,
    by_kind,
    column,
    cost,
    cost_by_quarters,
    in_part,
    lines,
    listing,
    number,
    quiet,
    top,
)

DARK = f'idlewatt_power_watts{{{PARTITION}, class="unmeasured"}}'
POWER, WASTE = f"idlewatt_power_watts{{{PARTITION}}}", f"idlewatt_wasted_power_watts{{{PARTITION}}}"
WASTED_J = f"sum(increase(idlewatt_wasted_energy_joules_total{{{PARTITION}}}[$__range]))"
UNKNOWN_J = f'sum(increase(idlewatt_energy_joules_total{{{PARTITION}, class="unmeasured"}}[$__range]))'
# A waste of zero is only shown where all was measured; more than nothing is at least that.
WASTED_KWH = f"(({WASTED_J} > 0) or ({WASTED_J} unless on () ({UNKNOWN_J} > 0))) / 3.6e6"
WASTED_RATE = f"rate(idlewatt_wasted_energy_joules_total{{{PARTITION}}}[$__rate_interval])"
_BY_QUARTERS = cost_by_quarters(f"idlewatt_wasted_energy_joules_total{{{PARTITION}}}")
# A daemon that began within this quarter of an hour has the present price.
WASTED_COST = f"({_BY_QUARTERS} and on () ({WASTED_KWH})) or ({WASTED_KWH}) * on () avg({PRICE})"
BY_PARTITION = f"sum by ({SITE}, partition) (increase(idlewatt_wasted_energy_joules_total{{{PARTITION}}}[$__range]))"
COST_WORDS = ("The same in money, at the price that idlewatt published at each time, with the site's PUE where that is "
              "set. No amount while no price in this currency is known.")
UNUSED = f"sum(idlewatt_host_unused_watts{{{PARTITION}}})"
NO_HOST = f"sum(idlewatt_unmeasured_busy_hosts{{{PARTITION}}}) > 0"
UNUSED_PART = "Unused part of busy nodes"
SHARE = ((None, "green"), (0.15, "orange"), (0.3, "red"))

NOT_HELD = any_of(row for row in POWER_CLASSES.values() if row.kind == "wasted" and not row.held)
"""The classes of waste that no job has to do with."""


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("cluster-waste", "Cluster waste", "Which watts of the GPU cluster are wasted, why, where and whose.",
                   ((4, _figures()), (11, _watts()), (9, _where()), (10, _energy()), (9, _honest())),
                   shows=("partition",))


def _figures() -> Row:
    return (
        (4, number("Wasted now", "Power that does no work right now, over all reasons; 'at least' while something is "
                   "not measured, and unknown where nothing is known. The bars below say why.",
                   f"sum({WASTE}) unless on () ({in_part()})", "watt", empty="unknown", legend="wasted",
                   beside=((f"(sum({WASTE}) > 0) and on () ({in_part()})", "at least"),
                           (f"sum({DARK}) > 0", "not measured")))),
        (3, number("Share wasted", "Wasted power as a share of all power, and no less than that while something is not "
                   "measured. Orange from 15 %, red from 30 %, the alert's threshold: clusters that are looked after "
                   "stay under 15 %.",
                   at_least(f"sum({WASTE}) / sum({POWER})"), "percentunit", steps=SHARE, empty="unknown")),
        (3, number("Power now", "Power of all nodes of the chosen partitions: at the wall where they have meters, else "
                   "of their GPUs and estimated hosts.", f"sum({POWER})", "watt")),
        (3, number("Wasted, 24 hours", "Energy of the last 24 hours that did no work, whatever time range is chosen; "
                   "less than was wasted where something was not measured.",
                   WASTED_KWH, "kwatth", past="24h", empty="unknown")),
        (3, number("Cost, 24 hours", COST_WORDS,
                   WASTED_COST, CURRENCY, past="24h", decimals=2, empty="no price")),
        (3, number("Wasted, 30 days", "Energy of the last 30 days that did no work; less where Prometheus keeps less.",
                   WASTED_KWH, "kwatth", past="30d", empty="unknown")),
        (3, number("Cost, 30 days", COST_WORDS,
                   WASTED_COST, CURRENCY, past="30d", decimals=2, empty="no price")),
        (2, number("GPUs not measured", "GPUs without fresh power, or allocated without activity. They are in no "
                   "wasted figure: while this is above zero, the figures flatter.",
                   f"sum(idlewatt_unmeasured_gpus{{{PARTITION}}})", "short",
                   steps=((None, "green"), (1.0, "orange")))))


def _watts() -> Row:
    return (
        (12, lines("Where the watts go", "Every watt of every node in exactly one class. Blue works, warm colours are "
                   "wasted, the others are apart. The line is the power of the chosen nodes, at the wall where they "
                   "have meters: with all partitions chosen the stack must reach it.",
                   (*by_kind("class", "idlewatt_power_watts", PARTITION),
                    (f"sum(idlewatt_node_power_watts{{{MEMBERS}}})", "All nodes")),
                   "watt", stacked=True, names=CLASSES, over="All nodes")),
        (6, lines("Wasted or unused", "What is wasted, and on top of it the unused part of busy nodes: of a node that "
                  "uses one of eight GPUs, seven eighths of what its host draws. That part is contained in Node "
                  "overhead and in no other class. The height of both does not fall when the same jobs are spread over "
                  "more nodes that are alike. Where nothing of it is measured there is no second curve.",
                  ((at_least(f"sum({WASTE})"), "Wasted"),
                   (f"({UNUSED}) > 0 or (({UNUSED}) unless on () ({NO_HOST}))", UNUSED_PART)), "watt", stacked=True,
                  names={"Wasted": ("Wasted", "#ef6c00"),
                         UNUSED_PART: (UNUSED_PART, POWER_CLASSES["host_active"].color)})),
        (6, bars("Wasted now, by reason", "Which reason to go after first. Free GPUs, usable or not, and empty nodes "
                 "are the scheduler's; the others are the job owners'.", f"sum by (reason) ({WASTE})", "reason", "watt",
                 names=CLASSES)))


def _where() -> Row:
    return (
        (8, lines("Wasted power by partition", "Where the waste is: the 15 partitions that wasted most over the time "
                  "range. A step usually follows a large job's start or end.",
                  ((top(15, "partition", "idlewatt_wasted_power_watts", PARTITION), "{{partition}}"),), "watt")),
        (8, bars("Wasted now, by node", "The ten nodes that waste most now, their empty hosts included.",
                 f"topk(10, sum by ({SITE}, node) (idlewatt_node_wasted_power_watts{{{MEMBERS}}}))", "node", "watt")),
        (8, bars("Wasted now, by user", "The ten people whose jobs hold GPUs that do nothing, too little, or spin. "
                 "A reason to talk, not to blame: the code is often somebody else's.",
                 f"topk(10, sum by ({SITE}, user) (idlewatt_user_wasted_power_watts{{{PARTITION}}}))", "user", "watt",
                 empty="nobody, or no data")))


def _energy() -> Row:
    return (
        (5, bars("Energy in the time range, by class", "Every kWh in exactly one class, integrated by the daemon "
                 "without crossing gaps in the measurements.",
                 f"sum by (class) (increase(idlewatt_energy_joules_total{{{PARTITION}}}[$__range])) / 3.6e6",
                 "class", "kwatth", names=CLASSES)),
        (4, bars("Cost in the time range, by class", "The same in money, each kWh at the price of its time, with the "
                 "site's PUE where that is set.",
                 cost(f"rate(idlewatt_energy_joules_total{{{PARTITION}}}[$__rate_interval])", " by (class)"),
                 "class", CURRENCY, names=CLASSES, empty="no price")),
        (5, _bill("partition", "The 20 partitions that wasted most energy.", f"topk(20, {BY_PARTITION}) / 3.6e6",
                  WASTED_RATE)),
        (5, _bill("node", "The 20 nodes that wasted most energy, their empty hosts included.",
                  _summed("node", "idlewatt_node_wasted_power_watts", MEMBERS),
                  f"idlewatt_node_wasted_power_watts{{{MEMBERS}}}")),
        (5, _bill("user", "The 20 people whose jobs held GPUs that did nothing, too little, or spun.",
                  _summed("user", "idlewatt_user_wasted_power_watts", PARTITION),
                  f"idlewatt_user_wasted_power_watts{{{PARTITION}}}",
                  quiet("no user's job wasted anything"))))


def _summed(by: str, metric: str, selector: str) -> str:
    """Return kWh from watts, for what the daemon counts no joules of; a gap in the watts adds nothing."""
    return (f"topk(20, sum by ({SITE}, {by}) (sum_over_time({metric}{{{selector}}}[$__range:$__interval])))"
            " * $__interval_ms / 3.6e9")


def _bill(by: str, description: str, kwh: str, watts: str, empty: str = "") -> Panel:
    options = {"empty": empty} if empty else {}
    return listing(f"Wasted, by {by}", f"{description} Over the time range, and its cost at the prices of its time.",
                   (kwh, f"{cost(watts, f' by ({SITE}, {by})')} and on ({SITE}, {by}) ({kwh})"),
                   {"cluster": "Cluster", by: by.capitalize(), "Value #A": "Energy", "Value #B": "Cost"}, unit="kwatth",
                   special={"Energy": column(width=85), "Cost": column(CURRENCY, width=80, decimals=2)},
                   order="-Energy", **options)


def _honest() -> Row:
    return (
        (8, lines("Measured waste beside the paper's estimate", "The GIST AI-X paper counts rated power x unallocated "
                  "share: an upper bound, no measurement. What is measured of the same kind is idle + stranded + "
                  "empty nodes.",
                  ((f'sum(idlewatt_wasted_power_watts{{{PARTITION}, '
                    f'reason=~"{NOT_HELD}"}})', "Measured"),
                   (f"sum by (basis) (idlewatt_paper_inefficient_power_watts{{{PARTITION}}})", "Paper, {{basis}}")),
                  "watt", empty="needs the rated power of all nodes: waste.rated_node_watts")),
        (8, lines("Unmeasured GPUs over time", "GPUs without fresh power, or allocated without activity. They are in "
                  "no wasted figure: while this is above zero, the figures flatter. The 15 worst partitions.",
                  ((top(15, "partition", "idlewatt_unmeasured_gpus", PARTITION), "{{partition}}"),), "short")),
        (8, lines("Power by node", "The 15 chosen nodes that drew most over the time range. A flat line is a meter "
                  "that hangs; 'estimated' and 'gpus' are no wall meters.",
                  ((top(15, "node, source", "idlewatt_node_power_watts", MEMBERS), "{{node}} ({{source}})"),), "watt")))

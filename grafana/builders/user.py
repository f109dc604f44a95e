"""One user, or a few: what the GPUs of their jobs draw, how much of that does no work, what that costs."""

from __future__ import annotations

from .dashboard import as_json
from .panels import CURRENCY, SITE, USER, Row, column, cost, lines, listing, number, quiet

POWER, WASTED = f"idlewatt_user_power_watts{{{USER}}}", f"idlewatt_user_wasted_power_watts{{{USER}}}"
JOBS = f"idlewatt_job_wasted_power_watts{{{USER}}}"
NONE = "this user has no running job"
UNKNOWN = "no job, or not measured"


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("user", "User", "What the GPUs of a user's jobs draw and waste; days, kWh and every job are on "
                   "idlewatt's own page.", ((4, _figures()), (10, _over_time()), (9, _tables())), shows=("user",))


def _kwh(metric: str, by: str = "") -> str:
    return f"sum{by} (sum_over_time({metric}[$__range:$__interval])) * $__interval_ms / 3.6e9"


def _figures() -> Row:
    return (
        (6, number("Power of the user's GPUs", "What GPUs of the chosen users' jobs draw now; hosts are not in it.",
                   f"sum({POWER})", "watt", empty="no job, or no data")),
        (6, number("Wasted by the user now", "Part of it that does no work: idle, hung, or used too little. At "
                   "least so much while not all of their GPUs are measured.",
                   f"sum({WASTED})", "watt", steps=((None, "green"), (100.0, "orange")), empty=UNKNOWN)),
        (6, number("Wasted by the user in the time range", "Energy of their GPUs that did no work.",
                   _kwh(WASTED), "kwatth", empty=UNKNOWN)),
        (6, number("Cost of what the user wasted", "The same in money, at the prices that idlewatt published.",
                   cost(WASTED), CURRENCY, decimals=2, empty=UNKNOWN)))


def _over_time() -> Row:
    return (
        (24, lines("Power of the user's GPUs over time", "Of the chosen users the ten that draw most, and the part of "
                   "their power that does no work.",
                   ((f"topk(10, sum by ({SITE}, user) ({POWER}))", "{{user}}"),
                    (f"topk(10, sum by ({SITE}, user) ({WASTED}))", "{{user}} wasted")), "watt", empty=quiet(NONE))),)


def _tables() -> Row:
    return (
        (12, listing("Users and partitions", "Who draws and wastes what, where; energy and cost over the time range.",
                     (f"sum by ({SITE}, user, partition) ({POWER})", f"sum by ({SITE}, user, partition) ({WASTED})",
                      _kwh(WASTED, f" by ({SITE}, user, partition)"), cost(WASTED, f" by ({SITE}, user, partition)")),
                     {"cluster": "Cluster", "user": "User", "partition": "Partition", "Value #A": "Power",
                      "Value #B": "Wasted now",
                      "Value #C": "Energy wasted", "Value #D": "Cost"}, unit="watt", order="-Wasted now",
                     special={"Energy wasted": column("kwatth"), "Cost": column(CURRENCY, decimals=2)},
                     empty=quiet(NONE))),
        (12, listing("Running jobs of the user that waste most", "Only the jobs that are published one by one "
                     "(waste.job_series); all of them are on the user's page.",
                     (f"sum by ({SITE}, job_id, user, partition) ({JOBS})",),
                     {"cluster": "Cluster", "job_id": "Job", "user": "User", "partition": "Partition",
                      "Value": "Wasted now"}, unit="watt",
                     order="-Wasted now", empty=quiet("none of their jobs is published"))))

"""One job, or a few: what the GPUs that it holds draw, how much of that does no work, since when."""

from __future__ import annotations

from .dashboard import as_json
from .panels import CURRENCY, JOB, SITE, Row, column, cost, lines, listing, number, quiet

POWER, WASTED = f"idlewatt_job_power_watts{{{JOB}}}", f"idlewatt_job_wasted_power_watts{{{JOB}}}"
START = f"idlewatt_job_start_timestamp_seconds{{{JOB}}}"
NONE = "the jobs that waste most are published, as many as waste.job_series says"
UNKNOWN = "not published, or not measured"
OF = f"{SITE}, job_id, user, account, partition"


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("job", "Job", "What the GPUs of a job draw and waste; every job, with its whole past, is on "
                   "idlewatt's own page.", ((4, _figures()), (10, _over_time()), (9, _table())), shows=("job_id",),
                   hours=6)


def _figures() -> Row:
    return (
        (6, number("Power of the job's GPUs", "What the GPUs of the chosen jobs draw now; their hosts are not in it.",
                   f"sum({POWER})", "watt", empty="not published")),
        (6, number("Wasted by the job now", "Part of it that does no work: idle, hung, or used too little. At "
                   "least so much while not all of its GPUs are measured.",
                   f"sum({WASTED})", "watt", steps=((None, "green"), (100.0, "orange")), empty=UNKNOWN)),
        (6, number("Wasted by the job in the time range", "Energy of these GPUs without work while it was published.",
                   f"{_kwh('')}", "kwatth", empty=UNKNOWN)),
        (6, number("Cost of what the job wasted", "The same in money, at the prices that idlewatt published.",
                   cost(WASTED), CURRENCY, decimals=2, empty=UNKNOWN)))


def _kwh(by: str) -> str:
    return f"sum{by} (sum_over_time({WASTED}[$__range:$__interval])) * $__interval_ms / 3.6e9"


def _over_time() -> Row:
    return (
        (24, lines("Power of the job over time", "Power of the GPUs of the chosen jobs, at most ten of them, and the "
                   "part of it that does no work.",
                   ((f"topk(10, sum by ({SITE}, job_id) ({POWER}))", "{{job_id}}"),
                    (f"topk(10, sum by ({SITE}, job_id) ({WASTED}))", "{{job_id}} wasted")), "watt",
                   empty=quiet(NONE))),)


def _table() -> Row:
    return (
        (24, listing("Jobs that are published", "Of the running jobs that waste most: whose they are, what they draw, "
                     "what of it does no work, when they started, what they wasted in the time range.",
                     (f"sum by ({OF}) ({POWER})", f"sum by ({OF}) ({WASTED})", f"max by ({OF}) ({START}) * 1000",
                      _kwh(f" by ({OF})"), cost(WASTED, f" by ({OF})")),
                     {"cluster": "Cluster", "job_id": "Job", "user": "User", "account": "Account",
                      "partition": "Partition",
                      "Value #A": "Power", "Value #B": "Wasted now", "Value #C": "Started", "Value #D": "Energy wasted",
                      "Value #E": "Cost"}, unit="watt", order="-Wasted now",
                     special={"Started": column("dateTimeFromNow"), "Energy wasted": column("kwatth"),
                              "Cost": column(CURRENCY, decimals=2)}, empty=quiet(NONE))),)

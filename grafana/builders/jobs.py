"""Jobs by partition and flavour: what waits and runs, and how those of the last day and week fared."""

from __future__ import annotations

from .dashboard import as_json
from .panels import PARTITION, SITE, Row, column, lines, listing, number, quiet

NONE = "no job has ended within it"


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("jobs", "Jobs", "How many jobs wait and run, how long they waited and ran in the last day and week: "
                   "where a change for the better would be seen.",
                   ((4, _figures()), (9, _now()), "The last day beside the last week", (9, _times()), (9, _shapes()),
                    (10, _tables())), shows=("partition",), hours=7 * 24)


def _of(metric: str, window: str) -> str:
    return f'idlewatt_{metric}{{{PARTITION}, window="{window}"}}'


def _mean(metric: str, window: str, by: str = "") -> str:
    """Return a mean over the jobs of all chosen partitions: means of groups weigh by their jobs."""
    jobs = _of("finished_jobs", window)
    return f"sum{by} ({_of(metric, window)} * {jobs}) / sum{by} ({jobs})"


def _figures() -> Row:
    def of_day(width: int, title: str, description: str, metric: str, unit: str) -> tuple[int, object]:
        return width, number(title, description, _mean(metric, "1d"), unit, empty="none or no data")

    queued, running = (f'idlewatt_jobs{{{PARTITION}, state="{state}"}}' for state in ("queued", "running"))
    return (
        (3, number("Jobs queued", "Jobs that wait; each task of an array counts.",
                   f"sum({queued}) or 0 * sum({running})", "locale")),
        (3, number("Jobs running", "Jobs that hold resources now; each task of an array counts.",
                   f"sum({running}) or 0 * sum({queued})", "locale")),
        (3, number("Jobs finished in a day", "Those that ran and ended within the last 24 hours.",
                   f"sum({_of('finished_jobs', '1d')})", "locale", empty="none or no data")),
        of_day(3, "Mean wait of a day", "From when jobs of the last 24 hours could start until they did.",
               "job_wait_mean_seconds", "s"),
        of_day(3, "Mean run time of a day", "How long the jobs ran that ended in the last 24 hours.",
               "job_run_mean_seconds", "s"),
        of_day(3, "Mean completion time of a day", "From when they could start to their end.",
               "job_completion_mean_seconds", "s"),
        of_day(3, "Mean slowdown of a day", "Completion over run time, both of at least 10 s; 1 is no wait.",
               "job_slowdown_mean_ratio", "short"),
        (3, number("Longest makespan of a day", "From the first submission of the last 24 hours to the last end: the "
                   "longest of a partition and flavour. All of them together may have taken longer.",
                   f"max({_of('job_makespan_seconds', '1d')})", "s", empty="none or no data")))


def _now() -> Row:
    queues = f"idlewatt_user_queued_jobs{{{PARTITION}}}"
    return (
        (12, lines("Jobs by flavour and state over time", "How many jobs of each flavour wait and run; '' are those "
                   "of no flavour.", ((f"sum by ({SITE}, flavour, state) (idlewatt_jobs{{{PARTITION}}})",
                                       "{{flavour}} {{state}}"),), "short")),
        (12, lines("Longest queues of users over time", "The ten users with most jobs that wait.",
                   ((f"topk(10, sum by ({SITE}, user) ({queues}))", "{{user}}"),), "short", stacked=True,
                   empty=quiet("nobody's job waits"))))


def _pairs(metric: str) -> tuple[tuple[str, str], ...]:
    by = f" by ({SITE}, flavour)"
    return tuple((_mean(metric, window, by), f"{{{{flavour}}}} {name}") for window, name in (("1d", "day"),
                                                                                         ("7d", "week")))


def _times() -> Row:
    return (
        (8, lines("Mean run time by flavour", "Of the jobs that ended within a day, and within a week, up to each "
                  "moment.", _pairs("job_run_mean_seconds"), "s", empty=quiet(NONE))),
        (8, lines("Mean wait by flavour", "From when these jobs could start until they did.",
                  _pairs("job_wait_mean_seconds"), "s", empty=quiet(NONE))),
        (8, lines("Mean completion time by flavour", "From when these jobs could start to their end.",
                  _pairs("job_completion_mean_seconds"), "s", empty=quiet(NONE))))


def _shapes() -> Row:
    return (
        (8, lines("Mean slowdown by flavour", "Completion over run time, both of at least 10 s; 1 is no wait.",
                  _pairs("job_slowdown_mean_ratio"), "short", empty=quiet(NONE))),
        (8, lines("Longest makespan by flavour", "From the first submission within a day, and a week, to the last end: "
                  "the longest of a partition and flavour.",
                  tuple((f"max by ({SITE}, flavour) ({_of('job_makespan_seconds', window)})", f"{{{{flavour}}}} {name}")
                        for window, name in (("1d", "day"), ("7d", "week"))), "s", empty=quiet(NONE))),
        (8, lines("Jobs finished by flavour", "How many ran and ended within the day before each moment.",
                  ((f"sum by ({SITE}, flavour) ({_of('finished_jobs', '1d')})", "{{flavour}}"),), "short",
                  empty=quiet(NONE))))


def _tables() -> Row:
    metrics = ("finished_jobs", "job_wait_mean_seconds", "job_run_mean_seconds", "job_completion_mean_seconds",
               "job_slowdown_mean_ratio", "job_makespan_seconds")
    headings = ("Jobs", "Wait", "Run time", "Completion", "Slowdown", "Makespan")
    times = {name: column("s") for name in ("Wait", "Run time", "Completion", "Makespan")}
    queue = tuple(f"sum by ({SITE}, user, partition) (idlewatt_user_queued_{what}{{{PARTITION}}})"
                  for what in ("jobs", "gpus"))
    return (
        (16, listing("Partitions and flavours in the last week", "How the jobs fared that ended within seven days.",
                     tuple(f"max by ({SITE}, partition, flavour) ({_of(metric, '7d')})" for metric in metrics),
                     {"cluster": "Cluster", "partition": "Partition", "flavour": "Flavour"} | {
                         f"Value #{letter}": heading for letter, heading in zip("ABCDEF", headings, strict=True)},
                     special=times | {"Jobs": column("locale")}, order="-Jobs", empty=quiet(NONE))),
        (8, listing("Queues of users now", "Jobs that wait and the GPUs that they ask for.", queue,
                    {"cluster": "Cluster", "user": "User", "partition": "Partition", "Value #A": "Jobs",
                     "Value #B": "GPUs"},
                    order="-Jobs", empty=quiet("nobody's job waits"))))

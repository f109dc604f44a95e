"""What ``idlewatt follow`` does: what stands, what became of it, what is left alone, and whether it is stopped."""

from __future__ import annotations

from .dashboard import as_json
from .panels import Row, lines, number

OWN = 'cluster=~"$cluster"'
"""Its page is scraped by a job of its own, whose name is the site's."""
RESULTS, ERRORS = (f"increase(idlewatt_follow_{what}_total{{{OWN}}}[$__rate_interval])"
                   for what in ("results", "errors"))
NOBODY = "nobody, or down"
NO_FOLLOWER = "nobody follows advice, or who does is down"


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("follow", "Following advice",
                   "What idlewatt follow changed on the scheduler, what became of it, and whether it is stopped.", (
                       (4, _state()), (4, _worth()), (9, _actions()), (9, _left()), (8, _standing())), own=False)


def _ended(state: str) -> str:
    return f'sum(increase(idlewatt_follow_results_total{{{OWN}, state="{state}"}}[$__range]))'


def _state() -> Row:
    return (
        (5, number("Mode of following", "Whether anything is changed, or only noted in the ledger.",
                   f"min(idlewatt_follow_dry_run{{{OWN}}})", "short", empty=NOBODY,
                   text={"0": ("acts", "orange"), "1": ("dry run", "blue")})),
        (5, number("Kill switch", "While it is thrown every change is taken back and none is made.",
                   f"max(idlewatt_follow_stopped{{{OWN}}})", "short", empty=NOBODY,
                   text={"0": ("not thrown", "green"), "1": ("thrown", "orange")})),
        (5, number("Advice to follow", "Whether advice can be believed: the daemon is up, fresh and not degraded.",
                   f"max(idlewatt_follow_silent{{{OWN}}})", "short", empty=NOBODY,
                   text={"0": ("believed", "green"), "1": ("none believed", "orange")})),
        (5, number("Changes in force", "Changes that stand on the scheduler while their jobs wait.",
                   f"sum(idlewatt_follow_changes{{{OWN}}})", "short", empty=NOBODY)),
        (4, number("Changes overdue", "Changes whose time is up and that have not been taken back.",
                   f"sum(idlewatt_follow_overdue_changes{{{OWN}}})", "short", empty=NOBODY,
                   steps=((None, "green"), (1.0, "red")))))


def _worth() -> Row:
    started = _ended("started")
    return (
        (6, number("Time to start", "Mean time from a change to the start of its job, of those that started in the "
                   "time range.", f"sum(increase(idlewatt_follow_start_wait_seconds_total{{{OWN}}}[$__range])) / "
                   f"({started} > 0)", "s", empty="none, or no data")),
        (6, number("Started where advised", "Jobs that started under a change in the time range.", started, "locale",
                   empty=NOBODY)),
        (6, number("Changes taken back", "Changes that were taken back in the time range.", _ended("taken_back"),
                   "locale", empty=NOBODY)),
        (6, number("Changes refused", "Changes that the scheduler refused in the time range.", _ended("refused"),
                   "locale", empty=NOBODY, steps=((None, "text"), (1.0, "orange")))))


def _actions() -> Row:
    return (
        (24, lines("Actions over time", "What became of changes, by attribute and state: required_nodes are pins.",
                   ((f"sum by (attribute, state) ({RESULTS}) > 0", "{{attribute}} {{state}}"),), "short",
                   empty=f"nothing was changed; or {NO_FOLLOWER}")),)


def _left() -> Row:
    return (
        (12, lines("Jobs left alone over time", "Jobs that are advised to start and were left alone, by reason.",
                   ((f"sum by (reason) (idlewatt_follow_passed_over_jobs{{{OWN}}}) > 0", "{{reason}}"),), "short",
                   stacked=True, empty=f"no job is left alone; or {NO_FOLLOWER}")),
        (12, lines("Failures over time", "slurm: it did not answer; ledger: it could not be written; taking_back: "
                   "Slurm refused to take a change back.",
                   ((f"sum by (part) ({ERRORS})", "{{part}}"),), "short", empty=NO_FOLLOWER)))


def _standing() -> Row:
    return (
        (12, lines("Changes in force over time", "Changes that stand while their jobs wait, by attribute.",
                   ((f"sum by (attribute) (idlewatt_follow_changes{{{OWN}}})", "{{attribute}}"),), "short",
                   stacked=True, empty=NO_FOLLOWER)),
        (12, lines("Age of the oldest change over time", "It never exceeds start_within by more than a look.",
                   ((f"max(idlewatt_follow_oldest_change_seconds{{{OWN}}})", "oldest"),), "s",
                   empty=NO_FOLLOWER)))

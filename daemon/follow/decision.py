"""What to do: a pure function of what is seen and what is allowed, so that every case of it can be tried."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...storage.follow import Attribute, FollowChange
from ..settings.follow import FollowSettings
from .sight import ACTIVE, CALLED_OFF, PENDING, RAN, Advised, QueuedJob, Sight, spelled

Fate = Literal["keep", "confirm", "started", "ended", "edited", "lapsed", "take_back", "taken_back"]
RATE_S = 60.0
CLOCKS_APART_S = 5.0
"""A clock that is kept right is set back by less."""
OVERTAKEN = "its owner edited it at the same moment; what it overtook is set again"
LARGEST_NICE = 2_000_000_000
PASSED_OVER = ("partition", "user", "policy", "plain", "command", "unknown", "not_pending", "resubmitted", "pinned",
               "open", "refused", "waited", "at_once", "per_minute", "changed", "stale", "unreadable")
"""Why a job that is advised to start is left alone."""


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """What becomes of one change that may still stand, and why."""

    change: FollowChange
    fate: Fate
    why: str = ""
    found: str = ""
    """The value that the scheduler has; '' where it does not know the job."""


@dataclass(frozen=True, slots=True)
class WantedChange:
    """A change that should be made."""

    advised: Advised
    job: QueuedJob
    attribute: Attribute
    before: str
    after: str
    deadline_s: float


def verdicts(sight: Sight, rules: FollowSettings) -> list[ChangeVerdict]:
    """Return what becomes of each change that may still stand."""
    return [_verdict(change, sight, rules) for change in sight.open]


def _verdict(change: FollowChange, sight: Sight, rules: FollowSettings) -> ChangeVerdict:
    if change.dry_run and change.process != sight.process:
        return ChangeVerdict(change, "ended", "a dry run that is over")
    job = sight.jobs.get(change.job_id)
    if job is not None and not job.understood:
        return ChangeVerdict(change, "keep", "what the scheduler tells of the job is not understood")
    if job is None or (job.state in CALLED_OFF and change.state != "started"):
        return ChangeVerdict(change, "ended", "the job is over")
    present = job.value(change.attribute)
    if not job.pending:
        fate: Fate = "started" if job.state in (*ACTIVE, *RAN) and change.state != "started" else "keep"
        return ChangeVerdict(change, fate, "the job has started", present)
    if change.overtaken is not None and present in (change.after, change.before):
        return ChangeVerdict(change, "take_back", OVERTAKEN, present)
    if present != change.after:
        return _elsewhere(change, present, sight)
    why = _against(change, sight, rules)
    if why:
        return ChangeVerdict(change, "take_back", why, present)
    return ChangeVerdict(change, "keep" if change.state == "pinned" else "confirm", "", present)


def _elsewhere(change: FollowChange, current: str, sight: Sight) -> ChangeVerdict:
    """Return what becomes of a change whose value is not the scheduler's."""
    if current != change.before:
        return ChangeVerdict(change, "edited", "somebody else changed it", current)
    if change.state == "taking_back":
        return ChangeVerdict(change, "taken_back", change.why, current)
    if change.state != "intended":
        return ChangeVerdict(change, "edited", "somebody else took it back", current)
    # The command may still be on its way, even if the process that gave it is dead.
    if sight.now_s < change.deadline_s:
        return ChangeVerdict(change, "keep", "", current)
    return ChangeVerdict(change, "lapsed", "it was never seen on the scheduler", current)


def _against(change: FollowChange, sight: Sight, rules: FollowSettings) -> str:
    """Return why a change of ours that stands should not; '' where it should."""
    reasons = (
        (change.state == "taking_back", change.why),
        (change.process != sight.process, "left behind by a former process"),
        (sight.stopped, "the kill switch is thrown"),
        (change.state == "started", "the job was requeued"),
        (sight.now_s >= change.deadline_s, "the job has not started in time"),
        (set_back(change, sight.now_s), "the clock was set back: nobody knows how long the job has waited"),
        (not _allowed(change, rules), "no longer on the allow-list"),
        (bool(sight.advice.silence), f"no advice: {sight.advice.silence}"),
        (not sight.advised(change), "the advice has changed"))
    return next((why or "taken back" for applies, why in reasons if applies), "")


def set_back(change: FollowChange, now_s: float) -> bool:
    """Tell whether the clock was set back since a change was noted, so that its time would be up too late."""
    return now_s < change.intended_s - CLOCKS_APART_S


def _allowed(change: FollowChange, rules: FollowSettings) -> bool:
    allow = rules.allow
    return (change.partition in allow.partitions and change.attribute in allow.actions
            and _user_allowed(change.user, rules))


def _user_allowed(user: str, rules: FollowSettings) -> bool:
    return any(fnmatch.fnmatchcase(user, pattern) for pattern in rules.allow.users)


def wishes(sight: Sight, rules: FollowSettings) -> tuple[list[WantedChange], Counter[str]]:
    """Return the changes that should be made now, the most urgent first, and why others should not."""
    passed, made = Counter[str](sight.advice.passed_over), list[WantedChange]()
    if sight.stopped or sight.advice.silence:
        return made, passed
    room = rules.limits.at_once - sum(change.state != "started" for change in sight.open)
    lately = sum(sight.now_s - change.intended_s < RATE_S for change in _as_now(sight, rules))
    pace = rules.limits.per_minute - lately
    for advised, job, attribute in _permitted(sight, rules, passed):
        wish = _wish(advised, job, attribute, sight, rules)
        if isinstance(wish, str):
            passed[wish] += 1
        elif len(made) >= min(room, pace):
            passed["at_once" if room <= pace else "per_minute"] += 1
        else:
            made.append(wish)
    return made, passed


def _as_now(sight: Sight, rules: FollowSettings) -> Iterator[FollowChange]:
    """Yield the changes of before that were made in earnest, or in a dry run where this is one, too."""
    return (change for change in sight.lately if change.dry_run == rules.dry_run)


def _permitted(sight: Sight, rules: FollowSettings, passed: Counter[str]) \
        -> Iterator[tuple[Advised, QueuedJob, Attribute]]:
    """Yield what the allow-list lets through."""
    meant = set[str]()
    for advised in sight.advice.starts:
        job = sight.meant(advised)
        if job is None:
            passed["unknown"] += 1
        elif job.job_id in meant or sight.followed(advised):
            passed["open"] += 1
        elif (why := _why_not(advised, job, rules)) is not None:
            passed[why] += 1
        else:
            meant.add(job.job_id)
            for attribute in rules.allow.actions:
                yield advised, job, attribute


def _why_not(advised: Advised, job: QueuedJob, rules: FollowSettings) -> str | None:
    reasons = (
        ("unreadable", not job.understood),
        ("partition", job.partition not in rules.allow.partitions or job.partition != advised.partition),
        ("user", not _user_allowed(job.user, rules)),
        ("policy", rules.policy not in ("", advised.policy, advised.policy.partition("@")[0])),
        ("plain", not job.plain),
        ("command", not advised.plain or (advised.task and job.array != advised.job_id)),
        ("not_pending", job.state != PENDING),
        ("resubmitted", abs(job.submit_s - advised.submit_s) >= 1.5))
    return next((reason for reason, applies in reasons if applies), None)


def _wish(advised: Advised, job: QueuedJob, attribute: Attribute, sight: Sight,
          rules: FollowSettings) -> WantedChange | str:
    """Return the change that is wanted, or why there is none."""
    if any(change.job_id == job.job_id and change.attribute == attribute for change in sight.open):
        return "open"
    if attribute == "required_nodes" and job.nodes:
        return "pinned"
    after = spelled(advised.nodes) if attribute == "required_nodes" else str(job.nice + rules.nice)
    if attribute == "nice" and abs(int(after)) > LARGEST_NICE:
        return "pinned"
    before = [change for change in _as_now(sight, rules) if change.job_id == job.job_id]
    if any(change.state == "refused" and (change.attribute, change.after) == (attribute, after)
           and sight.now_s - change.intended_s < rules.start_within for change in before):
        return "refused"
    left = rules.start_within - sum(change.waited_s(sight.now_s) for change in before)
    if left < 2 * rules.every:
        return "waited"
    # A look before the time is up: the next one would be too late.
    return WantedChange(advised, job, attribute, job.value(attribute), after, sight.now_s + left - rules.every)

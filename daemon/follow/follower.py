"""One look at a time: what was changed is taken back, confirmed or let go; what should be changed is noted and done."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...storage.follow import FollowChange, State
from ...storage.follow_ledger import FollowLedger
from ..settings.follow import FollowSettings
from .decision import OVERTAKEN, ChangeVerdict, WantedChange, set_back, verdicts, wishes
from .sight import BelievedAdvice, QueuedJob, Sight
from .slurm import Scheduler, SlurmRefused

log = logging.getLogger(__name__)

DAY_S = 86400.0
MOST_OVERTAKEN = 3
"""So often what its owner edits in the very moment is set again; one who edits that often is at it still."""
Ask = Callable[[float], BelievedAdvice]


@dataclass
class FollowCounts:
    """What has been done since the start, and how the last look went."""

    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By attribute and state."""
    errors: Counter[str] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)
    standing: tuple[FollowChange, ...] = ()
    silence: str = ""
    stopped: bool = False
    looked_s: float | None = None
    waited_s: float = 0.0
    """From changes to the starts of their jobs, all together."""


class Follower:
    """Follows advice on one scheduler; everything that is done is in the ledger before it is done."""

    def __init__(self, rules: FollowSettings, scheduler: Scheduler, ledger: FollowLedger, ask: Ask, process: str,
                 clock: Callable[[], float] = time.time, *, only_dry: bool = False) -> None:
        self._rules, self._scheduler, self._ledger, self._ask = rules, scheduler, ledger, ask
        self._process, self._clock, self._only_dry = process, clock, only_dry
        self._lately: dict[int, FollowChange] = {}
        self._recalled = frozenset[str]()
        """Jobs of which the ledger was read from its beginning."""
        self._recall(ledger.changes(clock() - DAY_S))
        self.tally = FollowCounts()

    def look(self) -> None:
        """Look once and act; raises SlurmError or StoreError where nothing can be done now."""
        now_s = self._clock()
        stopped = thrown(self._rules.kill_switch)
        # Without leave to act no command is run: it would only be refused.
        advice = BelievedAdvice(silence="the kill switch is thrown") if stopped else self._ask(now_s)
        sight = self._sight(now_s, advice, stopped)
        self.tally.silence, self.tally.stopped = advice.silence, stopped
        self._judge(verdicts(sight, self._rules))
        wanted, self.tally.passed_over = wishes(self._sight(self._clock(), advice, stopped), self._rules)
        for wish in wanted:
            self._follow(wish)
        self.tally.standing = self._ledger.open_changes()
        self.tally.looked_s = self._clock()

    def take_all_back(self, why: str) -> int:
        """Take back all changes that stand, whichever process made them; return how many may still be left."""
        sight = self._sight(self._clock(), BelievedAdvice(silence=why), stopped=False)
        judged = verdicts(sight, self._rules)
        self._judge(replace(verdict, why=why)
                    if verdict.fate == "take_back" and verdict.change.process == self._process else verdict
                    for verdict in judged)
        self.tally.standing = self._ledger.open_changes()
        return sum(change.state in ("intended", "done", "pinned", "taking_back") for change in self.tally.standing)

    def take_back_overdue(self, grace_s: float) -> int:
        """Take back what its process should have taken back itself some time ago; return how much may be left."""
        late = [change for change in self._ledger.open_changes() if self._overdue(change, grace_s)]
        jobs = self._scheduler.jobs(change.job_id for change in late)
        sight = Sight(self._clock(), jobs, BelievedAdvice(silence="its process hangs"), tuple(late), (), "")
        self._judge(verdicts(sight, self._rules))
        return sum(change.state != "started" and self._overdue(change, grace_s)
                   for change in self._ledger.open_changes())

    def _overdue(self, change: FollowChange, grace_s: float) -> bool:
        now_s = self._clock()
        return now_s > change.deadline_s + grace_s or set_back(change, now_s)

    def _sight(self, now_s: float, advice: BelievedAdvice, stopped: bool) -> Sight:
        # A scheduler on which nothing is changed takes nothing back that was changed in earnest.
        open_changes = tuple(change for change in self._ledger.open_changes() if change.dry_run or not self._only_dry)
        jobs = self._scheduler.jobs([change.job_id for change in open_changes]
                                    + [start.job_id for start in advice.starts])
        if new := jobs.keys() - self._recalled:
            self._recall(self._ledger.changes_of(new))
        self._recalled = frozenset(jobs)
        self._lately = {number: change for number, change in self._lately.items()
                        if change.intended_s > now_s - DAY_S or change.job_id in jobs}
        return Sight(now_s, jobs, advice, open_changes, tuple(self._lately.values()), self._process, stopped)

    def _judge(self, judged: Iterable[ChangeVerdict]) -> None:
        for verdict in judged:
            if verdict.fate == "take_back":
                self._take_back(verdict)
            elif verdict.fate == "confirm":
                self._note(verdict.change, "pinned", "", verdict.found, confirmed_s=self._clock())
            elif verdict.fate == "started":
                self._start(verdict)
            elif verdict.fate != "keep":
                self._note(verdict.change, verdict.fate, verdict.why, verdict.found, ended_s=self._clock())

    def _start(self, verdict: ChangeVerdict) -> None:
        now_s = self._clock()
        if self._note(verdict.change, "started", verdict.why, verdict.found, started_s=now_s).open:
            self.tally.waited_s += max(0.0, now_s - verdict.change.intended_s)

    def _follow(self, wish: WantedChange) -> None:
        """Note a change, make it, note that, and see whether it stands."""
        if self._job(wish.job.job_id) != wish.job:
            self.tally.passed_over["changed"] += 1  # since it was looked at: the next look sees what it is now
            log.info("passed over", extra={"target": wish.job.job_id, "reason": "it changed meanwhile"})
            return
        change = self._intend(wish)
        job = self._job(change.job_id)  # the note had to reach the disk, which may have taken long
        if job is None or not job.pending or job.value(change.attribute) != change.before:
            value = "" if job is None else job.value(change.attribute)
            self._note(change, "edited", "somebody else changed it before ours was made", value, ended_s=self._clock())
        elif self._clock() < change.deadline_s:  # else stopped for long: nobody expects it any more
            self._make(change)

    def _make(self, change: FollowChange) -> None:
        """Make a change that is noted; an edit that it overtakes is noted with it, for when it is taken back."""
        try:
            stood = self._scheduler.change(change.job_id, change.attribute, change.after)
        except SlurmRefused as refusal:
            self._refused(change, str(refusal))
            return
        overtook = stood not in (None, change.before, change.after)
        self._see(self._note(change, "done", OVERTAKEN if overtook else "", stood or "" if overtook else "",
                             done_s=self._clock()))

    def _refused(self, change: FollowChange, words: str) -> None:
        """Note that Slurm refused a change, if it did: what it says, and what it has, may differ."""
        job = self._job(change.job_id)
        if job is not None and job.pending and job.value(change.attribute) == change.after:
            self._see(self._note(change, "done", words, "", done_s=self._clock()))
            return
        self._note(change, "refused", words, change.before, ended_s=self._clock())
        log.warning("refused", extra={"target": change.job_id, "reason": words})

    def _job(self, job_id: str) -> QueuedJob | None:
        return self._scheduler.jobs([job_id]).get(job_id)

    def _intend(self, wish: WantedChange) -> FollowChange:
        advised, job = wish.advised, wish.job
        change = FollowChange(job.job_id, job.submit_s, job.user, job.partition, wish.attribute, wish.before,
                              wish.after,
                              advised.policy, advised.issued_s, advised.snapshot_s, self._clock(), wish.deadline_s,
                              self._process, self._rules.dry_run)
        change = replace(change, id=self._ledger.intend(change))
        self._remember(change)
        return change

    def _see(self, change: FollowChange) -> None:
        """Read a change back from the scheduler."""
        sight = Sight(self._clock(), self._scheduler.jobs([change.job_id]), BelievedAdvice(), (change,), (),
                      self._process)
        job = sight.jobs.get(change.job_id)
        if not change.open:  # a guard has given it up meanwhile
            if job is not None and job.pending and job.value(change.attribute) == change.after:
                self._scheduler.change(change.job_id, change.attribute, change.before)
        elif (change.overtaken is None and job is not None and job.pending
              and job.value(change.attribute) == change.after):
            self._note(change, "pinned", "", change.after, confirmed_s=self._clock())
            log.info("followed", extra={"target": change.job_id, "what": f"{change.attribute} {change.after}"})
        else:
            self._judge(verdicts(sight, self._rules))

    def _take_back(self, verdict: ChangeVerdict) -> None:
        """Give a job its former value, or its owner's that ours overtook, if the present one is still ours."""
        owners = verdict.change.overtaken
        change = self._note(verdict.change, "taking_back", verdict.why, owners or verdict.found,
                            taking_back_s=self._clock())
        job = self._job(change.job_id)
        if job is None or not job.pending or job.value(change.attribute) != verdict.found:
            return  # the next look tells what became of it
        try:
            change = self._give(change, verdict.found, owners or change.before)
        except SlurmRefused as refusal:
            self.tally.errors["taking_back"] += 1
            log.error("not taken back", extra={"target": change.job_id, "reason": str(refusal)})
            return
        job = self._job(change.job_id)
        if job is not None and not job.understood:
            return
        if job is None or not job.pending or job.value(change.attribute) != change.after:
            value = job.value(change.attribute) if job is not None else ""
            self._note(change, "taken_back" if change.overtaken is None else "edited", change.why, value,
                       ended_s=self._clock())
            log.info("taken back", extra={"target": change.job_id, "reason": change.why})

    def _give(self, change: FollowChange, standing: str, value: str) -> FollowChange:
        """Set a value in place of ours, and again each one of its owner's that this overtakes; return how it stands."""
        for _ in range(MOST_OVERTAKEN):
            stood = self._scheduler.change(change.job_id, change.attribute, value)
            if stood in (None, standing, value):
                break
            change = self._note(change, "taking_back", OVERTAKEN, stood or "", taking_back_s=self._clock())
            standing, value = value, stood or ""
        return change

    def _note(self, change: FollowChange, state: State, why: str, current: str, **moments: float) -> FollowChange:
        """Write how a change stands; one that is over already stays so, and is returned as over."""
        known = replace(change, state=state, why=why, found=current, **moments)  # type: ignore[arg-type]
        if not self._ledger.move(known):
            return replace(change, state="ended")
        self.tally.results[change.attribute, state] += 1
        self._remember(known)
        return known

    def _remember(self, change: FollowChange) -> None:
        self._recall([change])

    def _recall(self, changes: Iterable[FollowChange]) -> None:
        self._lately |= {change.id: change for change in changes if change.id is not None}


def thrown(kill_switch: Path) -> bool:
    """Tell whether the kill switch is thrown; one that cannot be looked at is."""
    try:
        kill_switch.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True

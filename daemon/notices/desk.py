"""The desk of notices: looks, decides which are due, records and delivers them, and keeps what could not be delivered.

The ledger is kept in memory and written to the history; it is read from there once, at the start, so that nobody is
notified twice by a daemon that was restarted, and nobody is notified while it cannot be read. In memory are the last
weeks and the notices about jobs that are still there, however old.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ...storage.errors import StoreError
from ...storage.history import History
from ...storage.notice_reading import Run
from ...storage.notices import Key, Notice
from ...storage.records import SchedulerSnapshot
from ..cycles import Cycle
from ..degraded import Undelivered
from ..efficiency import EnergyBook
from ..facts import Known
from ..pricing import Costing
from ..settings.sections import Sections
from ..waste import Assessment
from . import digests, gathering, rules, stages
from .delivery import Delivery
from .rules import Finding
from .texts import Texts

log = logging.getLogger(__name__)

REMEMBERED_S = 60 * 86400.0
"""How far back the ledger is read and kept, unless something that is set lasts longer."""


class Notifier:
    """Tells people; one thread at a time."""

    def __init__(self, settings: Sections, history: History, clock: Callable[[], float],
                 ledger: dict[Key, Notice] | None = None) -> None:
        self._all, self._settings, self._history, self._clock = settings, settings.notices, history, clock
        self._texts = Texts(self._settings.templates, self._settings.page_url, settings.cluster)
        self._delivery = Delivery(self._settings, self._texts, clock)
        self._ledger, self._lock = ledger, threading.Lock()
        self._recalled = set[Run]()
        """Long runs of which every recorded notice is read."""
        self.undelivered = self._behind()
        """What was tried and waits; None when nothing does, or notices are off."""

    def renewed(self, settings: Sections) -> Notifier:
        """Return a desk by other settings that goes on with the same ledger."""
        return Notifier(settings, self._history, self._clock, self._ledger)

    def cycles(self, standing: Callable[[], Known]) -> Iterator[Cycle]:
        """Yield the cycle that looks for findings, where notices are configured."""
        if self._settings.enabled:
            yield Cycle("notices", self._settings.every, lambda: self.look(standing()), self._settings.every)

    def counts(self) -> dict[tuple[str, str, str], float]:
        """Return how many notices of the last weeks there are by rule, stage and state."""
        counts: dict[tuple[str, str, str], float] = {}
        since_s = self._clock() - REMEMBERED_S
        with self._lock:
            for entry in (self._ledger or {}).values():
                if entry.updated_s >= since_s:
                    key = entry.rule, entry.stage, entry.state
                    counts[key] = counts.get(key, 0.0) + 1.0
        return counts

    def look(self, known: Known) -> None:
        """Do one round; StoreError or OSError, and no notice, while ledger or opt-outs cannot be read."""
        now_s = self._clock()
        if self._ledger is None:
            read = self._history.notices(now_s - self._remembered_s)
            with self._lock:
                self._ledger = {notice.key: notice for notice in read}
                self.undelivered = self._behind()
        opted_out = self._opted_out()
        snapshot = None if known.old else known.snapshot
        if snapshot is None:
            self._delivery.present = set()  # what cannot be observed now is not notified now
        else:
            self._consider(snapshot, known.assessment, now_s)
        if not self._settings.dry_run:
            self._delivery.deliver(self._known(), opted_out, now_s, self._book)
        book = EnergyBook(self._history, self._costing, self._clock)
        digests.deliver(self._all, self._known(), book, known, self._clock, self._book)

    @property
    def _costing(self) -> Costing:
        return Costing(self._all.costs, self._all.waste.pue)

    def findings(self, snapshot: SchedulerSnapshot, assessment: Assessment | None, now_s: float) -> list[Finding]:
        """Return what every rule finds."""
        known = gathering.facts(snapshot, assessment, self._history, self._costing, now_s)
        return list(rules.found(self._settings, known, self._all.waste.interactive_partitions))

    def _consider(self, snapshot: SchedulerSnapshot, assessment: Assessment | None, now_s: float) -> None:
        findings = self.findings(snapshot, assessment, now_s)
        self._recall({finding.run for finding in findings}, now_s)
        self._delivery.present = {(finding.rule.called, finding.run) for finding in findings}
        figures = {id(finding): self._texts.figures(finding) for finding in findings}
        ledger = self._known()
        fresh = list(stages.new(findings, ledger, self._settings, now_s, figures))
        waiting = self._renewed(ledger, findings, figures)
        running = {(job.job_id, job.submit_s, job.start_s or 0.0) for job in snapshot.jobs if job.state.active}
        if not snapshot.whole:  # a job that is not in it may run under the scheduler that is missing
            running |= {notice.run for notice in ledger.values()}
        gone = list(stages.over(ledger, findings, running, now_s, self._settings.give_up))
        self._book([*waiting, *fresh, *gone])
        self._forget({(job.job_id, job.submit_s, job.start_s or 0.0) for job in snapshot.jobs}, now_s)

    @property
    def _remembered_s(self) -> float:
        """Return for how long notices about a run that is gone may matter."""
        escalation = self._settings.escalation
        return max(REMEMBERED_S, self._settings.per_user, self._settings.give_up, escalation.second_after or 0.0,
                   escalation.admins_after or 0.0)

    def _recall(self, runs: set[Run], now_s: float) -> None:
        """Read all notices about runs that began before the ledger does; StoreError when it cannot be read."""
        long = {run for run in runs if run[2] < now_s - self._remembered_s}
        if long - self._recalled:
            known = {notice.key: notice for notice in self._history.notices_of(long - self._recalled)}
            with self._lock:
                if self._ledger is not None:
                    self._ledger |= known | self._ledger
        self._recalled = long

    def _forget(self, runs: set[Run], now_s: float) -> None:
        """Forget old notices about runs that are not there any more; they stay in the history."""
        since_s = now_s - self._remembered_s
        with self._lock:
            ledger = self._ledger or {}  # itself, which a desk by newer settings may share
            for key, notice in list(ledger.items()):
                if notice.updated_s < since_s and notice.state != "waiting" and notice.run not in runs:
                    del ledger[key]

    def _renewed(self, ledger: dict[Key, Notice], findings: Iterable[Finding], figures: dict[int, dict[str, object]]) \
            -> list[Notice]:
        """Return waiting notices with their present words: what is sent must be true when it is read."""
        waiting: dict[tuple[str, Run], list[Notice]] = {}
        for notice in ledger.values():
            if notice.state == "waiting":
                waiting.setdefault((notice.rule, notice.run), []).append(notice)
        return [replace(notice, words=finding.note.words, fix=finding.note.fix, figures=figures[id(finding)])
                for finding in findings for notice in waiting.get((finding.rule.called, finding.run), ())]

    def _known(self) -> dict[Key, Notice]:
        with self._lock:
            return dict(self._ledger or {})

    def _book(self, notices: Iterable[Notice]) -> None:
        """Write notices down, in memory at once: whether the database takes them now or later is its own matter."""
        some = list(notices)
        if not some:
            return
        with self._lock:
            if self._ledger is not None:
                self._ledger |= {notice.key: notice for notice in some}
                self.undelivered = self._behind()
        try:
            self._history.record_notices(some)
        except StoreError as error:
            log.error("notices cannot be written down now; they are kept", extra={"error": str(error)})

    def _behind(self) -> Undelivered | None:
        meant = self._settings.enabled and not self._settings.dry_run
        return _undelivered(self._ledger) if meant and self._ledger else None

    def _opted_out(self) -> set[str]:
        """Return the users who opted out; StoreError or OSError when that cannot be known now."""
        names = set(self._history.opted_out())
        file = self._settings.opt_out_file
        if file is not None:
            names |= {line.strip() for line in file.read_text("utf-8", "replace").splitlines() if line.strip()}
        return names


def _undelivered(ledger: dict[Key, Notice]) -> Undelivered | None:
    behind = [entry for entry in ledger.values() if entry.state == "waiting" and entry.tries]
    if not behind:
        return None
    return Undelivered(len(behind), min(entry.found_s for entry in behind),
                       max(behind, key=lambda entry: entry.updated_s).why)

"""The daemon's cycles and the sources they read: each on a thread of its own, so that one that hangs stops no other.

A cycle runs on its own beat, never overlaps itself, never drifts, and is counted. It asks for the roles of sources and
takes what has come in by then; what comes later is there for its next run. Each fact bears the time at which it was
asked for, and code that uses it judges by that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from ..exporters.deadline import Errand
from ..exporters.source import FAULTS, Accounting, Clock, Facts, Role, SourceError, Watched
from ..storage.records import Job, SchedulerSnapshot
from ..storage.telemetry import Telemetry
from .merged_schedulers import merged
from .submission_keys import SubmissionKeys

log = logging.getLogger(__name__)

WITH_JOBS: tuple[Role, ...] = ("scheduler", "topology", "grid")
"""Roles of the sources that are read when jobs are."""
SLACK_S = 1.0
"""A beat further away than its period by more than this was put there by a clock set back."""
_CLOSE_S = 0.3
"""How long closing is waited for: thousands of connections close by themselves when the process ends."""


class _Reader:
    """One source with its thread."""

    def __init__(self, watched: Watched, notify: Callable[[], None]) -> None:
        self.watched = watched
        self.ended = self.taken = 0
        """Reads that have ended, and how many of these were reported to a caller."""
        self.errand = Errand(f"read-{watched.name}", self._read, notify)

    def _read(self) -> None:
        self.watched.read()
        self.ended += 1


class Collection:
    """Reads sources for callers, and waits for none of them longer than its limit."""

    def __init__(self, sources: Sequence[Watched], before: Collection | None = None) -> None:
        self.sources = list(sources)
        self._change = threading.Condition()
        self._readers: list[_Reader]
        reading: dict[Watched, _Reader] = {reader.watched: reader for reader in before._readers} if before else {}
        # A source that goes on keeps its thread, so that a read that never ends is not begun once more.
        self._readers = [reading.get(watched) or _Reader(watched, self._notify) for watched in self.sources]
        for reader in self._readers:
            reader.errand.then = self._notify
        self._closed = False

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Return the names of the schedulers' sources."""
        return tuple(watched.name for watched in self.of("scheduler"))

    def of(self, role: str) -> list[Watched]:
        """Return the sources of a role."""
        return [watched for watched in self.sources if watched.role == role]

    def read(self, *roles: Role, within_s: float) -> Iterator[list[Watched]]:
        """Ask the sources of these roles at once; yield those that have been read, as often as some have.

        It ends when all have been read, when ``within_s`` has passed, or at once when the collection is closed. A read
        that is still under way from before is waited for and not begun again.
        """
        deadline = time.monotonic() + within_s
        readers = [reader for reader in self._readers if reader.watched.role in roles]
        for reader in readers:
            if not self._closed:
                reader.errand.begin()
        while True:
            with self._change:
                self._change.wait_for(lambda: self._over(readers) or any(r.ended > r.taken for r in readers),
                                      max(0.0, deadline - time.monotonic()))
                over = self._over(readers) or time.monotonic() >= deadline
                news = [reader for reader in readers if reader.ended > reader.taken]
                for reader in news:
                    reader.taken = reader.ended
            if news:
                yield [reader.watched for reader in news]
            if over:
                return

    def facts(self, *roles: Role) -> list[Facts]:
        """Return what is known by now from the sources of these roles."""
        all_facts = [watched.facts() for watched in self.sources if watched.role in roles]
        return [facts for facts in all_facts if facts is not None]

    def telemetry(self) -> Telemetry:
        """Return every reading that is known by now, each with its own time."""
        telemetries = [facts for facts in self.facts("telemetry") if isinstance(facts, Telemetry)]
        return Telemetry(tuple(gpu for facts in telemetries for gpu in facts.gpus),
                         tuple(node for facts in telemetries for node in facts.nodes),
                         tuple(job for facts in telemetries for job in facts.jobs),
                         tuple(enclosure for facts in telemetries for enclosure in facts.enclosures),
                         tuple(name for facts in telemetries for name in facts.left),
                         tuple(meter for facts in telemetries for meter in facts.meters))

    def snapshot(self, now_s: float, max_age_s: float, keys: SubmissionKeys) -> SchedulerSnapshot | None:
        """Return what the schedulers say, as one; None before the first has answered."""
        snapshots = [keys.snapshot(watched.name, facts)
                     if isinstance(facts := watched.facts(), SchedulerSnapshot) else None
                     for watched in self.of("scheduler")]
        return merged(snapshots, now_s, max_age_s)

    def accounts(self, clock: Clock) -> list[Accounts]:
        """Return the accounts of the schedulers that keep some."""
        return [Accounts(watched.name, watched.source, clock) for watched in self.of("scheduler")
                if isinstance(watched.source, Accounting)]

    def let_go(self) -> None:
        """End all waiting at once, begin no more reads."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def leave(self, but: Sequence[Watched] = ()) -> None:
        """Close every source but those that somebody else goes on with; what takes long to close is not waited for."""
        self.let_go()
        closing = [Errand(f"close-{watched.name}", watched.close) for watched in self.sources if watched not in but]
        deadline = time.monotonic() + _CLOSE_S
        for errand in closing:
            errand.begin()
        for errand in closing:
            errand.wait(max(0.0, deadline - time.monotonic()))

    def _over(self, readers: Sequence[_Reader]) -> bool:
        return self._closed or not any(reader.errand.under_way for reader in readers)

    def _notify(self) -> None:
        with self._change:
            self._change.notify_all()


@dataclass(frozen=True, slots=True)
class Accounted:
    """What the accounts reported of jobs that ended."""

    requested_s: float
    jobs: tuple[Job, ...]


class Accounts:
    """The accounts of one scheduler, read on a thread of their own: they may take their time, or hang."""

    def __init__(self, name: str, source: Accounting, clock: Clock) -> None:
        self.name, self._source, self._clock = name, source, clock
        self._since_s = 0.0
        self._answer: Accounted | None = None
        self._errand = Errand(f"accounts-{name}", self._ask)

    def finished(self, since_s: float, within_s: float) -> Accounted | None:
        """Return the jobs that ended since a time, None while the answer is awaited: it comes with a later call."""
        if not self._errand.under_way:
            self._since_s = since_s
            self._errand.begin()
        self._errand.wait(within_s)
        answer, self._answer = self._answer, None
        return answer

    def _ask(self) -> None:
        requested_s = self._clock()
        try:
            self._answer = Accounted(requested_s, tuple(self._source.completed(self._since_s)))
        except SourceError as error:
            log.warning("accounting cannot be read", extra={"target": self.name, "error": str(error)})
        except FAULTS:
            log.exception("a fault in idlewatt itself while reading accounting", extra={"target": self.name})


@dataclass(frozen=True, slots=True)
class Cycle:
    """Something done again and again."""

    name: str
    period_s: float
    run: Callable[[], None]
    offset_s: float = 0.0
    """Delay of the first run, so that a cycle finds what another has just brought."""
    after: tuple[str, ...] = ()
    """The first run comes at once when each of these has run, if that is before its time."""


@dataclass(frozen=True, slots=True)
class CycleHealth:
    """How a cycle has fared; times are of the monotonic clock unless they say otherwise, None until it happened."""

    runs: int = 0
    failures: int = 0
    overruns: int = 0
    """Beats that were skipped because the run before had not ended."""
    last_duration_s: float | None = None
    last_end_s: float | None = None
    ended_at_s: float | None = None
    """When the last run ended, in seconds since the epoch."""
    period_s: float = 0.0
    began_s: float | None = None
    """When the run began that goes on now; None between runs."""
    running_s: float | None = None
    """For how long it has gone on, at the moment of asking."""
    failed: bool = False
    """Whether the last run did."""


class CycleScheduler:
    """Runs cycles: APScheduler strikes, each run has a thread of its own, one run of a cycle at a time.

    A cycle that raises is logged with its traceback, counted, and runs again at its next beat: the edge of the loop
    is the one place where any exception is caught.
    """

    def __init__(self, cycles: Iterable[Cycle], clock: Callable[[], float] = time.monotonic,
                 wall: Callable[[], float] = time.time) -> None:
        self._cycles = {cycle.name: cycle for cycle in cycles}
        self._clock, self._wall = clock, wall
        self._started_s = clock()
        self._lock = threading.Condition()
        self._health = {name: CycleHealth(period_s=cycle.period_s) for name, cycle in self._cycles.items()}
        self._stopping = False
        self._scheduler = BackgroundScheduler(
            timezone=UTC, executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": len(self._cycles) + 1, "misfire_grace_time": None})

    def start(self) -> None:
        """Start beating."""
        self._started_s, now = self._clock(), datetime.now(UTC)
        for cycle in self._cycles.values():
            self._scheduler.add_job(self._strike, "interval", args=[cycle], id=cycle.name, seconds=cycle.period_s,
                                    next_run_time=now + timedelta(seconds=cycle.offset_s))
        self._scheduler.start()

    def stop(self, within_s: float = 60.0) -> None:
        """Stop beating and wait until the running cycles have ended; one that hangs is named and left alone."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        with self._lock:
            self._stopping = True
            if not self._lock.wait_for(lambda: not self._running(), within_s):
                log.error("cycles hang and are not waited for", extra={"target": " ".join(sorted(self._running()))})

    def _running(self) -> list[str]:
        return [name for name, health in self._health.items() if health.began_s is not None]

    def run(self, name: str) -> None:
        """Run a cycle now, in this thread, and count it as a beat: for time that is not the wall's."""
        self._began(name)
        self._run(self._cycles[name])

    def health(self) -> dict[str, CycleHealth]:
        """Return how each cycle has fared."""
        now = self._clock()
        with self._lock:
            return {name: health if health.began_s is None else replace(health, running_s=now - health.began_s)
                    for name, health in self._health.items()}

    def hung(self, patience: float = 5.0, least_s: float = 30.0) -> list[str]:
        """Return the cycles whose last run ended more than ``patience`` periods (and ``least_s``) ago."""
        now, health = self._clock(), self.health()
        return [name for name, cycle in self._cycles.items()
                if now - (health[name].last_end_s or self._started_s + cycle.offset_s)
                > max(least_s, patience * cycle.period_s)]

    def keep_time(self) -> None:
        """Bring back the beats that a clock set back has put far off: APScheduler goes by the wall's."""
        now = datetime.now(UTC)
        for job in self._scheduler.get_jobs():
            cycle = self._cycles[job.id]
            away_s = (job.next_run_time - now).total_seconds()
            if away_s > max(cycle.period_s, cycle.offset_s) + SLACK_S:
                self._run_at(cycle.name, now + timedelta(seconds=away_s % cycle.period_s))

    def _run_at(self, name: str, moment: datetime) -> None:
        with suppress(JobLookupError):  # stopped meanwhile
            self._scheduler.modify_job(name, next_run_time=moment)

    def _strike(self, cycle: Cycle) -> None:
        if self._began(cycle.name):
            threading.Thread(target=self._run, args=(cycle,), name=f"cycle-{cycle.name}", daemon=True).start()
        elif not self._stopping:
            log.warning("cycle overran its period; this run is skipped", extra={"target": cycle.name})

    def _waited_for(self, name: str) -> list[str]:
        """Return the cycles that waited for this one as the last of several, and have not run yet."""
        return [other.name for other in self._cycles.values() if name in other.after
                and not self._health[other.name].runs and all(self._health[before].runs for before in other.after)]

    def _began(self, name: str) -> bool:
        """Note that a cycle's run begins; return False, and count a skipped beat, while one goes on."""
        with self._lock:
            health = self._health[name]
            if self._stopping:
                return False
            if health.began_s is not None:
                self._health[name] = replace(health, overruns=health.overruns + 1)
                return False
            self._health[name] = replace(health, began_s=self._clock())
            return True

    def _run(self, cycle: Cycle) -> None:
        began, failed = self._clock(), False
        try:
            cycle.run()
        except Exception:  # noqa: BLE001 - the edge of the loop: logged, counted, and the next beat comes
            log.exception("cycle failed", extra={"cycle": cycle.name})
            failed = True
        ended = self._clock()
        with self._lock:
            health = self._health[cycle.name]
            self._health[cycle.name] = replace(health, runs=health.runs + 1, failures=health.failures + failed,
                                               last_duration_s=ended - began, last_end_s=ended, began_s=None,
                                               failed=failed, ended_at_s=self._wall())
            due = [] if health.runs else self._waited_for(cycle.name)
            self._lock.notify_all()
        for name in due:
            self._run_at(name, datetime.now(UTC))

"""The daemon's cycles: each runs on its own beat, never overlaps itself, never drifts, and is counted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

log = logging.getLogger(__name__)

SLACK_S = 1.0
"""A beat further away than its period by more than this was put there by a clock set back."""


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

    def hanging(self, patience: float = 5.0, least_s: float = 30.0) -> list[str]:
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
                self._beat_at(cycle.name, now + timedelta(seconds=away_s % cycle.period_s))

    def _beat_at(self, name: str, moment: datetime) -> None:
        with suppress(JobLookupError):  # stopped meanwhile
            self._scheduler.modify_job(name, next_run_time=moment)

    def _strike(self, cycle: Cycle) -> None:
        if self._began(cycle.name):
            threading.Thread(target=self._run, args=(cycle,), name=f"cycle-{cycle.name}", daemon=True).start()
        elif not self._stopping:
            log.warning("cycle overran its period; this beat is skipped", extra={"target": cycle.name})

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
        except Exception:  # noqa: BLE001 - the edge of the loop: said, counted, and the next beat comes
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
            self._beat_at(name, datetime.now(UTC))

"""The daemon's cycles: each runs on its own beat, never overlaps itself, never drifts, and is counted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

log = logging.getLogger(__name__)


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
    """How a cycle has fared; times are of the monotonic clock, None until it happened."""

    runs: int = 0
    failures: int = 0
    overruns: int = 0
    """Beats that were skipped because the run before had not ended."""
    last_duration_s: float | None = None
    last_end_s: float | None = None


class _Threads(BaseExecutor):  # type: ignore[misc]
    """A thread for each run, which nobody waits for at the end of the process."""

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        def run() -> None:
            self._run_job_success(job.id, run_job(job, "default", run_times, "apscheduler.executors.default"))

        threading.Thread(target=run, name=f"cycle-{job.id}", daemon=True).start()


class Beat:
    """Runs cycles on APScheduler: one thread each, one run at a time, beats at fixed distances from the first.

    A cycle that raises is logged with its traceback, counted, and runs again at its next beat: the edge of the loop
    is the one place where any exception is caught.
    """

    def __init__(self, cycles: Iterable[Cycle], clock: Callable[[], float] = time.monotonic) -> None:
        self._cycles = {cycle.name: cycle for cycle in cycles}
        self._clock = clock
        self._started_s = clock()
        self._lock = threading.Condition()
        self._running: set[str] = set()
        self._health = {name: CycleHealth() for name in self._cycles}
        self._scheduler = BackgroundScheduler(
            timezone=UTC, executors={"default": _Threads()},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None})
        self._scheduler.add_listener(self._overrun, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED)

    def start(self) -> None:
        """Start beating."""
        self._started_s, now = self._clock(), datetime.now(UTC)
        for cycle in self._cycles.values():
            self._scheduler.add_job(self._run, "interval", args=[cycle], id=cycle.name, seconds=cycle.period_s,
                                    next_run_time=now + timedelta(seconds=cycle.offset_s))
        self._scheduler.start()

    def stop(self, within_s: float = 60.0) -> None:
        """Stop beating and wait until the running cycles have ended; one that hangs is named and left alone."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        with self._lock:
            if not self._lock.wait_for(lambda: not self._running, within_s):
                log.error("cycles hang and are not waited for", extra={"target": " ".join(sorted(self._running))})

    def run(self, name: str) -> None:
        """Run a cycle now, in this thread, and count it as a beat: for time that is not the wall's."""
        self._run(self._cycles[name])

    def health(self) -> dict[str, CycleHealth]:
        """Return how each cycle has fared."""
        with self._lock:
            return dict(self._health)

    def hanging(self, patience: float = 5.0, least_s: float = 30.0) -> list[str]:
        """Return the cycles whose last run ended more than ``patience`` periods (and ``least_s``) ago."""
        now, health = self._clock(), self.health()
        return [name for name, cycle in self._cycles.items()
                if now - (health[name].last_end_s or self._started_s + cycle.offset_s)
                > max(least_s, patience * cycle.period_s)]

    def _run(self, cycle: Cycle) -> None:
        began, failed = self._clock(), 0
        with self._lock:
            self._running.add(cycle.name)
        try:
            cycle.run()
        except Exception:  # noqa: BLE001 - the edge of the loop: said, counted, and the next beat comes
            log.exception("cycle failed", extra={"cycle": cycle.name})
            failed = 1
        ended = self._clock()
        with self._lock:
            health = self._health[cycle.name]
            self._health[cycle.name] = replace(health, runs=health.runs + 1, failures=health.failures + failed,
                                               last_duration_s=ended - began, last_end_s=ended)
            self._running.discard(cycle.name)
            self._lock.notify_all()
            due = [] if health.runs else self._due_after(cycle.name)
        for name in due:
            with suppress(JobLookupError):
                self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def _due_after(self, name: str) -> list[str]:
        """Return the cycles that waited for this one as the last of several, and have not run yet."""
        return [cycle.name for cycle in self._cycles.values() if name in cycle.after
                and not self._health[cycle.name].runs and all(self._health[other].runs for other in cycle.after)]

    def _overrun(self, event: JobEvent) -> None:
        with self._lock:
            health = self._health[event.job_id]
            self._health[event.job_id] = replace(health, overruns=health.overruns + 1)
        log.warning("cycle overran its period; this beat is skipped", extra={"target": event.job_id})

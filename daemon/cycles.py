"""The daemon's cycles: each runs on its own beat, never overlaps itself, never drifts, and is counted.

The beat is that of the monotonic clock: a wall clock that is set back or forward, or an hour that comes twice, costs
no beat. (APScheduler keeps its due times on the wall: set back by an hour, it stood still for an hour.)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cycle:
    """Something done again and again."""

    name: str
    period_s: float
    run: Callable[[], None]
    offset_s: float = 0.0
    """Delay of the first run, so that a cycle finds what another has just brought."""


@dataclass(frozen=True, slots=True)
class CycleHealth:
    """How a cycle has fared; times are of the monotonic clock, None until it happened."""

    runs: int = 0
    failures: int = 0
    overruns: int = 0
    """Beats that were skipped because the run before had not ended."""
    last_duration_s: float | None = None
    last_end_s: float | None = None
    period_s: float = 0.0
    began_s: float | None = None
    """When the run began that goes on now; None between runs."""
    running_s: float | None = None
    """For how long it has gone on, at the moment of asking."""
    failed: bool = False
    """Whether the last run did."""


class Beat:
    """Runs cycles: one thread each, one run at a time, beats at fixed distances from the first.

    A cycle that raises is logged with its traceback, counted, and runs again at its next beat: the edge of the loop
    is the one place where any exception is caught.
    """

    def __init__(self, cycles: Iterable[Cycle], clock: Callable[[], float] = time.monotonic) -> None:
        self._cycles = {cycle.name: cycle for cycle in cycles}
        self._clock = clock
        self._started_s = clock()
        self._lock = threading.Lock()
        self._health = {name: CycleHealth(period_s=cycle.period_s) for name, cycle in self._cycles.items()}
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(max(1, len(self._cycles)), thread_name_prefix="cycle")
        self._conductor = threading.Thread(target=self._conduct, name="beat", daemon=True)

    def start(self) -> None:
        """Start beating."""
        self._started_s = self._clock()
        self._conductor.start()

    def stop(self) -> None:
        """Stop beating and wait until the running cycles have ended."""
        self._stopping.set()
        if self._conductor.is_alive():
            self._conductor.join()
        self._threads.shutdown(wait=True)

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

    def _conduct(self) -> None:
        """Strike every cycle when it is due; beats that have gone by meanwhile are one."""
        due = {name: self._started_s + cycle.offset_s for name, cycle in self._cycles.items()}
        while not self._stopping.is_set():
            now = self._clock()
            for name, cycle in self._cycles.items():
                if due[name] <= now:
                    self._strike(cycle)
                    due[name] += cycle.period_s * (1 + (now - due[name]) // cycle.period_s)
            self._stopping.wait(max(0.0, min(due.values(), default=now + 1.0) - self._clock()))

    def _strike(self, cycle: Cycle) -> None:
        if self._began(cycle.name):
            self._threads.submit(self._run, cycle)
        else:
            log.warning("cycle overran its period; this beat is skipped", extra={"target": cycle.name})

    def _began(self, name: str) -> bool:
        """Note that a cycle's run begins; return False, and count a skipped beat, while one goes on."""
        with self._lock:
            health = self._health[name]
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
                                               failed=failed)

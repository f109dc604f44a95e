"""The daemon's cycles: each runs on its own beat, never overlaps itself, never drifts, and is counted.

The beat is that of the monotonic clock: a wall clock that is set back or forward, or an hour that comes twice, costs
no beat. (APScheduler keeps its due times on the wall: set back by an hour, it stood still for an hour.)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
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
        self._lock = threading.Condition()
        self._health = {name: CycleHealth(period_s=cycle.period_s) for name, cycle in self._cycles.items()}
        self._due: dict[str, float] = {}
        self._stopping = False

    def start(self) -> None:
        """Start beating."""
        self._started_s = self._clock()
        self._due = {name: self._started_s + cycle.offset_s for name, cycle in self._cycles.items()}
        threading.Thread(target=self._conduct, name="beat", daemon=True).start()

    def stop(self, within_s: float = 60.0) -> None:
        """Stop beating and wait until the running cycles have ended; one that hangs is named and left alone."""
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
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

    def _conduct(self) -> None:
        """Strike every cycle when it is due; beats that have gone by meanwhile are one."""
        while True:
            with self._lock:
                wait_s = max(0.0, min(self._due.values(), default=self._clock() + 1.0) - self._clock())
                if not self._stopping:
                    self._lock.wait(wait_s)
                if self._stopping:
                    return
                now = self._clock()
                struck = [cycle for name, cycle in self._cycles.items() if self._due[name] <= now]
                for cycle in struck:
                    self._due[cycle.name] += cycle.period_s * (1 + (now - self._due[cycle.name]) // cycle.period_s)
            for cycle in struck:
                self._strike(cycle)

    def _strike(self, cycle: Cycle) -> None:
        if self._began(cycle.name):
            threading.Thread(target=self._run, args=(cycle,), name=f"cycle-{cycle.name}", daemon=True).start()
        elif not self._stopping:
            log.warning("cycle overran its period; this beat is skipped", extra={"target": cycle.name})

    def _hurry(self, name: str) -> None:
        """Let those be due that waited for this cycle as the last of several, and have not run yet."""
        for other in self._cycles.values():
            if name in other.after and not self._health[other.name].runs and other.name in self._due \
                    and all(self._health[before].runs for before in other.after):
                self._due[other.name] = min(self._due[other.name], self._clock())

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
                                               failed=failed)
            if not health.runs:
                self._hurry(cycle.name)
            self._lock.notify_all()

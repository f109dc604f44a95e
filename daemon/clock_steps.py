"""Notice that the clock was set, or that the machine slept: it went on by more, or less, than time did.

A clock that is behind as the daemon starts would falsify the newest of the history: it is waited for. Where nothing is
recorded yet, only the scheduler's times can tell that it is behind.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ..storage.records import SchedulerSnapshot

log = logging.getLogger(__name__)

LEAST_S = 60.0
"""A smaller step is none: it is within what ages are believed to."""

WAIT_S = 120.0
"""How long a clock that is behind is waited for: time is synchronised soon after a machine has started."""
_GLANCE_S = 0.5


class Stop(Protocol):
    """What tells a wait to end, as an event does."""

    def wait(self, timeout: float) -> bool:
        """Wait, and tell whether to stop."""


def await_clock(newest_s: float | None, clock: Callable[[], float], stop: Stop,
                timer: Callable[[], float] = time.monotonic) -> None:
    """Wait for two minutes at most until the clock has come to what was recorded last, ``newest_s``.

    What is still later than the clock after that was recorded by one that was ahead, as far as anybody can tell.
    """
    if newest_s is None or (behind_s := newest_s - clock()) <= LEAST_S:
        return
    log.warning("the clock is behind what was recorded last; waiting for it to be set", extra={
        "seconds": round(behind_s), "longest_s": round(WAIT_S)})
    until = timer() + WAIT_S
    while newest_s - clock() > LEAST_S and timer() < until and not stop.wait(_GLANCE_S):
        pass


def latest_event_s(snapshot: SchedulerSnapshot | None) -> float | None:
    """Return when a job was submitted or started last, by the scheduler's clock; None without jobs."""
    jobs = snapshot.jobs if snapshot else ()
    return max((job.start_s if job.start_s is not None and job.start_s > job.submit_s else job.submit_s
                for job in jobs), default=None)


class ClockWatch:
    """Compares a clock that runs ``speed`` times as fast as time with one that cannot be set, nor goes on in sleep."""

    def __init__(self, clock: Callable[[], float], speed: float = 1.0,
                 timer: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._speed, self._timer = clock, speed, timer
        self._lock = threading.Lock()
        self._ahead_s = self._offset()
        self.step_s, self.stepped_s = 0.0, float("-inf")

    def look(self, now_s: float, lasts_s: float) -> tuple[float, float | None]:
        """Return by how much the clock has jumped in the last ``lasts_s`` seconds, and when; None when it has not."""
        with self._lock:
            offset = self._offset()
            step, self._ahead_s = offset - self._ahead_s, offset
            if abs(step) > LEAST_S * max(1.0, self._speed):
                log.warning("the clock was set, or the machine slept", extra={"seconds": round(step)})
                self.step_s, self.stepped_s = step, now_s
            recent = 0 <= now_s - self.stepped_s <= lasts_s
            return (self.step_s, self.stepped_s) if recent else (0.0, None)

    def _offset(self) -> float:
        return self._clock() - self._speed * self._timer()

"""Time that passes faster than the wall clock, the same in every process that is given the same epoch."""

from __future__ import annotations

import time
from collections.abc import Callable


class SimulatedClock:
    """Seconds since the epoch, running ``speed`` times as fast as the wall from ``start_s`` on.

    Two processes that share speed and start agree on the time: at the wall time ``start_s`` both clocks are equal.
    """

    def __init__(self, speed: float, start_s: float, wall: Callable[[], float] = time.time) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self.speed = speed
        self.start_s = start_s
        self._wall = wall

    def __call__(self) -> float:
        """Return the simulated time."""
        return self.start_s + (self._wall() - self.start_s) * self.speed

"""The trailing window of one GPU: for how long in a row it was quiet, or looked hung.

``umax <= epsilon over the window`` is the same as *no busy sample within the window*, so one running length answers
it in constant time and memory, exactly.
"""

from __future__ import annotations

from collections.abc import Hashable


class SampleStreak:
    """How long, in observed seconds, the last samples of one GPU agree.

    A gap in the samples neither resets nor counts: only time that was really observed fills the window. Another holder
    starts it anew.
    """

    __slots__ = ("_holder", "_time_s", "hung_s", "quiet_s", "since_s", "worked")

    def __init__(self) -> None:
        self._holder: Hashable = None
        self._time_s: float | None = None
        self.quiet_s: float | None = None
        """None: the last sample was busy."""
        self.hung_s: float | None = None
        self.worked = False
        """A sample of this holder was busy."""
        self.since_s: float | None = None
        """Since when it is quiet or looks hung."""

    def observe(self, time_s: float, holder: Hashable, *, quiet: bool, hung: bool, longest_s: float,
                worked: bool = False) -> None:
        """Add one sample; a step longer than ``longest_s`` counts as that long."""
        if holder != self._holder:
            self._holder, self.quiet_s, self.hung_s, self._time_s = holder, None, None, None
            self.worked, self.since_s = False, None
        self.worked = self.worked or worked
        self.since_s = (time_s if self.since_s is None else self.since_s) if quiet or hung else None
        step = 0.0 if self._time_s is None else min(max(time_s - self._time_s, 0.0), longest_s)
        self.quiet_s = (0.0 if self.quiet_s is None else self.quiet_s + step) if quiet else None
        self.hung_s = (0.0 if self.hung_s is None else self.hung_s + step) if hung else None
        self._time_s = time_s

    def quiet_for(self, window_s: float) -> bool:
        """Tell whether every sample of the last ``window_s`` observed seconds was quiet."""
        return self.quiet_s is not None and self.quiet_s >= window_s

    def hung_for(self, window_s: float) -> bool:
        """Tell whether every sample of the last ``window_s`` observed seconds looked hung."""
        return self.hung_s is not None and self.hung_s >= window_s

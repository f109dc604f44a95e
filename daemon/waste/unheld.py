"""GPUs that work although the scheduler says that nobody holds them: for seconds a race, for minutes a finding.

Telemetry and scheduler are read at different times. A job that has just started is busy before its allocation is read,
one that has just ended was busy when its GPU was read last: neither is work outside the scheduler.
"""

from __future__ import annotations


class Unheld:
    """Since when one GPU has been busy without a holder."""

    __slots__ = ("_busy_s", "since_s")

    def __init__(self) -> None:
        self.since_s: float | None = None
        self._busy_s = 0.0

    def observe(self, time_s: float, asked_s: float, *, busy: bool, patience_s: float) -> None:
        """Add one sample of a GPU that nobody holds; ``patience_s`` without work end it.

        It begins no earlier than the scheduler's answer of ``asked_s``, which is what says that nobody holds it.
        """
        if self.since_s is not None and not 0.0 <= time_s - self._busy_s <= patience_s:
            self.end()
        if busy:
            if self.since_s is None:
                self.since_s = max(time_s, asked_s)
            self._busy_s = time_s

    def end(self) -> None:
        """Forget it: somebody holds the GPU."""
        self.since_s = None

    def lasts(self, asked_s: float, seconds: float) -> bool:
        """Tell whether the GPU worked over ``seconds``, and the scheduler was asked again that long afterwards."""
        return self.since_s is not None and min(self._busy_s, asked_s) - self.since_s >= seconds

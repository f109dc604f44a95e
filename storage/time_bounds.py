"""The times that clocks of clusters can have shown: others are faults, such as the year 1 of a program's zero."""

from __future__ import annotations

EARLIEST_S = 946_684_800.0
"""The year 2000: no scheduler that is read here is so old."""
LATEST_S = 4_102_444_800.0
"""The year 2100."""


def believable(time_s: float) -> bool:
    """Tell whether a clock can have shown so many seconds since the epoch."""
    return EARLIEST_S <= time_s <= LATEST_S

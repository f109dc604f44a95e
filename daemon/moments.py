"""Moments, as people read them: in local time, with a date when it is not today's."""

from __future__ import annotations

from datetime import datetime

AHEAD_S = 60.0
"""By how much a fact may be younger than now: clocks of one site differ by seconds."""


def moment(time_s: float, now_s: float) -> str:
    """Return a moment in local time as ``14:02``, with its date when that is not today's: ``21 Nov 14:02``."""
    then, now = datetime.fromtimestamp(time_s), datetime.fromtimestamp(now_s)
    if then.date() == now.date():
        return f"{then:%H:%M}"
    return f"{then.day} {then:%b %H:%M}" if then.year == now.year else f"{then:%Y-%m-%d %H:%M}"


def believed(time_s: float | None, now_s: float, max_age_s: float) -> bool:
    """Tell whether what was known at a time may still be acted upon now.

    What comes from the future is not believed: the clock was set back since, and its true age is unknown.
    """
    return time_s is not None and -AHEAD_S <= now_s - time_s <= max_age_s

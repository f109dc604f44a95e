"""Lengths of time, as people read them."""

from __future__ import annotations

from collections.abc import Sequence

SAME = 0.005
"""A change of a length of time by less than half a per cent is none."""


def ago(seconds: float | None) -> str:
    """Return a duration in its two largest units: ``45s``, ``12m``, ``3h 5m``, ``2d 4h``; ``-`` where there is none."""
    if seconds is None:
        return "-"
    sign, left = ("-" if seconds < 0 else ""), int(abs(seconds))
    days, hours, minutes = left // 86400, left // 3600 % 24, left // 60 % 60
    if days:
        return f"{sign}{days}d {hours}h"
    if hours:
        return f"{sign}{hours}h {minutes}m"
    return f"{sign}{minutes}m" if minutes else f"{sign}{left}s"


def span(seconds: float) -> str:
    """Return a duration as it stands in a sentence: ``45 min``, from an hour and a half on ``1.5 h``."""
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.0f} min"


def sooner(ratio: float, interval: Sequence[float]) -> str:
    """Return a change in time with its interval: ``43 % sooner (31 to 52)``, ``no change (-2 to 3 % later)``."""
    sign = 1 if ratio >= 0 or abs(ratio) < SAME else -1
    low, high = sorted(round(100 * sign * bound) for bound in interval)  # a whole number has no minus zero
    if abs(ratio) < SAME:
        return f"no change ({low} to {high} % later)"
    return f"{round(100 * abs(ratio))} % {'sooner' if ratio < 0 else 'later'} ({low} to {high})"

"""Moments, as people read them, in local time with a date when it is not today's, and as they name them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import cast

from ..storage.durations import seconds

_LAST_S = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def moment(time_s: float, now_s: float) -> str:
    """Return a moment in local time as ``14:02``, with its date when that is not today's: ``21 Nov 14:02``."""
    then, now = datetime.fromtimestamp(time_s), datetime.fromtimestamp(now_s)
    if then.date() == now.date():
        return f"{then:%H:%M}"
    return f"{then.day} {then:%b %H:%M}" if then.year == now.year else f"{then:%Y-%m-%d %H:%M}"


def moment_of(text: str, now_s: float) -> float:
    """Return the moment that an age, a day or seconds since the epoch name; ValueError says why it is none."""
    try:
        moment_s = now_s - cast(float, seconds(text))
    except ValueError:
        try:
            moment_s = float(text) if text.replace(".", "", 1).isdigit() else _timestamp(text)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{text[:40]!r} is no age (7d), no day (2026-10-01) and no time in seconds") from error
    if not math.isfinite(moment_s) or moment_s > _LAST_S:
        raise ValueError(f"{text[:40]!r} is too far in the future")
    return max(0.0, moment_s)


def _timestamp(text: str) -> float:
    """Return the seconds of an ISO date, which is UTC unless it says otherwise; ValueError."""
    parsed = datetime.fromisoformat(text)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()

"""Changes of size in words, for rows and tables alike."""

from __future__ import annotations

from collections.abc import Sequence

from ...durations import SAME


def sooner(ratio: float, interval: Sequence[float]) -> str:
    """Return a change in time with its interval: ``43 % sooner (31 to 52)``, ``no change (-2 to 3 % later)``."""
    sign = 1 if ratio >= 0 or abs(ratio) < SAME else -1
    low, high = sorted(round(100 * sign * bound) for bound in interval)  # a whole number has no minus zero
    if abs(ratio) < SAME:
        return f"no change ({low} to {high} % later)"
    return f"{round(100 * abs(ratio))} % {'sooner' if ratio < 0 else 'later'} ({low} to {high})"


def counted(gpus: int) -> str:
    """Return a number of GPUs."""
    return f"{gpus} GPU{'' if gpus == 1 else 's'}"

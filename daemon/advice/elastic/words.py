"""Changes of size in words, for rows and tables alike."""

from __future__ import annotations

from collections.abc import Sequence


def sooner(ratio: float, interval: Sequence[float]) -> str:
    """Return a change in time with its interval: ``43 % sooner (31 to 52)``, or ``later``."""
    sign = -1 if ratio < 0 else 1
    low, high = sorted(100 * sign * bound for bound in interval)
    return f"{abs(100 * ratio):.0f} % {'sooner' if ratio < 0 else 'later'} ({low:.0f} to {high:.0f})"


def counted(gpus: int) -> str:
    """Return a number of GPUs."""
    return f"{gpus} GPU{'' if gpus == 1 else 's'}"

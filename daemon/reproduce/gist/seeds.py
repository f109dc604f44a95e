"""Statistics of trainings from several seeds: the episode of convergence and the interval of the mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit


def settled(curves: Sequence[Sequence[float]], block: int = 50, within: float = 0.02) -> int | None:
    """Return the episode of convergence: from it on, the mean over seeds of every block of episodes equals the end's.

    The end is the last 30 % of training, and equal means closer than ``within``; None if there are too few episodes.
    """
    whole = np.asarray(curves)[:, :len(curves[0]) // block * block]
    if whole.shape[1] < 4 * block:
        return None
    blocks = whole.mean(axis=0).reshape(-1, block).mean(axis=1)
    strays = np.abs(blocks - whole[:, int(0.7 * whole.shape[1]):].mean()) > within
    return block * int(np.flatnonzero(np.append(True, strays))[-1])


def half_width(values: Sequence[float]) -> float:
    """Return half of the 95 % interval of the mean (Student's t)."""
    quantile = float(stdtrit(len(values) - 1, 0.975))
    return quantile * float(np.std(values, ddof=1)) / float(np.sqrt(len(values)))


def mean_of(values: Sequence[float], digits: int = 3) -> str:
    """Return the mean with its 95 % interval as text; only the mean for one value."""
    mean = f"{float(np.mean(values)):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {half_width(values):.{digits}f}"

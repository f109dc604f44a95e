"""A job's speed by its number of GPUs, fitted over runs of like jobs, and how far it may be off.

The time for a unit of work is ``T(w) = a/w + b + d w`` (Optimus, EuroSys'18, without parameter servers), its
coefficients not negative. Runs of like jobs differ: their spread is that seen around the curve, and where few were seen
an assumed one. Each of ``DRAWS`` curves is fitted to rates drawn with that spread; an interval is what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...replay.speed import SpeedError

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

DRAWS = 200
LEVEL = 0.95
REACH = 2
"""A curve is read at sizes up to so many times the largest that was measured, and down to that part of the least."""
SPREAD, SPREAD_RUNS = 0.08, 4.0
"""The assumed spread of rates from run to run, relatively, and how many runs it outweighs."""
WORST = 0.35
"""A curve that is further off its own measurements than this, relatively, tells nothing."""
TWO_SIZES = ((0, 1), (0, 2), (1, 2))
"""With two sizes nobody can tell a fixed cost (b) from one that grows with the workers (d): each curve of two terms
that meets both points may be true, and every other lies between them."""
MOST_GPUS, MOST_APART = 100_000, 1e6
"""The most GPUs and the highest ratio of rates that are believed: beyond them something upstream is lying."""
AS_GOOD = 1e-6
"""Fits whose squared residuals differ by no more are equally good."""


@dataclass(frozen=True)
class Learned:
    """A fitted curve and its draws."""

    coefficients: Floats
    """a, b, d."""
    draws: Floats
    """[draw, coefficient]."""
    error: float
    """Root mean square of relative residuals at the measured points."""
    sizes: tuple[int, ...]
    runs: int

    def reaches(self, gpus: int) -> bool:
        """Tell whether a size is near enough to what was measured."""
        return self.sizes[0] <= gpus * REACH and 1 <= gpus <= self.sizes[-1] * REACH

    def ratio(self, now: int, then: int) -> tuple[float, tuple[float, float]]:
        """Return the change in speed from one number of GPUs to another (0.8 is 80 % faster), and its interval."""
        drawn = _times(now) @ self.draws.T / (_times(then) @ self.draws.T) - 1
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        estimate = float(_times(now) @ self.coefficients / (_times(then) @ self.coefficients) - 1)
        return estimate, (min(float(low), estimate), max(float(high), estimate))

    @property
    def falls_at(self) -> int | None:
        """Return the first number of GPUs within reach that is surely slower than one fewer; None where none is."""
        a, _, d = self.draws.T
        # One more than n makes it slower where n (n + 1) > a / d.
        tops = np.where(d > 0, (np.sqrt(1 + 4 * a / np.where(d > 0, d, 1.0)) - 1) / 2, np.inf)
        surely = np.quantile(np.floor(tops) + 2, LEVEL, method="higher")
        return int(surely) if surely <= self.sizes[-1] * REACH else None


def learned(gpus: Sequence[int], rates: Sequence[float], seed: int = 0) -> Learned:
    """Return the curve of runs, each with a number of GPUs and a rate.

    Raises:
        SpeedError: there are no two different sizes, a value is not positive, or the curve is too far off.
    """
    sizes, speeds = np.asarray(gpus, np.int64), np.asarray(rates, np.float64)
    if sizes.shape != speeds.shape or not (np.isfinite(speeds) & (speeds > 0) & (sizes > 0)).all():
        raise SpeedError("sizes and rates must be positive numbers, one of each per run")
    if len(sizes) and (sizes.max() > MOST_GPUS or speeds.min() < speeds.max() / MOST_APART):
        raise SpeedError(f"no job has more than {MOST_GPUS} GPUs, nor are like jobs {MOST_APART:g} times as fast")
    distinct = tuple(sorted(set(sizes.tolist())))
    if len(distinct) < 2:
        raise SpeedError("a curve needs runs of two different sizes")
    speeds = speeds / np.exp(np.mean(np.log(speeds)))  # only ratios are ever returned
    shape = _Shape(sizes, speeds)
    fits, as_good = shape.fits(speeds[None])
    coefficients = fits[as_good].mean(axis=0)
    fitted = 1 / (shape.terms @ coefficients)
    residuals = np.log(speeds / fitted)
    error = float(np.sqrt(np.mean(residuals ** 2)))
    if error > WORST:
        raise SpeedError(f"the curve is {error:.0%} off its own measurements")
    return Learned(coefficients, _drawn(shape, fitted, residuals, seed), error, distinct, len(speeds))


def _times(gpus: object) -> Floats:
    """Return the terms of the time for a unit of work, [..., a b d]."""
    workers = np.asarray(gpus, np.float64)
    return np.stack([1 / workers, np.ones_like(workers), workers], axis=-1)


_CHOICES = {count: [list(used) for size in range(1, count + 1) for used in combinations(range(count), size)]
            for count in (2, 3)}
"""By the number of columns, each choice of some of them."""


class _Shape:
    """What curves over these sizes may look like.

    Over two sizes no curve falls before the faster one: up to ``top`` it rises where ``a >= m d``, with ``m = top (top
    - 1)``, and as ``a = a' + m d`` that is one more coefficient that is not negative. Three sizes tell for themselves.
    """

    def __init__(self, sizes: Longs, speeds: Floats) -> None:
        means = {size: float(speeds[sizes == size].mean()) for size in sizes.tolist()}
        top = max(means, key=lambda size: (means[size], size)) if len(means) == 2 else 1
        self.terms = _times(sizes)
        self._free = np.array([[1.0, 0.0, top * (top - 1.0)], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        self._subsets = TWO_SIZES if len(means) == 2 else ((0, 1, 2),)
        self.freedom = min(3, len(means))

    def fits(self, speeds: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the coefficients of each choice of terms that fit best by relative errors, and which fit as well.

        All at once for each row of speeds: [row, choice, coefficient] and [row, choice].
        """
        # Scaled by the speeds the target is 1 everywhere, so a slow run weighs no more than a fast one.
        columns, ones = (self.terms @ self._free) * speeds[:, :, None], np.ones(speeds.shape[1])
        scale = np.linalg.norm(columns, axis=1)
        columns = columns / scale[:, None]
        coefficients, off = np.zeros((len(speeds), len(self._subsets), 3)), np.empty((len(speeds), len(self._subsets)))
        for number, subset in enumerate(map(list, self._subsets)):
            coefficients[:, number, subset], off[:, number] = _nearest(columns[:, :, subset], ones)
        return (coefficients / scale[:, None]) @ self._free.T, off <= off.min(axis=1, keepdims=True) + AS_GOOD


def _nearest(columns: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients >= 0 that come nearest to the target, and the square that they leave, for each matrix.

    The best ones are the unbounded best of those columns that they use, so of three columns all seven choices are
    tried. scipy's ``nnls`` does as well (a test compares them), but its import costs the serving daemon 34 MB, and it
    takes one matrix at a time: hundreds of curves would keep what the cluster was at their beginning for minutes.
    """
    best, least = np.zeros((len(columns), columns.shape[2])), np.full(len(columns), float(target @ target))
    for used in _CHOICES[columns.shape[2]]:
        part = columns[:, :, used]
        coefficients = _least_squares(part, target)
        residual = target - (part @ coefficients[:, :, None])[:, :, 0]
        off = (residual * residual).sum(axis=1)
        better = (coefficients >= 0).all(axis=1) & (off < least)
        best[better] = 0.0
        best[np.ix_(better, used)] = coefficients[better]
        least[better] = off[better]
    return best, least


def _least_squares(columns: Floats, target: Floats) -> Floats:
    """Return the unbounded best coefficients of each matrix, the smallest where several are as good."""
    left, singular, right = np.linalg.svd(columns, full_matrices=False)
    counted = singular > singular[:, :1] * np.finfo(float).eps * max(columns.shape[1:])
    along = np.where(counted, (left.transpose(0, 2, 1) @ target) / np.where(counted, singular, 1.0), 0.0)
    coefficients: Floats = (right.transpose(0, 2, 1) @ along[:, :, None])[:, :, 0]
    return coefficients


def _drawn(shape: _Shape, fitted: Floats, residuals: Floats, seed: int) -> Floats:
    """Return the coefficients of curves fitted to drawn rates: the spread itself is drawn, too."""
    chance = np.random.default_rng(seed)
    freedom = SPREAD_RUNS + max(0, len(residuals) - shape.freedom)
    square = SPREAD_RUNS * SPREAD ** 2 + float(residuals @ residuals)
    rates = np.array([fitted * np.exp(np.sqrt(square / chance.chisquare(freedom))
                                      * chance.standard_normal(len(fitted))) for _ in range(DRAWS)])
    fits, as_good = shape.fits(rates)
    # Of several that fit as well the draws take turns.
    turn = np.arange(DRAWS) % as_good.sum(axis=1)
    taken = (as_good & (as_good.cumsum(axis=1) == turn[:, None] + 1)).argmax(axis=1)
    drawn: Floats = fits[np.arange(DRAWS), taken]
    return drawn

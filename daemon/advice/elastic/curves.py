"""A job's speed by its number of GPUs, fitted over runs of like jobs, and how far it may be off.

The time for a unit of work is ``T(w) = a/w + b + d w`` (Optimus, EuroSys'18, without parameter servers), its
coefficients not negative. Runs of like jobs differ: their spread is that seen around the curve, and where few were seen
an assumed one. Each of ``DRAWS`` curves is fitted to rates drawn with that spread; an interval is what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...replay.speed import SpeedError, falls_at

Floats = NDArray[np.float64]

DRAWS = 200
LEVEL = 0.95
REACH = 2
"""A curve is asked for sizes up to so many times the largest that was measured, and down to that part of the least."""
SPREAD, SPREAD_RUNS = 0.08, 4.0
"""The assumed spread of rates from run to run, relatively, and how many runs it outweighs."""
WORST = 0.35
"""A curve that is further off its own measurements than this, relatively, tells nothing."""
TWO_SIZES = ((0, 1), (0, 2))
"""With two sizes nobody can tell a fixed cost (b) from one that grows with the workers (d): either may be true, and
every mixture lies between them."""
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
        """Return the first number of GPUs within reach that is slower than one fewer; None where none is."""
        times = _times(np.arange(1, self.sizes[-1] * REACH + 1)) @ self.coefficients
        index = falls_at((1 / times).tolist())
        return None if index is None else index + 1


def learned(gpus: Sequence[int], rates: Sequence[float], seed: int = 0) -> Learned:
    """Return the curve of runs, each with a number of GPUs and a rate.

    Raises:
        SpeedError: there are no two different sizes, a value is not positive, or the curve is too far off.
    """
    sizes, speeds = np.asarray(gpus, np.int64), np.asarray(rates, np.float64)
    if sizes.shape != speeds.shape or not (np.isfinite(speeds) & (speeds > 0) & (sizes > 0)).all():
        raise SpeedError("sizes and rates must be positive numbers, one of each per run")
    distinct = tuple(sorted(set(sizes.tolist())))
    if len(distinct) < 2:
        raise SpeedError("a curve needs runs of two different sizes")
    terms, subsets = _times(sizes), TWO_SIZES if len(distinct) == 2 else ((0, 1, 2),)
    found = _fits(terms, speeds, subsets)
    coefficients = np.mean(found, axis=0)
    fitted = 1 / (terms @ coefficients)
    residuals = np.log(speeds / fitted)
    error = float(np.sqrt(np.mean(residuals ** 2)))
    if error > WORST:
        raise SpeedError(f"the curve is {error:.0%} off its own measurements")
    draws = _drawn(terms, fitted, residuals, subsets, np.random.default_rng(seed))
    return Learned(coefficients, draws, error, distinct, len(speeds))


def _times(gpus: object) -> Floats:
    """Return the terms of the time for a unit of work, [..., a b d]."""
    workers = np.asarray(gpus, np.float64)
    return np.stack([1 / workers, np.ones_like(workers), workers], axis=-1)


def _fits(terms: Floats, speeds: Floats, subsets: Sequence[Sequence[int]]) -> list[Floats]:
    """Return the coefficients of the subsets of terms that fit best by relative errors: one, or several as good."""
    from scipy.optimize import nnls  # heavy, and only wanted when curves are fitted

    found = []
    for subset in subsets:
        coefficients = np.zeros(terms.shape[1])
        # Scaled by the speeds the target is 1 everywhere, so a slow run weighs no more than a fast one.
        coefficients[list(subset)], off = nnls(terms[:, list(subset)] * speeds[:, None], np.ones_like(speeds))
        found.append((off ** 2, coefficients))
    best = min(off for off, _ in found)
    return [coefficients for off, coefficients in found if off <= best + AS_GOOD]


def _drawn(terms: Floats, fitted: Floats, residuals: Floats, subsets: Sequence[Sequence[int]],
           chance: np.random.Generator) -> Floats:
    """Return the coefficients of curves fitted to drawn rates: the spread itself is drawn, too."""
    freedom = SPREAD_RUNS + max(0, len(residuals) - len(subsets[0]))
    square = SPREAD_RUNS * SPREAD ** 2 + float(residuals @ residuals)
    draws = np.empty((DRAWS, terms.shape[1]))
    for number in range(DRAWS):
        spread = np.sqrt(square / chance.chisquare(freedom))
        rates = fitted * np.exp(spread * chance.standard_normal(len(fitted)))
        fits = _fits(terms, rates, subsets)
        draws[number] = fits[number % len(fits)]
    return draws

"""The speed curve of Optimus (EuroSys'18) for synchronous training.

With ``w`` workers and, if there are any, ``p`` parameter servers, the curve is
``speed = 1 / (a/w + b + c w/p + d w + e p)``, with coefficients that are not negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Floats
from ...replay.speed import SpeedError


@dataclass(frozen=True)
class Curve:
    """A fitted Optimus curve; its error is the root mean square of relative residuals at the measured points."""

    coefficients: Floats
    """Coefficients a, b, c, d, e; c and e are 0 without parameter servers."""
    error: float

    def __call__(self, workers: float, servers: float = 0.0) -> float:
        """Return the throughput for numbers of workers and servers, in the unit of the measurements."""
        terms = _terms(np.array([workers], np.float64), np.array([servers], np.float64))
        return 1.0 / float(terms[0] @ self.coefficients)


def _terms(workers: Floats, servers: Floats) -> Floats:
    some = servers > 0
    per_server = np.divide(workers, servers, out=np.zeros_like(workers), where=some)
    return np.stack([1.0 / workers, np.ones_like(workers), per_server, workers, np.where(some, servers, 0.0)], axis=1)


def fit(workers: Sequence[float], throughput: Sequence[float], servers: Sequence[float] | None = None) -> Curve:
    """Return the curve nearest to measured throughputs by non-negative least squares on relative errors.

    At least three different sizes are needed (five are better); SpeedError for fewer, or if a value is not positive.
    """
    from scipy.optimize import nnls  # heavy, and only wanted when curves are fitted

    w, y = np.asarray(workers, np.float64), np.asarray(throughput, np.float64)
    p = np.zeros_like(w) if servers is None else np.asarray(servers, np.float64)
    if w.shape != y.shape or w.shape != p.shape or not (np.isfinite(w) & np.isfinite(y) & (w > 0) & (y > 0)).all():
        raise SpeedError("sizes and throughputs must be positive numbers, one of each per measurement")
    if len(set(zip(w.tolist(), p.tolist(), strict=True))) < 3:
        raise SpeedError("a speed curve needs measurements at three different sizes")
    terms = _terms(w, p)
    # Scaled by y the target is 1 everywhere, so a slow point weighs no more than a fast one.
    coefficients, _ = nnls(terms * y[:, None], np.ones_like(y))
    fitted = 1.0 / (terms @ coefficients)
    return Curve(coefficients, float(np.sqrt(np.mean((fitted / y - 1.0) ** 2))))

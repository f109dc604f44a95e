"""Time limits for live jobs that have none: without any a reservation protects nobody and no forecast has a time.

Such a job counts as gone after the time within which nine in ten of its like are that have run for as long as it
has, by the run times that are predicted for it (log-logistic through their quartiles). It is not ended then: at the
next look it has outlived more of its like and is given longer. A replay does not look again, so such jobs have
no limit there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .workload import Workload

Floats = NDArray[np.float64]

QUANTILE = 0.9
"""Share of like jobs that end within a learned limit."""
QUARTILE_ODDS = float(np.log(0.75 / 0.25))
MOST, LEAST = 30.0, 1e-3
"""Bounds within which exponentials stay finite, and the narrowest spread of logarithms."""


def learned(work: Workload, lasted_s: Floats) -> Floats:
    """Return within how many seconds of their start jobs are gone that have lasted so long; infinite where unknown."""
    low, middle, high = (np.log(np.maximum(np.where(np.isnan(column), 1.0, column), 1.0)) for column in (
        work.prediction_low, work.prediction, work.prediction_high))
    below, above = (np.maximum(LEAST, spread / QUARTILE_ODDS) for spread in (middle - low, high - middle))
    further = np.log(np.maximum(lasted_s, 1.0)) - middle
    outlived = np.minimum(MOST, further / np.where(further < 0, below, above))
    odds = np.log((1.0 + np.where(lasted_s > 0, np.exp(outlived), 0.0)) / (1.0 - QUANTILE) - 1.0)
    known = np.isfinite(work.prediction) & np.isfinite(work.prediction_low) & np.isfinite(work.prediction_high)
    return np.where(known, np.exp(np.minimum(MOST, middle + above * odds)), np.inf)

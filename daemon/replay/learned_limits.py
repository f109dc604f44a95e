"""Time limits for jobs that have none: without any a reservation protects nobody and no forecast has a time.

Such a job counts as gone after the time within which nine in ten of its like are, by the run times that are predicted
for it (log-logistic through their quartiles). It is not ended then, and whoever runs for longer counts as about to end.
Where nothing is predicted there is still no limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .workload import Workload

QUANTILE = 0.9
"""Share of like jobs that end within a learned limit."""
_STEPS = float(np.log(QUANTILE / (1 - QUANTILE)) / np.log(0.75 / 0.25))
"""So many times as far from the median, in logarithms, as the upper quartile."""


def limits(work: Workload) -> NDArray[np.float64]:
    """Return each job's limit in seconds, a learned one where it has none and something is predicted."""
    return np.where(np.isfinite(work.limit), work.limit, learned(work))


def learned(work: Workload) -> NDArray[np.float64]:
    """Return within how many seconds a job is gone in all likelihood; infinite where nothing is predicted."""
    known = np.isfinite(work.prediction) & np.isfinite(work.prediction_high) & (work.prediction > 0)
    middle = np.where(known, work.prediction, 1.0)
    upper = np.maximum(np.where(known, work.prediction_high, 1.0), middle)
    return np.where(known, middle * (upper / middle) ** _STEPS, np.inf)

"""Predicted run time with ageing: short jobs first, and nobody starves."""

import math

from ..replay.arrays import State
from ..replay.workload import UNLIMITED_S
from .registry import order

AGEING = 1.0
"""Seconds of predicted run time that a second of waiting makes up for."""


@order("prediction-aged")
def prediction_aged(state: State, job: int) -> float:
    """Order by predicted run time less the time waited; by limit where no run time was predicted."""
    row = state.jobs[job]
    length = row.limit if math.isnan(row.prediction) else row.prediction
    return min(length, UNLIMITED_S) + AGEING * row.submit

"""QSSF: quasi-shortest service first (Helios, SC'21): predicted run time times GPUs."""

import math

from ..replay.arrays import State
from .registry import order


@order("qssf")
def qssf(state: State, job: int) -> float:
    """Order by predicted GPU-seconds; by limit where no run time was predicted."""
    row = state.jobs[job]
    length = row.limit if math.isnan(row.prediction) else row.prediction
    return length * max(1, row.gpus)

"""QSSF: quasi-shortest service first (Helios, SC'21): predicted run time times GPUs; and the same with true times."""

import math

from ..replay.arrays import State
from .registry import order


@order("qssf")
def qssf(state: State, job: int) -> float:
    """Order by predicted GPU-seconds; by limit where no run time was predicted."""
    row = state.jobs[job]
    length = row.limit if math.isnan(row.prediction) else row.prediction
    return length * max(1, row.gpus)


@order("qssf-oracle", oracle=True)
def qssf_oracle(state: State, job: int) -> float:
    """Order by true GPU-seconds, fewest first."""
    return state.jobs[job].run * max(1, state.jobs[job].gpus)

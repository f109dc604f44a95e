"""Shortest job first, by what is known of a job's length: its limit, a prediction, or the truth; and largest first."""

import math

from ..replay.arrays import State
from .registry import order


@order("sjf-limit")
def sjf_limit(state: State, job: int) -> float:
    """Order by requested time limit, shortest first."""
    return state.jobs[job].limit


@order("sjf-prediction")
def sjf_prediction(state: State, job: int) -> float:
    """Order by predicted run time, shortest first; by limit where nothing was predicted."""
    if math.isnan(state.jobs[job].prediction):
        return state.jobs[job].limit
    return state.jobs[job].prediction


@order("sjf-oracle", oracle=True)
def sjf_oracle(state: State, job: int) -> float:
    """Order by true run time, shortest first."""
    return state.jobs[job].run


@order("ljf")
def ljf(state: State, job: int) -> float:
    """Order by size, most GPUs first: the largest job first of the GIST AI-X paper, section 5.2."""
    return -float(state.jobs[job].gpus)

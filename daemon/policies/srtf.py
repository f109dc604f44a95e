"""Shortest remaining time and shortest remaining service first: preemptive, and they know the true run time."""

from ..replay.arrays import NOW, RUNNING, State
from ..replay.compiled import compiled
from .registry import order


@compiled
def remaining(state: State, job: int) -> float:
    """Return the seconds a job still needs at the speed it last had."""
    row = state.jobs[job]
    left = row.remaining / row.rate
    if row.status == RUNNING:
        left -= state.clock[NOW] - row.as_of
    return left


@order("srtf", moving=True, preemptive=True, oracle=True)
def srtf(state: State, job: int) -> float:
    """Order by remaining time."""
    return remaining(state, job)


@order("srsf", moving=True, preemptive=True, oracle=True)
def srsf(state: State, job: int) -> float:
    """Order by remaining time times GPUs."""
    return remaining(state, job) * max(1, state.jobs[job].gpus)

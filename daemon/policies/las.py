"""Tiresias-L (NSDI'19): least attained service in discrete levels, first come first served within a level."""

import numpy as np

from ..replay.arrays import NOW, RUNNING, RUNNING_JOBS, State
from ..replay.compiled import compiled
from .registry import order

THRESHOLDS = np.array([3600.0])
"""GPU-seconds after which a job drops a level; one threshold makes the paper's two queues."""


@compiled
def attained(state: State, job: int) -> float:
    """Return the GPU-seconds a job has received by now."""
    row = state.jobs[job]
    if row.status != RUNNING:
        return row.attained
    return row.attained + (state.clock[NOW] - row.since) * row.gpus_held


def next_level(state: State) -> float:
    """Return when the next running job drops a level."""
    soonest = np.inf
    for index in range(state.counts[RUNNING_JOBS]):
        job = state.heap[index]
        for threshold in THRESHOLDS:
            left = threshold - attained(state, job)
            if left > 1e-6 and state.jobs[job].gpus_held > 0:
                soonest = min(soonest, state.clock[NOW] + left / state.jobs[job].gpus_held)
    return soonest


@order("las", moving=True, preemptive=True, wake=next_level)
def las(state: State, job: int) -> float:
    """Order by level; ties go by (submit, id)."""
    level = 0.0
    for threshold in THRESHOLDS:
        if attained(state, job) >= threshold - 1e-6:
            level += 1.0
    return level

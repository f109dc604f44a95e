"""Sampled run times: a job is taken to last as long as like jobs that were submitted next to it turn out to last.

What was predicted at submission is stale once hundreds of like jobs wait: the first of them that run tell of the others
(sampling in place of looking back: Jajoo et al., NSDI 2022). Like are jobs of the same user with as many GPUs. Of
a job whose neighbours have told little yet, the least is believed that is likely, so that some of each kind run early.

Ended jobs tell only as long as the engine knows them: in a replay always, live never, where what was predicted and what
runs have to do. So no replay shows what these orders are worth live, and they are no candidates there.
"""

import math

from ..replay.arrays import ENDED, NOW, RUNNING, Records, State
from ..replay.compiled import compiled
from ..replay.workload import UNLIMITED_S
from .registry import order

REACH = 200
"""Rows that are looked at on either side of a job."""
LIKE, FADE = 60, 0.98
"""So many like jobs on either side count, each further one this share of what the nearer one does; chosen, as ``HOPE``,
on three public traces (docs/figures.md)."""
PRIOR = 0.5
"""What was predicted at submission counts as much as so many neighbours."""
HOPE = 4.0
"""How far below what is expected a job is put of which no neighbour has told anything, as a logarithm."""
AGEING = 1.0
"""GPU-seconds that a second of waiting makes up for."""


@compiled
def told_by(near: Records, now: float, prior: float) -> float:
    """Return the logarithm of what a like job tells of a run time; below 0 where it tells nothing.

    One that still runs is taken to be half through, and to last no less than was predicted.
    """
    if near.status == ENDED:
        return math.log(max(1.0, near.end - near.start))
    if near.status == RUNNING:
        return max(prior, math.log(max(1.0, 2.0 * (now - near.start))))
    return -1.0


@compiled
def heard(state: State, job: int, step: int, prior: float) -> tuple[float, float]:
    """Return what like jobs on one side of a job tell, weighted, and the weights."""
    row, now = state.jobs[job], state.clock[NOW]
    total, weight, share, like, other = 0.0, 0.0, 1.0, 0, job + step
    while 0 <= other < state.jobs.size and abs(other - job) <= REACH and like < LIKE:
        near = state.jobs[other]
        if near.submit > now:
            break
        if near.gpus == row.gpus and near.user == row.user:
            told = told_by(near, now, prior)
            if told >= 0.0:
                total, weight = total + share * told, weight + share
            share, like = share * FADE, like + 1
        other += step
    return total, weight


@compiled
def sampled_area(state: State, job: int) -> float:
    """Return the GPU-seconds that a job is taken to need, by its neighbours and what was predicted of it."""
    row = state.jobs[job]
    length = row.limit if math.isnan(row.prediction) else row.prediction
    prior = math.log(max(1.0, min(length, UNLIMITED_S)))
    before, earlier = heard(state, job, -1, prior)
    after, later = heard(state, job, 1, prior)
    weight = earlier + later
    expected = (PRIOR * prior + before + after) / (PRIOR + weight)
    return float(math.exp(expected - HOPE / math.sqrt(1.0 + weight)) * max(1, row.gpus))


@order("sampled", moving=True, one_at_a_time=True)
def sampled(state: State, job: int) -> float:
    """Order by sampled GPU-seconds, fewest first."""
    return sampled_area(state, job)


@order("sampled-aged", moving=True, one_at_a_time=True)
def sampled_aged(state: State, job: int) -> float:
    """Order by sampled GPU-seconds less the time waited; nobody starves."""
    return float(sampled_area(state, job) + AGEING * state.jobs[job].submit)

"""Sampled run times: a job is taken to last as long as like jobs that were submitted next to it turn out to last.

What was predicted at submission is stale once hundreds of like jobs wait: the first of them that run tell of the others
(sampling in place of looking back: Jajoo et al., NSDI 2022). Like are jobs of the same user with as many GPUs. Of
a job whose neighbours have told little yet, the least is believed that is likely, so that some of each kind run early.

Jobs that have ended are among the rows of a replay. Live they are not: there what is recorded of them is looked at in
the places that they would have among the rows, so that a job is told the same.
"""

import math

import numpy as np

from ..replay.arrays import ENDED, NOW, RUNNING, Records, State
from ..replay.compiled import compiled
from ..replay.ended_runs import GPUS, NEXT, REACH, RUN, USER
from ..replay.state import ClusterState
from ..replay.workload import UNLIMITED_S
from .registry import order

LIKE, FADE = 60, 0.98
"""So many like jobs on either side count, each further one this share of what the nearer one does; chosen, as ``HOPE``,
on three public traces (docs/figures.md)."""
PRIOR = 0.5
"""What was predicted at submission counts as much as so many neighbours."""
HOPE = 4.0
"""How far below what is expected a job is put of which no neighbour has told anything, as a logarithm."""
AGEING = 1.0
"""GPU-seconds that a second of waiting makes up for."""
KIND, PLACE, ROW, LENGTH, FACTS = range(5)
"""Of a job in the list of all: which jobs are like it, its place among all that waited, its row (-1: it has ended, and
has none), and then the logarithm of its run time."""


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
    now, known, first = state.clock[NOW], state.kin, state.jobs.size
    here = int(known[job])
    total, weight, share, like, other = 0.0, 0.0, 1.0, 0, here + step * FACTS
    while first <= other < known.size and like < LIKE:
        if known[other + KIND] != known[here + KIND] or abs(known[other + PLACE] - known[here + PLACE]) > REACH:
            break
        told, row = known[other + LENGTH], int(known[other + ROW])
        if row >= 0:
            if state.jobs[row].submit > now:
                break
            told = told_by(state.jobs[row], now, prior)
        if told >= 0.0:
            total, weight = total + share * told, weight + share
        share, like, other = share * FADE, like + 1, other + step * FACTS
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


def ready(state: ClusterState) -> State:
    """Return the arrays with the list of all jobs, like ones one after the other, and where in it each row stands.

    What is recorded of ended jobs stands between the rows where it would in a replay.
    """
    jobs, ended, size = state.arrays.jobs, state.ended(), len(state.arrays.jobs)
    order = np.argsort(np.concatenate([np.arange(size), ended[:, NEXT] - 0.5]), kind="stable")
    like = np.concatenate([np.column_stack([jobs.gpus, jobs.user]), ended[:, [GPUS, USER]]])
    facts = np.zeros((len(like), FACTS))
    facts[:, KIND] = np.unique(like, axis=0, return_inverse=True)[1].ravel()
    facts[order, PLACE] = np.arange(len(order))
    facts[:, ROW] = np.concatenate([np.arange(size), np.full(len(ended), -1)])
    facts[size:, LENGTH] = ended[:, RUN]
    listed = np.lexsort((facts[:, PLACE], facts[:, KIND]))
    at = np.empty(len(listed))
    at[listed] = size + FACTS * np.arange(len(listed))
    return state.arrays._replace(kin=np.concatenate([at[:size], facts[listed].ravel()]))


@order("sampled", moving=True, one_at_a_time=True, ready=ready)
def sampled(state: State, job: int) -> float:
    """Order by sampled GPU-seconds, fewest first."""
    return sampled_area(state, job)


@order("sampled-aged", moving=True, one_at_a_time=True, ready=ready)
def sampled_aged(state: State, job: int) -> float:
    """Order by sampled GPU-seconds less the time waited; nobody starves."""
    return float(sampled_area(state, job) + AGEING * state.jobs[job].submit)

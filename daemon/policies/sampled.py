"""Sampled run times: the expected run time of a job is that of similar jobs that were submitted next to it.

Predictions from submission are stale once hundreds of similar jobs wait: the first of them that run are samples of the
others (Jajoo et al., NSDI 2022). Similar are jobs of the same user with as many GPUs. A job with few samples gets an
optimistic estimate, so that some jobs of each kind run early.

The rows of a replay include jobs that have ended, those of a live state do not: there the recorded runs of ended jobs
take the places that they would have among the rows, so that both give the same estimates.
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
"""Similar jobs that count on either side, and the factor on the weight from each to the next; chosen, as ``HOPE``, on
three public traces (docs/figures.md)."""
PRIOR = 0.5
"""Weight of the prediction at submission, in neighbours."""
HOPE = 4.0
"""Optimism without any samples: the logarithm by which the estimate lies below the expected run time."""
AGEING = 1.0
"""GPU-seconds that a second of waiting offsets."""
KIND, PLACE, ROW, LENGTH, FACTS = range(5)
"""Columns of the list of all jobs: the kind of similar jobs, the place among all jobs by submission, the row (-1 for a
job that has ended and has none), and for such a job the logarithm of its run time."""


@compiled
def log_run_time(neighbour: Records, now: float, prior: float) -> float:
    """Return the logarithm of a similar job's run time; below 0 where it is not known yet.

    A running job is assumed to be halfway through, and to last at least as long as predicted.
    """
    if neighbour.status == ENDED:
        return math.log(max(1.0, neighbour.end - neighbour.start))
    if neighbour.status == RUNNING:
        return max(prior, math.log(max(1.0, 2.0 * (now - neighbour.start))))
    return -1.0


@compiled
def neighbours(state: State, job: int, step: int, prior: float) -> tuple[float, float]:
    """Return the weighted sum of log run times of similar jobs on one side of a job, and the sum of weights."""
    now, kin, first = state.clock[NOW], state.kin, state.jobs.size
    own_facts = int(kin[job])
    total, weight, share, like, other = 0.0, 0.0, 1.0, 0, own_facts + step * FACTS
    while first <= other < kin.size and like < LIKE:
        if kin[other + KIND] != kin[own_facts + KIND] or abs(kin[other + PLACE] - kin[own_facts + PLACE]) > REACH:
            break
        estimate, row = kin[other + LENGTH], int(kin[other + ROW])
        if row >= 0:
            if state.jobs[row].submit > now:
                break
            estimate = log_run_time(state.jobs[row], now, prior)
        if estimate >= 0.0:
            total, weight = total + share * estimate, weight + share
        share, like, other = share * FADE, like + 1, other + step * FACTS
    return total, weight


@compiled
def sampled_area(state: State, job: int) -> float:
    """Return the estimated GPU-seconds of a job, from its neighbours and its prediction."""
    row = state.jobs[job]
    length = row.limit if math.isnan(row.prediction) else row.prediction
    prior = math.log(max(1.0, min(length, UNLIMITED_S)))
    before, earlier = neighbours(state, job, -1, prior)
    after, later = neighbours(state, job, 1, prior)
    weight = earlier + later
    expected = (PRIOR * prior + before + after) / (PRIOR + weight)
    return float(math.exp(expected - HOPE / math.sqrt(1.0 + weight)) * max(1, row.gpus))


def ready(state: ClusterState) -> State:
    """Return the arrays with the list of all jobs, grouped by similarity, and the place of each row in it.

    Recorded runs of ended jobs have the places between the rows that they would have in a replay.
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
    place = np.empty(len(listed))
    place[listed] = size + FACTS * np.arange(len(listed))
    return state.arrays._replace(kin=np.concatenate([place[:size], facts[listed].ravel()]))


@order("sampled", moving=True, one_at_a_time=True, ready=ready)
def sampled(state: State, job: int) -> float:
    """Order by sampled GPU-seconds, fewest first."""
    return sampled_area(state, job)


@order("sampled-aged", moving=True, one_at_a_time=True, ready=ready)
def sampled_aged(state: State, job: int) -> float:
    """Order by sampled GPU-seconds less the time waited; nobody starves."""
    return float(sampled_area(state, job) + AGEING * state.jobs[job].submit)

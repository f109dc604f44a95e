"""The hot path of the size-free agent: who is given the next task by what is learned, and what comes of a plan."""

from __future__ import annotations

import numpy as np

from ....replay.arrays import Floats, Longs
from ....replay.compiled import compiled, compiled_apart, compiled_with_arrays
from ..kernel import SERVER, WORKER, ArenaCluster, ArrivedJobs, grant, waiting

INPUTS = ("gain", "slots left", "slots saved", "CPU slots", "GPU slots", "ends", "stay", "jobs", "first",
          "workers over servers", "future saved")
HIDDEN = 8
SIZE = (len(INPUTS) + 1) * HIDDEN + len(INPUTS) + 1
"""Weights: hidden [input, unit], out [unit], linear [input], and what is added to every score."""
LEAST = 1e-4
"""Gain in log speed of a task that makes a job no faster."""
HORIZON = 12
"""Slots that a plan is played for."""
BELIEVED = 0.95
"""A task that leaves a job less of its speed is not given; a smaller fall may be the error of the speeds' fit."""
CLOSED = -1e300
"""Score of what cannot be given any more in this slot, for room is never given back in one."""


@compiled_apart
def by_score(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, weights: Floats, favour: Floats, scores: Floats,
             inputs: Floats) -> int:
    """Give the next task to whom the scorer rates highest, while it rates anybody above 0; return the decisions.

    ``favour`` [job, what] is added to scores where they are compared. Only the job that was given something
    is rated anew. ``scores`` [job, what] and ``inputs`` are scratch.
    """
    for job in range(jobs.model.size):
        scores[job, 0] = scores[job, 1] = scores[job, 2] = 0.0
        rate(cluster, jobs, job, weights, scores, inputs)
    decisions = 0
    while True:
        best, most, what = -1, -np.inf, 0
        for job in range(jobs.model.size):
            for kind in range(3):
                if scores[job, kind] > 0.0 and scores[job, kind] + favour[job, kind] > most:
                    best, most, what = job, scores[job, kind] + favour[job, kind], kind
        decisions += 1
        if best < 0:
            return decisions
        if grant(cluster, jobs, used, best, what, True):
            rate(cluster, jobs, best, weights, scores, inputs)
        else:
            scores[best, what] = CLOSED


@compiled_with_arrays
def look_ahead(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, weights: Floats, changes: Floats) -> int:
    """Give tasks by the plan for this slot that ends the jobs here soonest, were nobody else to come.

    Plan after plan adds a row of ``changes`` [plan, job, what] to the favours of the best so far, and is played to its
    end with the scorer as it is in all later slots. Return the decisions.
    """
    favour, best, decisions = np.zeros((jobs.model.size, 3)), np.inf, 0
    scores, inputs = np.empty((jobs.model.size, 3)), np.empty(len(INPUTS))
    for plan in range(len(changes)):
        tried = favour + changes[plan]
        now = _anew(cluster, jobs, jobs.remaining, 0.0)
        decisions += by_score(cluster, now, np.zeros_like(used), weights, tried, scores, inputs)
        worth, further = _played(cluster, now, weights, scores, inputs)
        decisions += further
        if worth < best:
            favour, best = tried, worth
    return decisions + by_score(cluster, jobs, used, weights, favour, scores, inputs)


@compiled_with_arrays
def _anew(cluster: ArenaCluster, jobs: ArrivedJobs, remaining: Floats, later: float) -> ArrivedJobs:
    """Return the jobs that are not done so much later, without tasks."""
    live = np.flatnonzero(remaining > 0.0)
    return waiting(cluster, jobs.number[live], jobs.model[live], jobs.stay[live] + later, remaining[live],
                   jobs.epochs[live])


@compiled_with_arrays
def _played(cluster: ArenaCluster, jobs: ArrivedJobs, weights: Floats, scores: Floats, inputs: Floats) -> tuple[float,
                                                                                                                int]:
    """Return the slots that jobs take from now on, summed, and the decisions.

    Who is not done at the horizon is taken to be at his best from there on.
    """
    total, decisions = 0.0, 0
    for _ in range(HORIZON):
        remaining = jobs.remaining.copy()
        for job in range(jobs.model.size):
            done = cluster.rates[jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]]
            total += min(1.0, remaining[job] / max(done, 1e-12))
            remaining[job] -= done
        jobs = _anew(cluster, jobs, remaining, 1.0)
        if jobs.model.size == 0:
            return total, decisions
        decisions += by_score(cluster, jobs, np.zeros((cluster.nodes, 2), np.int64), weights,
                              np.zeros((jobs.model.size, 3)), scores, inputs)
    for job in range(jobs.model.size):
        total += jobs.remaining[job] / max(cluster.rates[jobs.model[job], cluster.most, cluster.most], 1e-12)
    return total, decisions


@compiled
def rate(cluster: ArenaCluster, jobs: ArrivedJobs, job: int, weights: Floats, scores: Floats, inputs: Floats) -> None:
    """Write down the scores of what a job may be given; ``inputs`` is scratch."""
    for what in range(3):
        if scores[job, what] == CLOSED:
            continue
        scores[job, what] = _score(weights, inputs) if see(cluster, jobs, job, what, inputs) else CLOSED
    if jobs.tasks[job, SERVER] == 0 or jobs.tasks[job, WORKER] == 0:
        scores[job, SERVER] = scores[job, WORKER] = -1.0  # neither moves it alone


@compiled
def see(cluster: ArenaCluster, jobs: ArrivedJobs, job: int, what: int, inputs: Floats) -> bool:
    """Fill in what the scorer is shown of a task for a job; False when it may have no more, or would be slowed."""
    model, servers, workers = jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
    then, also = servers + np.int64(what != WORKER), workers + np.int64(what != SERVER)
    if then > cluster.most or also > cluster.most:
        return False
    first = servers == 0 or workers == 0
    after = max(cluster.rates[model, then, also], 1e-9)
    before = after / np.e if first else max(cluster.rates[model, servers, workers], 1e-9)
    if after < BELIEVED * before:
        return False
    cpus, gpus = cluster.demand[model, what, 0] / cluster.slots, cluster.demand[model, what, 1] / cluster.slots
    left = jobs.remaining[job] / after
    inputs[0] = np.log(max(np.log(after / before), LEAST) / (cpus + gpus))
    inputs[1] = np.log(left + 0.01)
    inputs[2] = np.log1p(max(0.0, jobs.remaining[job] / before - left))
    inputs[3], inputs[4] = cpus, gpus
    inputs[5] = 1.0 if left <= 1.0 else 0.0
    inputs[6] = 0.3 * np.log1p(jobs.stay[job])
    inputs[7] = 0.3 * np.log1p(jobs.model.size)
    inputs[8] = 1.0 if first else 0.0
    inputs[9] = np.log((workers + 1.0) / (servers + 1.0))
    fastest = cluster.rates[model, cluster.most, cluster.most]
    worth = min(after, jobs.remaining[job]) - (0.0 if first else min(before, jobs.remaining[job]))
    inputs[10] = np.log(max(worth / max(fastest, 1e-9), LEAST) / (cpus + gpus))
    return True


@compiled
def _score(weights: Floats, inputs: Floats) -> float:
    count = inputs.size
    out, linear = count * HIDDEN, (count + 1) * HIDDEN
    total = weights[linear + count]
    for place in range(count):
        total += weights[linear + place] * inputs[place]
    for unit in range(HIDDEN):
        value = 0.0
        for place in range(count):
            value += weights[place * HIDDEN + unit] * inputs[place]
        total += weights[out + unit] * value / (1.0 + abs(value))
    return total

"""The hot path: who is given the next task, by every rule and by what is learned.

All compiled code of DL2 is in this one file: numba looks for changes in the file of a function only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...replay.arrays import Floats, Longs
from ...replay.compiled import compiled

Bools = NDArray[np.bool_]

SERVER, WORKER, BUNDLE = 0, 1, 2
"""What a job may be given; a bundle is one of each."""


class Cluster(NamedTuple):
    """What does not change."""

    rates: Floats
    """[model, servers, workers] epochs per slot."""
    demand: Longs
    """[model, server, worker or bundle, CPU or GPU slots]."""
    most: int
    """Workers, and parameter servers, of a job."""
    nodes: int = 48
    slots: int = 8
    """CPU slots, and as many GPU slots, of a node."""


class Jobs(NamedTuple):
    """The jobs in the system, by arrival."""

    number: Longs
    model: Longs
    stay: Floats
    """Slots since arrival."""
    remaining: Floats
    """Epochs."""
    tasks: Longs
    """[job, server or worker], to be filled in."""


@compiled
def grant(cluster: Cluster, jobs: Jobs, used: Longs, job: int, what: int, among_all: bool) -> bool:
    """Give a job a server, a worker, or one of each on one node; False, and nothing, without room.

    The least used node takes it, or with ``among_all`` the least used that has room.
    """
    model = jobs.model[job]
    cpus, gpus = cluster.demand[model, what, 0], cluster.demand[model, what, 1]
    best, least = -1, np.int64(1 << 60)
    for node in range(used.shape[0]):
        load = used[node, 0] + used[node, 1]
        room = used[node, 0] + cpus <= cluster.slots and used[node, 1] + gpus <= cluster.slots
        if load < least and (room or not among_all):
            best, least = (node if room else -1), load
    if best < 0:
        return False
    used[best, 0] += cpus
    used[best, 1] += gpus
    jobs.tasks[job, SERVER] += what != WORKER
    jobs.tasks[job, WORKER] += what != SERVER
    return True


@compiled
def _share(cluster: Cluster, jobs: Jobs, job: int) -> Any:
    """Return the dominant share of a job."""
    largest, demand, model = 0, cluster.demand, jobs.model[job]
    for kind in range(2):
        taken = (jobs.tasks[job, SERVER] * demand[model, SERVER, kind]
                 + jobs.tasks[job, WORKER] * demand[model, WORKER, kind])
        largest = max(largest, taken)
    return largest / (cluster.slots * cluster.nodes)


@compiled
def bundles_by(cluster: Cluster, jobs: Jobs, used: Longs, keys: Floats, fair: bool, among_all: bool) -> None:
    """Give bundles to the job with the lowest key; ``fair`` keys are dominant shares, which grow as it is given."""
    while True:
        best = -1
        for job in range(jobs.model.size):
            if jobs.tasks[job, WORKER] < cluster.most and (best < 0 or keys[job] < keys[best]):
                best = job
        if best < 0 or not grant(cluster, jobs, used, best, BUNDLE, among_all):
            return
        if fair:
            keys[best] = _share(cluster, jobs, best)


@compiled
def _saved(cluster: Cluster, jobs: Jobs, job: int, what: int) -> Any:
    """Return the slots that one more task saves, were the job to keep it to its end."""
    model, servers, workers = jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
    if workers == 0 or servers == 0:
        return np.inf if what == (WORKER if workers == 0 else SERVER) else -1.0
    before = max(cluster.rates[model, servers, workers], 1e-12)
    after = cluster.rates[model, servers + np.int64(what == SERVER), workers + np.int64(what == WORKER)]
    return jobs.remaining[job] / before - jobs.remaining[job] / max(after, 1e-12)


@compiled
def optimus(cluster: Cluster, jobs: Jobs, used: Longs, closed: Bools, among_all: bool) -> None:
    """Give the next task to whom it saves most; as coded, a job whose better task is at its maximum gets no more."""
    while True:
        best, most, what = -1, 0.0, 0
        for job in range(jobs.model.size):
            if closed[job]:
                continue
            worker, server = _saved(cluster, jobs, job, WORKER), _saved(cluster, jobs, job, SERVER)
            gain = max(worker, server)
            if gain > most:
                best, most, what = job, gain, SERVER if server >= worker else WORKER
        if best < 0:
            return
        if jobs.tasks[best, what] >= cluster.most:
            closed[best] = True
        elif not grant(cluster, jobs, used, best, what, among_all):
            return


@compiled
def _relative(cluster: Cluster, jobs: Jobs, job: int, what: int) -> Any:
    """Return the gain in log speed per slot of a node that is taken; first bundles go before all else."""
    model, servers, workers = jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
    then, also = servers + np.int64(what != WORKER), workers + np.int64(what != SERVER)
    if then > cluster.most or also > cluster.most:
        return -1.0
    cost = cluster.demand[model, what, 0] + cluster.demand[model, what, 1]
    if servers == 0 or workers == 0:
        return 1e6 / cost if what == BUNDLE else -1.0
    return np.log(cluster.rates[model, then, also] / max(cluster.rates[model, servers, workers], 1e-12)) / cost


@compiled
def max_relative_gain(cluster: Cluster, jobs: Jobs, used: Longs, closed: Bools) -> None:
    """Give the next task to whom it helps most, relatively; ``closed`` [job, what] is scratch."""
    while True:
        best, most, what = -1, 0.0, 0
        for job in range(jobs.model.size):
            for kind in range(3):
                gain = -1.0 if closed[job, kind] else _relative(cluster, jobs, job, kind)
                if gain > most:
                    best, most, what = job, gain, kind
        if best < 0:
            return
        closed[best, what] = not grant(cluster, jobs, used, best, what, True)


@compiled
def at_random(cluster: Cluster, jobs: Jobs, used: Longs, choices: Longs, draws: Floats) -> None:
    """Give tasks at random while any fits; ``choices`` are [number, job and what]. Every job first gets a bundle."""
    for job in range(jobs.model.size):
        grant(cluster, jobs, used, job, BUNDLE, True)
    count = choices.shape[0]
    for draw in draws:
        if count == 0:
            return
        chosen = int(draw * count)
        job, what = choices[chosen, 0], choices[chosen, 1]
        full = ((what != WORKER and jobs.tasks[job, SERVER] >= cluster.most)
                or (what != SERVER and jobs.tasks[job, WORKER] >= cluster.most))
        if full or not grant(cluster, jobs, used, job, what, True):
            count -= 1
            choices[chosen, 0], choices[chosen, 1] = choices[count, 0], choices[count, 1]


INPUTS = ("gain", "slots left", "slots saved", "CPU slots", "GPU slots", "ends", "stay", "jobs", "first",
          "workers over servers", "future saved")
HIDDEN = 8
SIZE = (len(INPUTS) + 1) * HIDDEN + len(INPUTS) + 1
"""Weights: hidden [input, unit], out [unit], linear [input], and what is added to every score."""
LEAST = 1e-4
"""Gain in log speed of a task that makes a job no faster."""
CLOSED = -1e300
"""Score of what cannot be given any more in this slot, for room is never given back in one."""


@compiled
def by_score(cluster: Cluster, jobs: Jobs, used: Longs, weights: Floats, scores: Floats, inputs: Floats) -> int:
    """Give the next task to whom the scorer rates highest, while it rates anybody above 0; return the decisions.

    ``scores`` [job, what] is scratch. Only the job that was given something is rated anew.
    """
    for job in range(jobs.model.size):
        rate(cluster, jobs, job, weights, scores, inputs)
    decisions = 0
    while True:
        best, most, what = -1, 0.0, 0
        for job in range(jobs.model.size):
            for kind in range(3):
                if scores[job, kind] > most:
                    best, most, what = job, scores[job, kind], kind
        decisions += 1
        if best < 0:
            return decisions
        if grant(cluster, jobs, used, best, what, True):
            rate(cluster, jobs, best, weights, scores, inputs)
        else:
            scores[best, what] = CLOSED


@compiled
def rate(cluster: Cluster, jobs: Jobs, job: int, weights: Floats, scores: Floats, inputs: Floats) -> None:
    """Write down the scores of what a job may be given; ``inputs`` is scratch."""
    for what in range(3):
        if scores[job, what] == CLOSED:
            continue
        scores[job, what] = _score(weights, inputs) if see(cluster, jobs, job, what, inputs) else CLOSED
    if jobs.tasks[job, SERVER] == 0 or jobs.tasks[job, WORKER] == 0:
        scores[job, SERVER] = scores[job, WORKER] = -1.0  # neither moves it alone


@compiled
def see(cluster: Cluster, jobs: Jobs, job: int, what: int, inputs: Floats) -> bool:
    """Fill in what the scorer is shown of a task for a job; False when the job may have no more of it."""
    model, servers, workers = jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
    then, also = servers + np.int64(what != WORKER), workers + np.int64(what != SERVER)
    if then > cluster.most or also > cluster.most:
        return False
    first = servers == 0 or workers == 0
    after = max(cluster.rates[model, then, also], 1e-9)
    before = after / np.e if first else max(cluster.rates[model, servers, workers], 1e-9)
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
def _score(weights: Floats, inputs: Floats) -> Any:
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

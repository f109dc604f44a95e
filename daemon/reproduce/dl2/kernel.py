"""The compiled part of DL2's simulator: the tasks that fit, and the job that gets the next task by each rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...replay.arrays import Floats, Longs, Masks
from ...replay.compiled import compiled, compiled_with_arrays

SERVER, WORKER, BUNDLE = 0, 1, 2
"""Kinds of tasks; a bundle is one parameter server and one worker."""


class ArenaCluster(NamedTuple):
    """The constant facts of a simulated cluster and its models."""

    rates: Floats
    """[model, servers, workers] speed in epochs per slot."""
    demand: Longs
    """[model, kind of task, CPU or GPU] number of resource slots that a task takes."""
    most: int
    """Largest number of workers, and of parameter servers, of a job."""
    nodes: int = 48
    slots: int = 8
    """Number of CPU slots, and of GPU slots, of a node."""


class ArrivedJobs(NamedTuple):
    """The jobs in the system, by arrival."""

    number: Longs
    model: Longs
    stay: Floats
    """Number of slots since the arrival of each job."""
    remaining: Floats
    """Remaining epochs of each job."""
    epochs: Floats
    """Total epochs of each job."""
    tasks: Longs
    """[job, server or worker] number of tasks, filled in by a policy."""
    given: Longs
    """[step, job and kind of task] tasks in the order in which they were given."""
    steps: Longs
    """[1] number of tasks given so far."""


@compiled_with_arrays
def waiting(cluster: ArenaCluster, number: Longs, model: Longs, stay: Floats, remaining: Floats,
            epochs: Floats) -> ArrivedJobs:
    """Return jobs that have no tasks yet."""
    count = model.size
    return ArrivedJobs(number, model, stay, remaining, epochs, np.zeros((count, 2), np.int64),
                       np.empty((2 * cluster.most * count, 2), np.int64), np.zeros(1, np.int64))


@compiled
def fits(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, job: int, what: int, node: int) -> bool:
    """Return whether a node has room for a task."""
    model, demand = jobs.model[job], cluster.demand
    return bool(used[node, 0] + demand[model, what, 0] <= cluster.slots
                and used[node, 1] + demand[model, what, 1] <= cluster.slots)


@compiled
def grant(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, job: int, what: int, among_all: bool) -> bool:
    """Give a job a server, a worker, or both on one node; return False and change nothing without room.

    The task goes to the least used node, or, with ``among_all``, to the least used node with room.
    """
    best, least = -1, np.int64(1 << 60)
    for node in range(used.shape[0]):
        load = used[node, 0] + used[node, 1]
        if load < least:
            room = fits(cluster, jobs, used, job, what, node)
            if room or not among_all:
                best, least = (node if room else -1), load
    if best < 0:
        return False
    take(cluster, jobs, used, job, what, best)
    return True


@compiled
def take(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, job: int, what: int, node: int) -> None:
    """Give a job a task on a node that has room for it."""
    used[node, 0] += cluster.demand[jobs.model[job], what, 0]
    used[node, 1] += cluster.demand[jobs.model[job], what, 1]
    jobs.tasks[job, SERVER] += what != WORKER
    jobs.tasks[job, WORKER] += what != SERVER
    jobs.given[jobs.steps[0], 0], jobs.given[jobs.steps[0], 1] = job, what
    jobs.steps[0] += 1


@compiled
def share(cluster: ArenaCluster, jobs: ArrivedJobs, job: int) -> float:
    """Return the dominant share of a job."""
    largest, demand, model = 0, cluster.demand, jobs.model[job]
    for kind in range(2):
        taken = (jobs.tasks[job, SERVER] * demand[model, SERVER, kind]
                 + jobs.tasks[job, WORKER] * demand[model, WORKER, kind])
        largest = max(largest, taken)
    return largest / (cluster.slots * cluster.nodes)


@compiled
def bundles_by(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, keys: Floats, fair: bool,
               among_all: bool) -> None:
    """Give bundles to the job with the lowest key; ``fair`` keys are dominant shares, updated with each bundle."""
    while True:
        best = -1
        for job in range(jobs.model.size):
            if jobs.tasks[job, WORKER] < cluster.most and (best < 0 or keys[job] < keys[best]):
                best = job
        if best < 0 or not grant(cluster, jobs, used, best, BUNDLE, among_all):
            return
        if fair:
            keys[best] = share(cluster, jobs, best)


@compiled
def _alignment(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, job: int, node: int) -> tuple[float, float]:
    """Return the alignment of a bundle with a node's free resources, and a job's remaining work, in Tetris' units."""
    suits, size = 0.0, 0.0
    for kind in range(2):
        wanted = cluster.demand[jobs.model[job], BUNDLE, kind]
        suits += (cluster.slots - used[node, kind]) * wanted
        size += wanted
    return suits, size * jobs.remaining[job] / jobs.epochs[job]


@compiled
def tetris(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
    """Fill node after node with bundles by alignment and remaining work, as coded: *most* remaining work goes first.

    The first job without room closes a node, although another job may still fit.
    """
    node = 0
    while node < cluster.nodes:
        all_suit, all_left = 0.0, 1e-12
        for job in range(jobs.model.size):
            suits, left = _alignment(cluster, jobs, used, job, node)
            all_suit, all_left = all_suit + suits, all_left + left
        best, most = -1, -1.0
        for job in range(jobs.model.size):
            suits, left = _alignment(cluster, jobs, used, job, node)
            if jobs.tasks[job, WORKER] < cluster.most and suits + all_suit / all_left * left > most:
                best, most = job, suits + all_suit / all_left * left
        if best >= 0 and fits(cluster, jobs, used, best, BUNDLE, node):
            take(cluster, jobs, used, best, BUNDLE, node)
        else:
            node += 1


@compiled
def tetris_as_published(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, works: Floats) -> None:
    """Fill node after node with the bundles that fit, by alignment and *least* work left (SIGCOMM'14).

    ``works`` [job] is the remaining work, normalised; as in the paper it weighs as much as alignment, on average.
    """
    all_work = works.sum() + 1e-12
    for node in range(cluster.nodes):
        while True:
            all_suit = 0.0
            for job in range(jobs.model.size):
                all_suit += _alignment(cluster, jobs, used, job, node)[0]
            best, most = -1, -np.inf
            for job in range(jobs.model.size):
                if jobs.tasks[job, WORKER] >= cluster.most or not fits(cluster, jobs, used, job, BUNDLE, node):
                    continue
                worth = _alignment(cluster, jobs, used, job, node)[0] - all_suit / all_work * works[job]
                if worth > most:
                    best, most = job, worth
            if best < 0:
                break
            take(cluster, jobs, used, best, BUNDLE, node)


@compiled
def _saved(cluster: ArenaCluster, jobs: ArrivedJobs, job: int, what: int) -> float:
    """Return the slots that one more task saves if the job keeps it to its end."""
    model, servers, workers = jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
    if workers == 0 or servers == 0:
        return np.inf if what == (WORKER if workers == 0 else SERVER) else -1.0
    before = max(cluster.rates[model, servers, workers], 1e-12)
    after = cluster.rates[model, servers + np.int64(what == SERVER), workers + np.int64(what == WORKER)]
    return jobs.remaining[job] / before - jobs.remaining[job] / max(after, 1e-12)


@compiled
def optimus(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, closed: Masks, among_all: bool) -> None:
    """Give each task to the job with most saved slots.

    As coded, a job whose better task is at its maximum gets none.
    """
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
def _relative(cluster: ArenaCluster, jobs: ArrivedJobs, job: int, what: int) -> float:
    """Return the gain in log speed for each resource slot that a task takes; first bundles have the highest gain."""
    model, servers, workers = jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
    then, also = servers + np.int64(what != WORKER), workers + np.int64(what != SERVER)
    if then > cluster.most or also > cluster.most:
        return -1.0
    cost = cluster.demand[model, what, 0] + cluster.demand[model, what, 1]
    if servers == 0 or workers == 0:
        return 1e6 / cost if what == BUNDLE else -1.0
    return np.log(cluster.rates[model, then, also] / max(cluster.rates[model, servers, workers], 1e-12)) / cost


@compiled
def max_relative_gain(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, closed: Masks) -> None:
    """Give the next task to the job with the largest relative gain; ``closed`` [job, kind of task] is scratch."""
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
def bundle_each(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
    """Give every job a bundle, by arrival, as long as there is room, so that no job starves."""
    for job in range(jobs.model.size):
        grant(cluster, jobs, used, job, BUNDLE, True)


@compiled
def at_random(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, choices: Longs, draws: Floats) -> None:
    """Give every job a bundle, then random tasks as long as one fits.

    ``choices`` are [number, job and kind of task].
    """
    bundle_each(cluster, jobs, used)
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

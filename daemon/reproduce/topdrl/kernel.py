"""The compiled part of the benchmark: its events, and the speed of a job on a placement."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...replay.arrays import Floats, Longs, Words
from ...replay.compiled import compiled, compiled_apart

NOW, FREE, QUEUED, RUNNING, COMING = 0, 0, 1, 2, 3
"""Places in ``Cluster.clock``, and in ``Cluster.counts``: free GPUs, jobs that wait, run, and have been submitted."""
WINDOW = 128
"""Number of the oldest waiting jobs from which a policy may choose."""


class Site(NamedTuple):
    """The constant facts of a cluster and its applications."""

    nodes: int
    gpus: int
    """Number of GPUs of a node."""
    per_leaf: int
    """Number of nodes at a leaf switch."""
    slow: Floats
    """[application, nodes less 1, GPUs on the fullest node less 1] time of a step, over that on one GPU."""
    per_crossing: float
    """Share by which each leaf switch beyond the first prolongs what a step takes longer than on one GPU."""


class EpisodeJobs(NamedTuple):
    """The jobs of an episode, by submission."""

    submit: Floats
    run: Floats
    """Run time on the closest placement, s."""
    guess: Floats
    """The run time that policies know, s."""
    gpus: Longs
    application: Longs
    start: Floats
    """Start of each job, s, NaN before it starts; this and the following arrays are results."""
    end: Floats
    speed: Floats
    """Speed relative to the closest placement, 0..1."""
    held: Longs
    """[job, GPU] node of each of its GPUs."""


class EpisodeState(NamedTuple):
    """Present state of an episode."""

    free: Longs
    """[node] number of free GPUs."""
    clock: Floats
    counts: Longs
    queue: Longs
    """Numbers of the waiting jobs, by submission."""
    running: Longs
    """Numbers of the running jobs, by end."""
    words: Words
    room: Longs
    """[leaf] scratch: free GPUs."""
    then: Longs
    """[node] scratch: free GPUs at a moment to come."""
    spot: Longs
    """Scratch: node of each GPU of a placement."""
    near: Floats
    """[GPUs, of what] of the nearest placement of so many: nodes, GPUs on the fullest one, leaves, and what is free on
    its last node."""
    soon: Floats
    """[GPUs] seconds until so many will be free on one node, or on one leaf where no node has as many."""
    seen: Floats
    """Scratch: an agent's inputs of a job."""


@compiled_apart
def advance(site: Site, jobs: EpisodeJobs, cluster: EpisodeState) -> bool:
    """Advance to the next moment at which a job may start; return False if there is none."""
    counts, clock = cluster.counts, cluster.clock
    while counts[RUNNING] > 0 or counts[COMING] < jobs.submit.size:
        ending = jobs.end[cluster.running[0]] if counts[RUNNING] > 0 else np.inf
        coming = jobs.submit[counts[COMING]] if counts[COMING] < jobs.submit.size else np.inf
        clock[NOW] = min(ending, coming)
        while counts[RUNNING] > 0 and jobs.end[cluster.running[0]] <= clock[NOW]:
            leave(jobs, cluster)
        while counts[COMING] < jobs.submit.size and jobs.submit[counts[COMING]] <= clock[NOW]:
            cluster.queue[counts[QUEUED]] = counts[COMING]
            counts[QUEUED] += 1
            counts[COMING] += 1
        if anybody_fits(jobs, cluster):
            return True
    return False


@compiled
def leave(jobs: EpisodeJobs, cluster: EpisodeState) -> None:
    """End the running job with the earliest end, and free its GPUs."""
    job = cluster.running[0]
    cluster.counts[RUNNING] -= 1
    for place in range(cluster.counts[RUNNING]):
        cluster.running[place] = cluster.running[place + 1]
    for gpu in range(jobs.gpus[job]):
        cluster.free[jobs.held[job, gpu]] += 1
    cluster.counts[FREE] += jobs.gpus[job]


@compiled
def anybody_fits(jobs: EpisodeJobs, cluster: EpisodeState) -> bool:
    """Return whether any job in the window could start."""
    for place in range(min(cluster.counts[QUEUED], WINDOW)):
        if jobs.gpus[cluster.queue[place]] <= cluster.counts[FREE]:
            return True
    return False


@compiled
def start(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, place: int) -> None:
    """Start the job at a place in the queue on the nodes in ``spot``."""
    counts, job = cluster.counts, cluster.queue[place]
    counts[QUEUED] -= 1
    for behind in range(place, counts[QUEUED]):
        cluster.queue[behind] = cluster.queue[behind + 1]
    for gpu in range(jobs.gpus[job]):
        jobs.held[job, gpu] = cluster.spot[gpu]
        cluster.free[cluster.spot[gpu]] -= 1
    counts[FREE] -= jobs.gpus[job]
    nodes, most, leaves = extent(site, cluster, jobs.gpus[job])
    jobs.speed[job] = speed(site, jobs.application[job], jobs.gpus[job], nodes, most, leaves)
    jobs.start[job] = cluster.clock[NOW]
    jobs.end[job] = cluster.clock[NOW] + jobs.run[job] / jobs.speed[job]
    behind = counts[RUNNING]
    while behind > 0 and jobs.end[cluster.running[behind - 1]] > jobs.end[job]:
        cluster.running[behind] = cluster.running[behind - 1]
        behind -= 1
    cluster.running[behind] = job
    counts[RUNNING] += 1


@compiled
def left(jobs: EpisodeJobs, job: int, now: float) -> float:
    """Return the expected remaining time of a running job, s; 0 if it has run longer than guessed."""
    return max(0.0, jobs.start[job] + jobs.guess[job] / jobs.speed[job] - now)


@compiled
def extent(site: Site, cluster: EpisodeState, gpus: int) -> tuple[int, int, int]:
    """Return the nodes of the placement in ``spot``, where each comes once, the GPUs on the fullest, and its leaves."""
    nodes, most, leaves, here = 0, 0, 0, 0
    for leaf in range(cluster.room.size):
        cluster.room[leaf] = 0
    for gpu in range(gpus):
        node = cluster.spot[gpu]
        if gpu == 0 or node != cluster.spot[gpu - 1]:
            nodes += 1
            here = 0
            leaves += 1 - cluster.room[node // site.per_leaf]
            cluster.room[node // site.per_leaf] = 1
        here += 1
        most = max(most, here)
    return nodes, most, leaves


@compiled
def step_time(site: Site, application: int, nodes: int, most: int, leaves: int) -> float:
    """Return the ratio of the step time on a placement to the step time on one GPU."""
    further = site.slow[application, min(nodes, site.slow.shape[1]) - 1, most - 1] - 1.0
    return 1.0 + further * (1.0 + site.per_crossing * (leaves - 1))


@compiled
def speed(site: Site, application: int, gpus: int, nodes: int, most: int, leaves: int) -> float:
    """Return the speed of a placement relative to the closest placement, at most 1."""
    fewest = (gpus + site.gpus - 1) // site.gpus
    closest = step_time(site, application, fewest, min(gpus, site.gpus), (fewest + site.per_leaf - 1) // site.per_leaf)
    return min(1.0, closest / step_time(site, application, nodes, most, leaves))

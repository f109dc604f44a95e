"""The compiled part of the size-invariant agent: its inputs of jobs and leaf switches, and its starts of jobs.

Every job that fits gets a rank and a gate. Of the jobs with an open gate, the one with the highest rank starts on the
nearest GPUs. If all gates are closed, the agent waits.
"""

from __future__ import annotations

import numpy as np

from ....replay.arrays import Floats
from ....replay.compiled import compiled, compiled_without_lock
from ..kernel import (
    FREE,
    NOW,
    QUEUED,
    RUNNING,
    WINDOW,
    EpisodeJobs,
    EpisodeState,
    Site,
    advance,
    anybody_fits,
    speed,
    start,
)
from ..placing import NEAREST, look, place_job, speed_now

INPUTS = ("run", "GPUs", "slower now", "slower apart", "waited", "waited over run", "waiting pays", "soon",
          "fills a node", "opens a node", "free", "jobs", "work", "split")
"""Of a job: run time as guessed, GPUs, by how much it would run slower on the nearest free ones, and on two nodes; its
wait, also relative; what it gains if it waits until they are free together, and when that is; whether it takes all that
is left of a node, or part of an empty one. Of all: the free share, jobs and work in the queue, jobs to be split now."""
ROOMS = 5
"""Number of inputs of the convolution over leaf switches: shares of nodes with 0 to 4 free GPUs."""
UNITS, HIDDEN = 4, 8
_JOB = len(INPUTS)
ALL = _JOB + 2 * UNITS + 1
"""Number of inputs of a hidden unit: the job's inputs, the mean and the maximum over leaves, and 1."""
LEAF = 0
HIDE = LEAF + (ROOMS + 1) * UNITS
OUT = HIDE + ALL * HIDDEN
LINEAR = OUT + 2 * HIDDEN
SIZE = LINEAR + 2 * ALL
"""Where the weights of a layer begin: leaf [room and 1, unit], hidden [of all, unit], out and linear [rank or gate]."""
LOWEST = -1e300


@compiled_without_lock
def replay(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, weights: Floats) -> int:
    """Run an episode to its end; return the number of decisions."""
    decisions = 0
    while advance(site, jobs, cluster):
        place = 0
        while place >= 0 and anybody_fits(jobs, cluster):
            decisions += 1
            place = pick(site, jobs, cluster, weights)
            if place >= 0:
                place_job(site, cluster, jobs.gpus[cluster.queue[place]], NEAREST)
                start(site, jobs, cluster, place)
    return decisions


@compiled
def pick(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, weights: Floats) -> int:
    """Return the place in the queue of the job to start now, -1 to wait; on an empty cluster a job always starts."""
    look(site, jobs, cluster)
    look_at_queue(site, jobs, cluster)
    look_at_leaves(site, cluster, weights)
    best, most, waits = -1, LOWEST, cluster.counts[RUNNING] > 0
    for place in range(min(cluster.counts[QUEUED], WINDOW)):
        if jobs.gpus[cluster.queue[place]] <= cluster.counts[FREE]:
            look_at_job(site, jobs, cluster, cluster.queue[place])
            rank, gate = rate(weights, cluster.seen)
            if rank > most and (gate > 0.0 or not waits):
                best, most = place, rank
    return best


@compiled
def look_at_queue(site: Site, jobs: EpisodeJobs, cluster: EpisodeState) -> None:
    """Compute the inputs of the whole queue; call :func:`look` first."""
    total, seen, work, split = site.nodes * site.gpus, cluster.seen, 0.0, 0
    for place in range(cluster.counts[QUEUED]):
        job = cluster.queue[place]
        work += jobs.gpus[job] * jobs.guess[job]
        if place < WINDOW and jobs.gpus[job] <= cluster.counts[FREE]:
            split += speed_now(site, jobs, cluster, job) < 0.9
    seen[10] = cluster.counts[FREE] / total
    seen[11] = 0.3 * np.log1p(np.float64(cluster.counts[QUEUED]))
    seen[12] = 0.3 * np.log1p(work / total / 3600.0)
    seen[13] = 0.5 * np.log1p(np.float64(split))


@compiled
def look_at_leaves(site: Site, cluster: EpisodeState, weights: Floats) -> None:
    """Compute the mean and the maximum of each unit over leaves, and the constant 1 after them."""
    seen, leaves = cluster.seen, cluster.room.size
    for unit in range(UNITS):
        seen[_JOB + unit], seen[_JOB + UNITS + unit] = 0.0, -1.0
    for leaf in range(leaves):
        first, last = leaf * site.per_leaf, min(site.nodes, (leaf + 1) * site.per_leaf)
        for unit in range(UNITS):
            value = weights[LEAF + ROOMS * UNITS + unit]
            for node in range(first, last):
                value += weights[LEAF + min(cluster.free[node], ROOMS - 1) * UNITS + unit] / (last - first)
            value /= 1.0 + abs(value)
            seen[_JOB + unit] += value / leaves
            seen[_JOB + UNITS + unit] = max(seen[_JOB + UNITS + unit], value)
    seen[ALL - 1] = 1.0


@compiled
def look_at_job(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, job: int) -> None:
    """Compute the inputs of a job; call :func:`look` first."""
    seen, gpus, run, application = cluster.seen, jobs.gpus[job], jobs.guess[job], jobs.application[job]
    now, soon, room = speed_now(site, jobs, cluster, job), cluster.soon[gpus], cluster.near[gpus, 3]
    apart = 1.0 if gpus > site.gpus else speed(site, application, gpus, min(2, gpus), (gpus + 1) // 2, 1)
    waited, later = cluster.clock[NOW] - jobs.submit[job], now < 1.0 and soon >= 0.0
    seen[0] = 0.5 * np.log((run + 60.0) / 3600.0)
    seen[1] = 0.5 * np.log(np.float64(gpus))
    seen[2] = -np.log(now)
    seen[3] = -np.log(apart)
    seen[4] = 0.25 * np.log1p(waited / 60.0)
    seen[5] = 0.5 * np.log1p(waited / (run + 60.0))
    seen[6] = np.log((run / now + 60.0) / (soon + run + 60.0)) if later else 0.0
    seen[7] = 0.25 * np.log1p(soon / 60.0) if later else 0.0
    seen[8] = 1.0 if room == gpus else 0.0
    seen[9] = 1.0 if gpus < room == site.gpus else 0.0


@compiled
def rate(weights: Floats, seen: Floats) -> tuple[float, float]:
    """Return the rank and the gate of a job for its inputs."""
    rank, gate = 0.0, 0.0
    for place in range(ALL):
        rank += weights[LINEAR + place] * seen[place]
        gate += weights[LINEAR + ALL + place] * seen[place]
    for unit in range(HIDDEN):
        value = 0.0
        for place in range(ALL):
            value += weights[HIDE + place * HIDDEN + unit] * seen[place]
        value /= 1.0 + abs(value)
        rank += weights[OUT + unit] * value
        gate += weights[OUT + HIDDEN + unit] * value
    return rank, gate

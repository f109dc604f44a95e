"""The compiled inputs of the network: the cluster as a canvas, the queue, and a summary of all jobs."""

from __future__ import annotations

import numpy as np

from ....replay.arrays import Floats
from ....replay.compiled import compiled_without_lock
from ..kernel import FREE, NOW, QUEUED, RUNNING, EpisodeJobs, EpisodeState, Site, left, speed, start
from ..placing import NEAREST, look, place_job, speed_now

ROWS = 32
"""Number of jobs of the queue in the inputs; the summary covers the later jobs."""
PAINTS = ("free", "hours left")
"""Inputs of each GPU of the canvas."""
QUEUE = ("GPUs", "run", "waited", "slower apart", "slower now", "fits")
"""Inputs of each job in the queue."""
SUMMARY = ("free", "waiting", "work", "backlog", "running", "speed")


@compiled_without_lock
def observe(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, canvas: Floats, queue: Floats,
            summary: Floats) -> None:
    """Fill in canvas [paint, node, GPU], queue [row, input] and summary [input]."""
    look(site, jobs, cluster)
    total, now, counts = site.nodes * site.gpus, cluster.clock[NOW], cluster.counts
    work, going = 0.0, 0.0
    for node in range(site.nodes):
        cluster.then[node] = 0
        for gpu in range(site.gpus):
            canvas[0, node, gpu], canvas[1, node, gpu] = 1.0, 0.0
    for index in range(counts[RUNNING]):
        job = cluster.running[index]
        going += jobs.speed[job] * jobs.gpus[job]
        for gpu in range(jobs.gpus[job]):
            node = jobs.held[job, gpu]
            canvas[0, node, cluster.then[node]] = 0.0
            canvas[1, node, cluster.then[node]] = 0.4 * np.log1p(left(jobs, job, now) / 3600.0)
            cluster.then[node] += 1
    for place in range(counts[QUEUED]):
        job = cluster.queue[place]
        work += jobs.guess[job] * jobs.gpus[job]
        if place < ROWS:
            gpus, fits = jobs.gpus[job], jobs.gpus[job] <= counts[FREE]
            apart = speed(site, jobs.application[job], gpus, min(2, gpus), (gpus + 1) // 2, 1) if gpus <= site.gpus \
                else 1.0
            queue[place, 0] = gpus / 8.0
            queue[place, 1] = 0.4 * np.log1p(jobs.guess[job] / 600.0)
            queue[place, 2] = 0.4 * np.log1p((now - jobs.submit[job]) / 600.0)
            queue[place, 3] = -np.log(apart)
            queue[place, 4] = -np.log(speed_now(site, jobs, cluster, job)) if fits else 0.0
            queue[place, 5] = 1.0 if fits else 0.0
    for place in range(counts[QUEUED], ROWS):
        for what in range(queue.shape[1]):
            queue[place, what] = 0.0
    summary[0] = counts[FREE] / total
    summary[1] = 0.3 * np.log1p(np.float64(counts[QUEUED]))
    summary[2] = 0.3 * np.log1p(work / total / 3600.0)
    summary[3] = 0.3 * np.log1p(np.float64(max(0, counts[QUEUED] - ROWS)))
    summary[4] = counts[RUNNING] / total
    summary[5] = going / max(1, total - counts[FREE])


@compiled_without_lock
def begin(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, place: int) -> None:
    """Start the job at a place in the queue on the nearest GPUs."""
    place_job(site, cluster, jobs.gpus[cluster.queue[place]], NEAREST)
    start(site, jobs, cluster, place)

"""Compiled rules for the next job: the paper's baselines, and rules that wait for a close placement."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...replay.compiled import compiled, compiled_without_lock
from ...replay.moves import draw
from .kernel import FREE, QUEUED, RUNNING, WINDOW, EpisodeJobs, EpisodeState, Site, advance, anybody_fits, start
from .placing import NEAREST, look, place_job, speed_now

FCFS, SJF, SMALLEST, RANDOM, SMALLEST_AREA, SJF_NOW = range(6)
"""Orders. Lengths are as guessed. Area is GPUs x length; "now" is at the speed that the nearest free GPUs allow."""
CLOSE = 0.86
"""Least speed, relative to the closest placement, at which rules that wait start a job."""


class Rule(NamedTuple):
    """A rule for order and placement: of the oldest ``WINDOW`` jobs, the first in order that fits starts."""

    order: int
    placement: int = NEAREST
    least: float = 0.0
    """Start no job that would be slower than this, relative to the closest placement, while anything runs."""
    blocking: bool = False
    """Whether no job overtakes the first in order, even if that job does not fit."""


@compiled_without_lock
def replay(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, rule: Rule) -> int:
    """Run an episode to its end; return the number of decisions."""
    decisions = 0
    while advance(site, jobs, cluster):
        place = 0
        while place >= 0 and anybody_fits(jobs, cluster):
            decisions += 1
            place = pick(site, jobs, cluster, rule)
            if place >= 0:
                place_job(site, cluster, jobs.gpus[cluster.queue[place]], rule.placement)
                start(site, jobs, cluster, place)
    return decisions


@compiled
def pick(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, rule: Rule) -> int:
    """Return the place in the queue of the job to start now, -1 for none."""
    if rule.order == SJF_NOW or rule.least > 0.0:
        look(site, jobs, cluster)
    best, lowest, fits = -1, np.inf, False
    for place in range(min(cluster.counts[QUEUED], WINDOW)):
        job = cluster.queue[place]
        room = jobs.gpus[job] <= cluster.counts[FREE]
        if not room and not rule.blocking:
            continue
        if rule.least > 0.0 and cluster.counts[RUNNING] > 0 and speed_now(site, jobs, cluster, job) < rule.least:
            continue
        key = sort_key(site, jobs, cluster, rule.order, job)
        if key < lowest:
            best, lowest, fits = place, key, room
    return best if fits else -1


@compiled
def sort_key(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, order: int, job: int) -> float:
    """Return the sort key of a job, lowest first."""
    if order == FCFS:
        return jobs.submit[job]
    if order == SMALLEST:
        return np.float64(jobs.gpus[job])
    if order == RANDOM:
        return np.float64(draw(cluster.words, 1 << 30))
    if order == SMALLEST_AREA:
        return jobs.guess[job] * jobs.gpus[job]
    return jobs.guess[job] / (speed_now(site, jobs, cluster, job) if order == SJF_NOW else 1.0)

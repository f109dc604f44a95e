"""EASY with best fit for jobs of one node each on nodes alike: what made-up years need of the engine, and faster.

It starts every job when the engine does, which ``test_one_node_easy.py`` shows. Where the engine keeps a queue of any
size in trees and looks at CPUs, memory and eligible nodes, a few sorted arrays are enough here.
"""

from typing import NamedTuple

import numpy as np

from idlewatt.daemon.replay.compiled import compiled_with_arrays

DEPTH = 100
"""So many jobs behind the blocked one are looked at, as in the engine."""


class Jobs(NamedTuple):
    """Jobs in order of submission; ``rank`` is their place in the queue, the lowest first."""

    submit: np.ndarray
    run: np.ndarray
    gpus: np.ndarray
    limit: np.ndarray
    rank: np.ndarray

    @classmethod
    def of(cls, work, keys):
        """Return the jobs of a workload; the smallest key goes first."""
        rank = np.empty(len(work), np.int64)
        rank[np.argsort(keys, kind="stable")] = np.arange(len(work))
        return cls(work.submit, work.run, work.gpus.astype(np.int64), work.limit, rank)


class Scene(NamedTuple):
    """A site at one moment; ``size`` is how many run and how many wait."""

    free: np.ndarray
    """GPUs of each node."""
    running: np.ndarray
    """Jobs by (limit reached, row)."""
    waiting: np.ndarray
    """Jobs by rank."""
    size: np.ndarray
    spare: np.ndarray
    """GPUs of each node that are free beside a reservation, and"""
    both: np.ndarray
    """those that are free now as well."""


class Timeline(NamedTuple):
    """What came of each job."""

    start: np.ndarray
    node: np.ndarray


def scene(nodes, gpus, jobs):
    """Return an empty site."""
    return Scene(np.full(nodes, gpus, np.int64), np.zeros(nodes * gpus + 1, np.int64), np.zeros(jobs, np.int64),
                 np.zeros(2, np.int64), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64))


def replay(jobs, nodes, gpus=8):
    """Return starts and nodes of all jobs."""
    count = len(jobs.submit)
    timeline = Timeline(np.full(count, np.nan), np.zeros(count, np.int64))
    proceed(jobs, timeline, scene(nodes, gpus, count), 0, np.inf)
    return timeline


@compiled_with_arrays
def proceed(jobs, timeline, site, upcoming, until):
    """Let everything happen before a moment, the next job to arrive given."""
    while True:
        now = jobs.submit[upcoming] if upcoming < jobs.submit.size else np.inf
        for index in range(site.size[0]):
            job = site.running[index]
            now = min(now, timeline.start[job] + jobs.run[job])
        if now >= until:
            return
        end_jobs(jobs, timeline, site, now)
        while upcoming < jobs.submit.size and jobs.submit[upcoming] <= now:
            stand_in_line(jobs, timeline, site, upcoming)
            upcoming += 1
        decide(jobs, timeline, site, now)


@compiled_with_arrays
def end_jobs(jobs, timeline, site, now):
    """Let go of the nodes of jobs that have ended."""
    kept = 0
    for index in range(site.size[0]):
        job = site.running[index]
        if timeline.start[job] + jobs.run[job] <= now:
            site.free[timeline.node[job]] += jobs.gpus[job]
        else:
            site.running[kept] = job
            kept += 1
    site.size[0] = kept


@compiled_with_arrays
def stand_in_line(jobs, timeline, site, job):
    """Queue a job."""
    timeline.start[job], place = np.nan, site.size[1]
    while place > 0 and jobs.rank[site.waiting[place - 1]] > jobs.rank[job]:
        site.waiting[place] = site.waiting[place - 1]
        place -= 1
    site.waiting[place] = job
    site.size[1] += 1


@compiled_with_arrays
def hold(jobs, timeline, site, job):
    """Note that a job runs, whose start and node are known."""
    estimate, place = timeline.start[job] + jobs.limit[job], site.size[0]
    site.free[timeline.node[job]] -= jobs.gpus[job]
    while place > 0:
        other = site.running[place - 1]
        later = timeline.start[other] + jobs.limit[other]
        if later < estimate or (later == estimate and other < job):
            break
        site.running[place] = other
        place -= 1
    site.running[place] = job
    site.size[0] += 1


@compiled_with_arrays
def fullest(free, gpus):
    """Return the node with the fewest free GPUs that holds a job; -1 if none."""
    best = -1
    for node in range(free.size):
        if free[node] >= gpus and (best < 0 or free[node] < free[best]):
            best = node
    return best


@compiled_with_arrays
def beside(site):
    """Return what is free now and will be beside the reservation."""
    for node in range(site.free.size):
        site.both[node] = min(site.free[node], site.spare[node])
    return site.both


@compiled_with_arrays
def begin(jobs, timeline, site, job, node, now):
    """Start a job."""
    timeline.start[job], timeline.node[job] = now, node
    hold(jobs, timeline, site, job)


@compiled_with_arrays
def decide(jobs, timeline, site, now):
    """Start jobs in order; when one has to wait, let others pass that do not delay its reservation."""
    heads = 0
    while heads < site.size[1]:
        node = fullest(site.free, jobs.gpus[site.waiting[heads]])
        if node < 0:
            break
        begin(jobs, timeline, site, site.waiting[heads], node, now)
        heads += 1
    site.size[1] -= heads
    for index in range(site.size[1] if heads else 0):
        site.waiting[index] = site.waiting[index + heads]
    if site.size[1] > 1 and site.free.max() > 0:
        pass_head(jobs, timeline, site, now, reserve(jobs, timeline, site, now))


@compiled_with_arrays
def reserve(jobs, timeline, site, now):
    """Return when the first in line can start at the latest, leaving in ``spare`` what is free then beside it."""
    gpus = jobs.gpus[site.waiting[0]]
    site.spare[:] = site.free
    for index in range(site.size[0]):
        job = site.running[index]
        node = timeline.node[job]
        site.spare[node] += jobs.gpus[job]
        if site.spare[node] >= gpus:
            site.spare[node] -= gpus
            return max(now, timeline.start[job] + jobs.limit[job])
    return np.inf


@compiled_with_arrays
def pass_head(jobs, timeline, site, now, shadow):
    """Start later jobs that are gone by ``shadow`` or fit beside the reservation."""
    kept, last, largest = 1, min(site.size[1], DEPTH + 1), site.free.max()
    for index in range(1, last):
        job = site.waiting[index]
        node = -1
        if jobs.gpus[job] <= largest:
            short = now + jobs.limit[job] <= shadow
            node = fullest(site.free if short else beside(site), jobs.gpus[job])
        if node < 0:
            site.waiting[kept] = job
            kept += 1
            continue
        if not short:
            site.spare[node] -= jobs.gpus[job]
        begin(jobs, timeline, site, job, node, now)
        largest = site.free.max()
    if kept < last:
        for index in range(last, site.size[1]):
            site.waiting[index - last + kept] = site.waiting[index]
        site.size[1] -= last - kept


@compiled_with_arrays
def standings(jobs, real, site, span):
    """Return the time that jobs spend in the system in each window, as the daemon finds it.

    The replay of each begins a while before it, with what really ran and waited then; ``span`` is (length of a window,
    how long before, number of windows), in seconds.
    """
    window_s, warm_up_s, windows = span
    timeline, found, first = Timeline(real.start.copy(), real.node.copy()), np.zeros(int(windows)), 0
    gpus = site.free.copy()
    for number in range(found.size):
        site.free[:], site.size[:] = gpus, 0
        begins_s = max(0.0, number * window_s - warm_up_s)
        while first < jobs.submit.size and real.start[first] + jobs.run[first] <= begins_s:
            first += 1
        last = resume(jobs, real, timeline, site, first, begins_s)
        proceed(jobs, timeline, site, last, (number + 1) * window_s)
        found[number] = spent(jobs, timeline, first, number * window_s, (number + 1) * window_s)
    return found


@compiled_with_arrays
def really(jobs, real, span):
    """Return the time that jobs really spent in the system in each window: what ``standings`` finds of who decided."""
    window_s, _, windows = span
    found, first = np.zeros(int(windows)), 0
    for number in range(found.size):
        while first < jobs.submit.size and real.start[first] + jobs.run[first] <= number * window_s:
            first += 1
        found[number] = spent(jobs, real, first, number * window_s, (number + 1) * window_s)
    return found


@compiled_with_arrays
def resume(jobs, real, timeline, site, first, begins_s):
    """Let run and wait what really did at a moment; return the next job to arrive."""
    last = first
    while last < jobs.submit.size and jobs.submit[last] < begins_s:
        timeline.start[last], timeline.node[last] = real.start[last], real.node[last]
        if real.start[last] >= begins_s:
            stand_in_line(jobs, timeline, site, last)
        elif real.start[last] + jobs.run[last] > begins_s:
            hold(jobs, timeline, site, last)
        last += 1
    decide(jobs, timeline, site, begins_s)
    return last


@compiled_with_arrays
def spent(jobs, timeline, first, since_s, until_s):
    """Return how long jobs, from one on, waited or ran between two moments."""
    total = 0.0
    for job in range(first, jobs.submit.size):
        if jobs.submit[job] >= until_s:
            break
        end = until_s if np.isnan(timeline.start[job]) else min(until_s, timeline.start[job] + jobs.run[job])
        total += max(0.0, end - max(since_s, jobs.submit[job]))
    return total

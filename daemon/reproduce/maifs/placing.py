"""Compiled choice of the jobs that run in a round, and their placement by the heuristics."""

from __future__ import annotations

from ...replay.arrays import Longs
from ...replay.compiled import compiled, compiled_apart
from .kernel import (
    BEST,
    CPU,
    FAIR,
    GPU,
    MEMORY,
    NodeArrays,
    Site,
    SubmittedJobs,
    fits,
    floor_of,
    put,
    regrant,
    take_off,
    whole,
)

PROPORTIONAL, GREEDY, TUNE = 0, 1, 2
"""Rules of the heuristics for a node's CPUs and memory."""


@compiled
def select(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, order: Longs, queue: Longs) -> int:
    """Keep the first jobs that the GPUs suffice for, stop the others.

    Fill ``queue`` with jobs to place, return their number.
    """
    left, count = site.nodes * site.size, 0
    for job in order:
        gpus = max(jobs.gpus[job], whole(site, jobs.gpus[job]) * site.size)
        if gpus <= left:
            left -= gpus
            if jobs.node[job] < 0:
                count = enqueue(jobs, queue, 0, count, job)
        elif jobs.node[job] >= 0:
            take_off(site, jobs, nodes, job)
    return count


@compiled
def enqueue(jobs: SubmittedJobs, queue: Longs, first: int, count: int, job: int) -> int:
    """Insert a job into ``queue[first:count]``, which is sorted by GPUs, most first; return the new end."""
    place = count
    while place > first and jobs.gpus[queue[place - 1]] < jobs.gpus[job]:
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = job
    return count + 1


@compiled
def release(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, live: Longs, queue: Longs, count: int) -> int:
    """Add running jobs on shared nodes to the queue, and sort it by GPUs and then wanted CPUs; return its new end."""
    for job in live:
        if jobs.node[job] >= 0 and not whole(site, jobs.gpus[job]):
            take_off(site, jobs, nodes, job)
            queue[count] = job
            count += 1
    for place in range(1, count):
        job, wanted = queue[place], _wanted(site, jobs, queue[place])
        while place > 0 and _wanted(site, jobs, queue[place - 1]) < wanted:
            queue[place] = queue[place - 1]
            place -= 1
        queue[place] = job
    return count


@compiled
def _wanted(site: Site, jobs: SubmittedJobs, job: int) -> int:
    gpus = jobs.gpus[job]
    return gpus * site.shares if whole(site, gpus) else gpus * site.shares + floor_of(site, jobs, job, BEST, 0)


@compiled
def make_room(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, queue: Longs, first: int, count: int) -> int:
    """Displace smaller jobs with the fewest GPUs to make room for ``queue[first]``, if this is needed and helps.

    Displaced jobs go into the queue; return its new end.
    """
    gpus = jobs.gpus[queue[first]]
    best, least = -1, site.size + 1
    for node in range(site.nodes):
        if nodes.owner[node] >= 0:
            continue
        movable = nodes.free[node, GPU]
        if movable >= gpus:
            return count
        for place in range(nodes.seated[node]):
            member = jobs.gpus[nodes.members[node, place]]
            movable += member if member < gpus else 0
        if movable >= gpus and gpus - nodes.free[node, GPU] < least:
            best, least = node, gpus - nodes.free[node, GPU]
    while best >= 0 and nodes.free[best, GPU] < gpus:
        count = _evict_smallest(site, jobs, nodes, best, queue, first + 1, count)
    return count


@compiled_apart
def _evict_smallest(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, queue: Longs, first: int,
                    count: int) -> int:
    smallest = nodes.members[node, 0]
    for place in range(nodes.seated[node]):
        if jobs.gpus[nodes.members[node, place]] < jobs.gpus[smallest]:
            smallest = nodes.members[node, place]
    take_off(site, jobs, nodes, smallest)
    return enqueue(jobs, queue, first, count, smallest)


@compiled
def seat_whole(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, queue: Longs, first: int, count: int) -> int:
    """Give ``queue[first]`` the emptiest whole nodes; put the displaced jobs into the queue; return its new end."""
    for _ in range(whole(site, jobs.gpus[queue[first]])):
        emptiest = -1
        for node in range(site.nodes):
            if nodes.owner[node] < 0 and (emptiest < 0 or nodes.free[node, GPU] > nodes.free[emptiest, GPU]):
                emptiest = node
        count = _take_over(site, jobs, nodes, queue, first, count, emptiest)
    return count


@compiled
def claim(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, queue: Longs, first: int, count: int,
          chosen: Longs) -> int:
    """Give ``queue[first]`` these whole nodes; put the displaced jobs into the queue; return its new end."""
    for node in chosen:
        count = _take_over(site, jobs, nodes, queue, first, count, node)
    return count


@compiled_apart
def _take_over(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, queue: Longs, first: int, count: int,
               node: int) -> int:
    while nodes.seated[node] > 0:
        count = _evict_smallest(site, jobs, nodes, node, queue, first + 1, count)
    nodes.owner[node], jobs.node[queue[first]] = queue[first], node
    nodes.free[node] = (0, 0, 0)
    return count


@compiled
def place_all(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, queue: Longs, count: int, rule: int) -> None:
    """Place the queue as the heuristics do: on the node with the fewest free GPUs on which the wanted resources fit."""
    first = 0
    while first < count:
        job = queue[first]
        if whole(site, jobs.gpus[job]):
            count = seat_whole(site, jobs, nodes, queue, first, count)
        else:
            count = make_room(site, jobs, nodes, queue, first, count)
            _place(site, jobs, nodes, job, rule)
        first += 1


@compiled
def _place(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int, rule: int) -> None:
    """Place one job; without room for its wanted resources it waits under GREEDY, otherwise it takes the fair share."""
    jobs.level[job] = FAIR if rule == PROPORTIONAL else BEST
    node = _tightest(site, jobs, nodes, job, rule != PROPORTIONAL)
    if node < 0 and rule != GREEDY:
        node = _tightest(site, jobs, nodes, job, False)
        jobs.level[job] = FAIR
    if node < 0:
        return
    if rule == PROPORTIONAL:
        fair = jobs.gpus[job] * site.shares // site.size
        put(jobs, nodes, job, node, fair, fair)
        return
    cpus, memory = floor_of(site, jobs, job, jobs.level[job], 0), floor_of(site, jobs, job, jobs.level[job], 1)
    if rule == TUNE:
        _shrink_peers(site, jobs, nodes, node, cpus, memory)
    put(jobs, nodes, job, node, cpus, memory)


@compiled_apart
def _tightest(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int, at_best: bool) -> int:
    """Return the node with the fewest free GPUs that has room, be it for the best or only for the GPUs; -1 for none.

    Where a job was before it stays, if it can.
    """
    best, least, gpus = -1, site.size + 1, jobs.gpus[job]
    cpus, memory = floor_of(site, jobs, job, BEST, 0), floor_of(site, jobs, job, BEST, 1)
    for node in range(site.nodes):
        free = nodes.free[node]
        room = free[GPU] >= gpus and (not at_best or (free[CPU] >= cpus and free[MEMORY] >= memory))
        if room and jobs.before[job, 0] == node:
            return node
        if room and free[GPU] < least:
            best, least = node, free[GPU]
    return best


@compiled
def _shrink_peers(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, cpus: int, memory: int) -> None:
    """Reduce the other jobs of a node, down to their fair share, to make room for a job."""
    for place in range(nodes.seated[node]):
        if nodes.free[node, CPU] >= cpus and nodes.free[node, MEMORY] >= memory:
            return
        peer = nodes.members[node, place]
        jobs.level[peer] = FAIR
        regrant(jobs, nodes, peer, floor_of(site, jobs, peer, FAIR, 0), floor_of(site, jobs, peer, FAIR, 1))


@compiled
def grow(site: Site, jobs: SubmittedJobs, nodes: NodeArrays) -> None:
    """Raise a job from its fair share to its best grant if its node has enough free resources, as TUNE does."""
    for node in range(site.nodes):
        for place in range(nodes.seated[node]):
            job = nodes.members[node, place]
            cpus, memory = floor_of(site, jobs, job, BEST, 0), floor_of(site, jobs, job, BEST, 1)
            if jobs.level[job] == FAIR and fits(jobs, nodes, job, cpus, memory):
                jobs.level[job] = BEST
                regrant(jobs, nodes, job, cpus, memory)

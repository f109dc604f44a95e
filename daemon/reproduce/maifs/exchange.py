"""Two nodes trade: a job that is short of CPUs for one that needs none, where that is worth both moves; compiled.

Only what starts can be placed freely; on a full cluster that is one place at a time. So running jobs are reconsidered.
"""

from __future__ import annotations

import numpy as np

from ...replay.arrays import Floats
from ...replay.compiled import compiled, compiled_apart
from .kernel import BEST, GPU, THROUGHPUT, NodeArrays, Site, SubmittedJobs, divide, floor_of, put, take_off
from .observation import pressure

HORIZON_S = 1800.0
"""For how long a trade is expected to be of use, unless the job ends before; ``taste[2]`` is the log of a factor."""


@compiled
def exchange(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, taste: Floats) -> int:
    """Trade between the nodes with the most and the least unmet demand while that pays; return how many trades."""
    for count in range(site.nodes):
        short, rich = _extremes(site, jobs, nodes)
        if short < 0 or rich < 0 or not _trade(site, jobs, nodes, short, rich, taste):
            return count
    return site.nodes


@compiled_apart
def _extremes(site: Site, jobs: SubmittedJobs, nodes: NodeArrays) -> tuple[int, int]:
    """Return the nodes that are shortest of CPUs, and that have the most to spare; -1 for none."""
    short, rich, most, least = -1, -1, 0, 0
    for node in range(site.nodes):
        if nodes.owner[node] >= 0:
            continue
        crowd = pressure(site, jobs, nodes, node)
        if crowd > most:
            short, most = node, crowd
        if crowd < least:
            rich, least = node, crowd
    return short, rich


@compiled_apart
def _trade(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, short: int, rich: int, taste: Floats) -> bool:
    """Move the job that lacks the most CPUs to where there are some, and another back if it needs the room."""
    job = _lacking(site, jobs, nodes, short)
    back = _indifferent(site, jobs, nodes, rich, jobs.gpus[job]) if nodes.free[rich, GPU] < jobs.gpus[job] else -1
    if back < 0 and nodes.free[rich, GPU] < jobs.gpus[job]:
        return False
    before = _both(site, jobs, nodes, short, rich, taste)
    _swap(site, jobs, nodes, job, rich, back, short)
    gain = _both(site, jobs, nodes, short, rich, taste) - before
    use_s = min(jobs.left[job], HORIZON_S * np.exp(taste[2]))
    moved = 1.0 if back < 0 else 2.0
    if gain * use_s > moved * jobs.gpus[job] * site.moves[jobs.gpus[job]]:
        return True
    _swap(site, jobs, nodes, job, short, back, rich)
    _both(site, jobs, nodes, short, rich, taste)
    return False


@compiled
def _lacking(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int) -> int:
    """Return the job of a node that lacks the most CPUs."""
    found, most = nodes.members[node, 0], 0
    for place in range(nodes.seated[node]):
        job = nodes.members[node, place]
        lacks = floor_of(site, jobs, job, BEST, 0) - jobs.cpus[job]
        if lacks > most:
            found, most = job, lacks
    return found


@compiled
def _indifferent(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, gpus: int) -> int:
    """Return the job of a node with so many GPUs that can use the fewest CPUs; of several the longest, -1 for none."""
    found, least = -1, np.inf
    for place in range(nodes.seated[node]):
        job = nodes.members[node, place]
        wants = floor_of(site, jobs, job, BEST, 0) + 1.0 / (1.0 + jobs.left[job])
        if jobs.gpus[job] == gpus and wants < least:
            found, least = job, wants
    return found


@compiled_apart
def _both(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, one: int, other: int, taste: Floats) -> float:
    return divide(site, jobs, nodes, one, THROUGHPUT, taste) + divide(site, jobs, nodes, other, THROUGHPUT, taste)


@compiled_apart
def _swap(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int, target: int, back: int, source: int) -> None:
    """Seat a job there, and another one, if any, here."""
    take_off(site, jobs, nodes, job)
    if back >= 0:
        take_off(site, jobs, nodes, back)
        put(jobs, nodes, back, source, 0, 0)
    put(jobs, nodes, job, target, 0, 0)

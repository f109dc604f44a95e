"""Compiled trades between two nodes: a job that lacks CPUs for a job that needs none, if the gain exceeds both costs.

Only starting jobs can be placed freely, and on a full cluster only one at a time. So running jobs are moved, too.
"""

from __future__ import annotations

import numpy as np

from ...replay.arrays import Floats
from ...replay.compiled import compiled, compiled_apart
from .kernel import BEST, GPU, THROUGHPUT, NodeArrays, Site, SubmittedJobs, divide, floor_of, put, take_off
from .observation import pressure

HORIZON_S = 1800.0
"""Expected time of use of a trade unless the job ends before, s; ``taste[2]`` is the log of a factor."""


@compiled
def exchange(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, taste: Floats) -> int:
    """Trade between the nodes with the most and the least unmet demand as long as it pays.

    Return the number of trades.
    """
    for count in range(site.nodes):
        short, rich = _extremes(site, jobs, nodes)
        if short < 0 or rich < 0 or not _trade(site, jobs, nodes, short, rich, taste):
            return count
    return site.nodes


@compiled_apart
def _extremes(site: Site, jobs: SubmittedJobs, nodes: NodeArrays) -> tuple[int, int]:
    """Return the node with the largest lack of CPUs and the node with the most spare CPUs; -1 for none."""
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
    """Move the job that lacks the most CPUs to the node with spare CPUs, and another job back if room is needed."""
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
    neediest, most = nodes.members[node, 0], 0
    for place in range(nodes.seated[node]):
        job = nodes.members[node, place]
        lacks = floor_of(site, jobs, job, BEST, 0) - jobs.cpus[job]
        if lacks > most:
            neediest, most = job, lacks
    return neediest


@compiled
def _indifferent(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, gpus: int) -> int:
    """Return the job of a node with so many GPUs that can use the fewest CPUs; of several the longest, -1 for none."""
    chosen, least = -1, np.inf
    for place in range(nodes.seated[node]):
        job = nodes.members[node, place]
        wants = floor_of(site, jobs, job, BEST, 0) + 1.0 / (1.0 + jobs.left[job])
        if jobs.gpus[job] == gpus and wants < least:
            chosen, least = job, wants
    return chosen


@compiled_apart
def _both(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, first: int, other: int, taste: Floats) -> float:
    return divide(site, jobs, nodes, first, THROUGHPUT, taste) + divide(site, jobs, nodes, other, THROUGHPUT, taste)


@compiled_apart
def _swap(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int, target: int, back: int, source: int) -> None:
    """Place a job on the other node, and another job, if any, on this node."""
    take_off(site, jobs, nodes, job)
    if back >= 0:
        take_off(site, jobs, nodes, back)
        put(jobs, nodes, back, source, 0, 0)
    put(jobs, nodes, job, target, 0, 0)

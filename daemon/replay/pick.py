"""Choose nodes for a job by a score, compiled: what most placements come down to."""

from __future__ import annotations

from .arrays import Ask, Longs, Site
from .compiled import compiled
from .moves import fits


@compiled
def lowest(site: Site, ask: Ask, gpus: int, taken: Longs, count: int) -> int:
    """Return the fitting node of lowest (score, index) not among the ``count`` first of ``taken``; -1 if none."""
    best = -1
    for node in range(site.nodes.size):
        if site.nodes[node].free_gpus < gpus or (best >= 0 and site.nodes[node].score >= site.nodes[best].score):
            continue
        if fits(site, node, ask, gpus) and not among(taken, count, node):
            best = node
    return best


@compiled
def among(taken: Longs, count: int, node: int) -> bool:
    """Tell whether a node is one of the ``count`` first of ``taken``."""
    found = False
    for index in range(count):
        found = found or taken[index] == node
    return found


@compiled
def pick(site: Site, ask: Ask, chosen: Longs) -> int:
    """Choose different nodes of lowest (score, index): one per chunk, then one for the rest; 0 when they do not fit."""
    if ask.chunks > 1 and not enough(site, ask):
        return 0
    for count in range(ask.chunks):
        chosen[count] = lowest(site, ask, ask.gpus, chosen, count)
        if chosen[count] < 0:
            return 0
    if ask.rest == 0:
        return ask.chunks
    chosen[ask.chunks] = lowest(site, ask, ask.rest, chosen, ask.chunks)
    return ask.chunks + 1 if chosen[ask.chunks] >= 0 else 0


@compiled
def enough(site: Site, ask: Ask) -> bool:
    """Tell whether as many nodes fit a chunk as the job has chunks."""
    count = 0
    for node in range(site.nodes.size):
        if fits(site, node, ask, ask.gpus):
            count += 1
    return count >= ask.chunks

"""Choose nodes for a job by a score, compiled: what most placements come down to."""

from __future__ import annotations

from .arrays import Ask, Longs, PlacementView
from .compiled import compiled
from .moves import fits


@compiled
def lowest(site: PlacementView, ask: Ask, gpus: int, taken: Longs, count: int) -> int:
    """Return the fitting node of lowest (score, index) not among the ``count`` first of ``taken``; -1 if none."""
    best = -1
    for node in range(site.nodes.size):
        if site.nodes[node].free_gpus < gpus or (best >= 0 and site.nodes[node].score >= site.nodes[best].score):
            continue
        if fits(site, node, ask, gpus) and not contains(taken, count, node):
            best = node
    return best


@compiled
def contains(taken: Longs, count: int, node: int) -> bool:
    """Tell whether a node is one of the ``count`` first of ``taken``."""
    contained = False
    for index in range(count):
        contained = contained or taken[index] == node
    return contained


@compiled
def pick(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose different nodes of lowest (score, index): chunks first; 0 when they do not fit."""
    if ask.chunks + ask.rests > 1 and not enough(site, ask):
        return 0
    parts = ask.chunks + ask.rests
    for count in range(parts):
        chosen[count] = lowest(site, ask, ask.gpus if count < ask.chunks else ask.rest, chosen, count)
        if chosen[count] < 0:
            return 0
    return parts


@compiled
def enough(site: PlacementView, ask: Ask) -> bool:
    """Tell whether the job fits."""
    chunks, parts = 0, 0
    for node in range(site.nodes.size):
        if fits(site, node, ask, least(ask)):
            parts += 1
            if ask.rests == 0 or fits(site, node, ask, ask.gpus):
                chunks += 1
    return chunks >= ask.chunks and parts >= ask.chunks + ask.rests


@compiled
def least(ask: Ask) -> int:
    """Return the GPUs of the job's smallest part."""
    return ask.rest if ask.rests > 0 else ask.gpus

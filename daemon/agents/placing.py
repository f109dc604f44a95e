"""Compiled placement of jobs and its effect on free resources: the closest placement, and of equally close the fullest.

Best fit at every level preserves large free blocks: the node, else the leaf, else the spine, else the level above, with
the least room that suffices.
"""

from __future__ import annotations

from typing import NamedTuple

from ..replay.arrays import Longs, Masks
from ..replay.compiled import compiled, compiled_apart
from .demands import CHUNK, CHUNKS, RESTS, WHOLE

ISLAND, NODE, LEAF, SPINE, FURTHER = range(5)
"""Levels, columns of ``SpeedTable.spread``."""
FOUND, LEVEL, LEFTOVER, OPENS = range(4)
"""Columns of ``FreeResourceArrays.summaries``."""


class FreeResourceArrays(NamedTuple):
    """Free resources by kind of jobs; a key is twice the kind, plus 1 for jobs that must not use reserved nodes."""

    free: Longs
    """[node, GPUs, CPUs and bytes]."""
    busy: Longs
    gpus: Longs
    cpus: Longs
    island: Longs
    """Most free GPUs on one island of a node; empty where nodes are not divided."""
    switches: Longs
    """[level, node] leaf, spine and the switches above them."""
    kinds: Longs
    """[kind, ...] as ``WaitingJobs.demands``."""
    full: Longs
    """[kind, GPUs, CPUs and bytes] of a chunk."""
    last: Longs
    """[kind, GPUs, CPUs and bytes] of the rest."""
    allowed: Masks
    """[kind, node]."""
    fits: Masks
    """[kind, node] where there is room for a chunk now."""
    rest_fits: Masks
    """[kind, node] where there is room for the rest now."""
    reserved: Masks
    near: Longs
    """Nodes on which at least one kind fits, in rising order."""
    order: Longs
    """The nodes near, the fullest first."""
    sorted_: Masks
    """[1] whether ``order`` is."""
    summaries: Longs
    """[key, ...] whether there is a placement, its distance level, the GPUs that stay free on its fullest node, whether
    it uses an empty node."""
    stale: Masks
    """[key] whether its summary is out of date."""
    sizes: Longs
    """[level] switches."""
    place: Longs
    """Scratch: the nodes that were found."""
    line: Longs
    """[2, node] scratch."""
    counts: Longs
    """[3, ...] scratch, as long as there are nodes, switches and GPUs on a node."""
    chosen: Masks
    """[node] scratch, False."""


@compiled_apart
def look(resources: FreeResourceArrays, keys: Longs, left: Masks, startable: Masks) -> None:
    """Fill in which of the jobs that are left could start now, by their keys."""
    for job in range(keys.size):
        startable[job] = False
        if left[job]:
            key = keys[job]
            if resources.stale[key]:
                find(resources, key)
            startable[job] = resources.summaries[key, FOUND] == 1


@compiled_apart
def find(resources: FreeResourceArrays, key: int) -> int:
    """Write the placement of a key to ``place`` and its summary; return the number of nodes, 0 for no placement."""
    kind, beside = key // 2, key % 2 == 1
    line_up_all(resources)
    resources.stale[key] = False
    if resources.kinds[kind, CHUNKS] + resources.kinds[kind, RESTS] == 1:
        count, level = _one(resources, kind, beside)
    else:
        count, level = _several(resources, kind, beside)
    summary = resources.summaries[key]
    summary[FOUND], summary[LEVEL], summary[LEFTOVER], summary[OPENS] = count > 0, level, 0, 0
    least = 1 << 60
    for index in range(count):
        free = resources.free[resources.place[index], 0]
        least = min(least, free)
        summary[LEFTOVER] = least - resources.kinds[kind, CHUNK]
        summary[OPENS] |= free == resources.gpus[resources.place[index]]
    return count


@compiled_apart
def line_up_all(resources: FreeResourceArrays) -> None:
    """Fill ``order``, unless it is up to date."""
    if not resources.sorted_[0]:
        _sort(resources.near, resources.order, resources.near.size, resources.free[:, 0], resources.counts[2])
        resources.sorted_[0] = True


@compiled
def _sort(line: Longs, into: Longs, count: int, keys: Longs, ends: Longs) -> None:
    """Sort nodes by their non-negative keys, stable; ``ends`` is scratch."""
    most = 0
    for index in range(count):
        most = max(most, keys[line[index]])
    for key in range(most + 1):
        ends[key] = 0
    for index in range(count):
        ends[keys[line[index]]] += 1
    for key in range(1, most + 1):
        ends[key] += ends[key - 1]
    for index in range(count - 1, -1, -1):
        key = keys[line[index]]
        ends[key] -= 1
        into[ends[key]] = line[index]


@compiled
def _able(resources: FreeResourceArrays, fits: Masks, kind: int, node: int, beside: bool) -> bool:
    """Tell whether a node may be used for a kind."""
    return bool(fits[kind, node] and not (beside and resources.reserved[node]))


@compiled
def _one(resources: FreeResourceArrays, kind: int, beside: bool) -> tuple[int, int]:
    """Take the fullest node that holds a job, on one island where there is such a node; return (nodes, level)."""
    best = -1
    for node in resources.order:
        if _able(resources, resources.fits, kind, node, beside):
            if resources.island.size == 0 or resources.island[node] >= resources.kinds[kind, CHUNK]:
                resources.place[0] = node
                return 1, ISLAND
            best = node if best < 0 else best
    if best < 0:
        return 0, 0
    resources.place[0] = best
    return 1, NODE


@compiled
def _several(resources: FreeResourceArrays, kind: int, beside: bool) -> tuple[int, int]:
    """Take the nodes that are closest together; return (nodes, level)."""
    levels, rests = resources.sizes.size, resources.kinds[kind, RESTS]
    others = resources.rest_fits if rests > 0 else resources.fits
    if not (_enough(resources, resources.fits, kind, beside, resources.kinds[kind, CHUNKS])
            and _enough(resources, others, kind, beside, resources.kinds[kind, CHUNKS] + rests)):
        return 0, 0
    for level in range(levels):
        inside = _tightest(resources, others, kind, beside, level)
        if inside >= 0:
            return _fill(resources, others, kind, beside, level, inside), min(LEAF + level, FURTHER)
    return _fill(resources, others, kind, beside, levels, 0), FURTHER


@compiled
def _enough(resources: FreeResourceArrays, fits: Masks, kind: int, beside: bool, wanted: int) -> bool:
    """Tell whether so many nodes may be used for a kind."""
    count = 0
    for node in resources.order:
        if count == wanted:
            return True
        count += _able(resources, fits, kind, node, beside)
    return count == wanted


@compiled_apart
def _tightest(resources: FreeResourceArrays, others: Masks, kind: int, beside: bool, level: int) -> int:
    """Return the switch of a level with the least room that suffices, -1 for none; the first of equals."""
    chunks, needed = resources.kinds[kind, CHUNKS], resources.kinds[kind, CHUNKS] + resources.kinds[kind, RESTS]
    if resources.sizes[level] == 1:
        return 0  # there is enough room, all of it below the only switch
    able, full, best = resources.counts[0], resources.counts[1], -1
    _count(resources, others, kind, beside, level, able)
    _count(resources, resources.fits, kind, beside, level, full)
    for switch in range(resources.sizes[level]):
        enough = able[switch] >= needed and full[switch] >= chunks
        if enough and (best < 0 or able[switch] < able[best]):
            best = switch
    return best


@compiled
def _count(resources: FreeResourceArrays, fits: Masks, kind: int, beside: bool, level: int, counts: Longs) -> None:
    """Count by switch of a level the nodes that may be used for a kind."""
    for switch in range(resources.sizes[level]):
        counts[switch] = 0
    for node in resources.near:
        counts[resources.switches[level, node]] += _able(resources, fits, kind, node, beside)


@compiled_apart
def _fill(resources: FreeResourceArrays, others: Masks, kind: int, beside: bool, level: int, inside: int) -> int:
    """Take the nodes of a job below a switch (of no level: anywhere), the roomiest leaves first; return how many."""
    chunks, rests = resources.kinds[kind, CHUNKS], resources.kinds[kind, RESTS]
    _count(resources, others, kind, beside, 0, resources.counts[0])
    _line_up(resources, resources.fits, kind, beside, level, inside)
    for index in range(chunks):
        resources.place[index] = resources.line[0, index]
        resources.chosen[resources.place[index]] = True
    taken: int = chunks
    number = _line_up(resources, others, kind, beside, level, inside) if rests > 0 else 0
    for index in range(number):
        if taken < chunks + rests and not resources.chosen[resources.line[0, index]]:
            resources.place[taken] = resources.line[0, index]
            taken += 1
    for index in range(chunks):
        resources.chosen[resources.place[index]] = False
    return taken


@compiled_apart
def _line_up(resources: FreeResourceArrays, fits: Masks, kind: int, beside: bool, level: int, inside: int) -> int:
    """Fill ``line`` with the usable nodes below a switch, the roomiest leaves first, and in them the fullest nodes."""
    count = 0
    for node in resources.order:
        here = level == resources.sizes.size or resources.switches[level, node] == inside
        if here and _able(resources, fits, kind, node, beside):
            resources.line[0, count] = node
            count += 1
    if level > 0:
        for index in range(count):
            node = resources.line[1, index] = resources.line[0, index]
            resources.counts[1, node] = resources.near.size - resources.counts[0, resources.switches[0, node]]
        _sort(resources.line[1], resources.line[0], count, resources.counts[1], resources.counts[2])
    return count


@compiled_apart
def take(resources: FreeResourceArrays, kind: int, nodes: Longs) -> None:
    """Subtract from the nodes the resources of a job of a kind."""
    for index in range(nodes.size):
        node, need = nodes[index], resources.full if index < resources.kinds[kind, CHUNKS] else resources.last
        for resource in range(3):
            resources.free[node, resource] -= need[kind, resource]
        if resources.kinds[kind, WHOLE] == 1:
            resources.free[node, 1] = 0
        if resources.island.size:  # the engine takes the tightest island that suffices; this is a lower bound
            resources.island[node] = min(resources.island[node], resources.free[node, 0])
        resources.busy[node] += 1
    renew(resources, nodes)


@compiled_apart
def renew(resources: FreeResourceArrays, nodes: Longs) -> None:
    """Check again which kinds fit on changed nodes; kinds that fit neither before nor after keep their summaries."""
    rests, resources.sorted_[0] = resources.rest_fits.shape[0] > 0, False
    for kind in range(resources.kinds.shape[0]):
        concerned = False
        for node in nodes:
            concerned |= resources.fits[kind, node]
            resources.fits[kind, node] = _holds(resources, resources.full, kind, node)
            concerned |= resources.fits[kind, node]
            if rests:
                concerned |= resources.rest_fits[kind, node]
                resources.rest_fits[kind, node] = _holds(resources, resources.last, kind, node)
                concerned |= resources.rest_fits[kind, node]
        if concerned:
            resources.stale[2 * kind] = resources.stale[2 * kind + 1] = True


@compiled
def _holds(resources: FreeResourceArrays, wanted: Longs, kind: int, node: int) -> bool:
    """Tell whether a node has room for a chunk, or a rest."""
    if not resources.allowed[kind, node]:
        return False
    for resource in range(3):
        if resources.free[node, resource] < wanted[kind, resource]:
            return False
    return bool(resources.kinds[kind, WHOLE] == 0 or (resources.free[node, 0] == resources.gpus[node]
                and resources.free[node, 1] == resources.cpus[node] and resources.busy[node] == 0))

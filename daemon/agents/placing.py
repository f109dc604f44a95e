"""Where a job would go and what is free after it, compiled: the closest place, and of equally close ones the fullest.

Best fit at every level, so that big holes survive: the node, else the leaf, else the spine, else the place above
spines, with the least room that suffices.
"""

from __future__ import annotations

from typing import NamedTuple

from ..replay.arrays import Longs, Masks
from ..replay.compiled import compiled, compiled_apart
from .asks import CHUNK, CHUNKS, RESTS, WHOLE

ISLAND, NODE, LEAF, SPINE, FURTHER = range(5)
"""Levels, columns of ``SpeedTable.spread``."""
THERE, HOW_FAR, LEFT_OVER, OPENS = range(4)
"""Columns of ``RoomArrays.told``."""


class RoomArrays(NamedTuple):
    """What is free, and for whom; a key is twice a kind of jobs, and one more for who keeps off what is reserved."""

    free: Longs
    """[node, GPUs, CPUs and bytes]."""
    busy: Longs
    gpus: Longs
    cpus: Longs
    island: Longs
    """Most free GPUs on one island of a node; empty where nodes are not divided."""
    switches: Longs
    """[level, node] leaf, spine and what is above them."""
    kinds: Longs
    """[kind, ...] as ``WaitingSeen.asks``."""
    full: Longs
    """[kind, GPUs, CPUs and bytes] of a chunk."""
    last: Longs
    """Of the rest."""
    may: Masks
    """[kind, node]."""
    fits: Masks
    """[kind, node] where there is room for a chunk now."""
    rest_fits: Masks
    """For the rest."""
    reserved: Masks
    near: Longs
    """Nodes on which somebody fits, in rising order: nobody fits on others."""
    order: Longs
    """The nodes near, the fullest first."""
    sorted_: Masks
    """[1] whether ``order`` is."""
    told: Longs
    """[key, ...] whether there is a place, how far apart, what stays free of its fullest node, whether it opens one."""
    stale: Masks
    """[key] what is told no longer."""
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
def look(room: RoomArrays, keys: Longs, left: Masks, found: Masks) -> None:
    """Fill in which of the jobs that are left could start now, by their keys."""
    for job in range(keys.size):
        found[job] = False
        if left[job]:
            key = keys[job]
            if room.stale[key]:
                find(room, key)
            found[job] = room.told[key, THERE] == 1


@compiled_apart
def find(room: RoomArrays, key: int) -> int:
    """Write the place of a key to ``place`` and what is to be told of it; return how many nodes, 0 for no place."""
    kind, beside = key // 2, key % 2 == 1
    line_up_all(room)
    room.stale[key] = False
    if room.kinds[kind, CHUNKS] + room.kinds[kind, RESTS] == 1:
        count, level = _one(room, kind, beside)
    else:
        count, level = _several(room, kind, beside)
    told = room.told[key]
    told[THERE], told[HOW_FAR], told[LEFT_OVER], told[OPENS] = count > 0, level, 0, 0
    least = 1 << 60
    for index in range(count):
        free = room.free[room.place[index], 0]
        least = min(least, free)
        told[LEFT_OVER] = least - room.kinds[kind, CHUNK]
        told[OPENS] |= free == room.gpus[room.place[index]]
    return count


@compiled_apart
def line_up_all(room: RoomArrays) -> None:
    """Fill ``order``, unless it is up to date."""
    if not room.sorted_[0]:
        _sort(room.near, room.order, room.near.size, room.free[:, 0], room.counts[2])
        room.sorted_[0] = True


@compiled
def _sort(line: Longs, into: Longs, count: int, keys: Longs, ends: Longs) -> None:
    """Sort nodes by their keys, none below 0, equals as they stand; ``ends`` is scratch."""
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
def _able(room: RoomArrays, fits: Masks, kind: int, node: int, beside: bool) -> bool:
    """Tell whether a node counts for a kind."""
    return bool(fits[kind, node] and not (beside and room.reserved[node]))


@compiled
def _one(room: RoomArrays, kind: int, beside: bool) -> tuple[int, int]:
    """Take the fullest node that holds a job, on one island where there is such a node; return (nodes, level)."""
    best = -1
    for node in room.order:
        if _able(room, room.fits, kind, node, beside):
            if room.island.size == 0 or room.island[node] >= room.kinds[kind, CHUNK]:
                room.place[0] = node
                return 1, ISLAND
            best = node if best < 0 else best
    if best < 0:
        return 0, 0
    room.place[0] = best
    return 1, NODE


@compiled
def _several(room: RoomArrays, kind: int, beside: bool) -> tuple[int, int]:
    """Take the nodes that are closest together; return (nodes, level)."""
    levels, rests = room.sizes.size, room.kinds[kind, RESTS]
    others = room.rest_fits if rests > 0 else room.fits
    if not (_enough(room, room.fits, kind, beside, room.kinds[kind, CHUNKS])
            and _enough(room, others, kind, beside, room.kinds[kind, CHUNKS] + rests)):
        return 0, 0
    for level in range(levels):
        inside = _tightest(room, others, kind, beside, level)
        if inside >= 0:
            return _fill(room, others, kind, beside, level, inside), min(LEAF + level, FURTHER)
    return _fill(room, others, kind, beside, levels, 0), FURTHER


@compiled
def _enough(room: RoomArrays, fits: Masks, kind: int, beside: bool, wanted: int) -> bool:
    """Tell whether so many nodes count for a kind."""
    count = 0
    for node in room.order:
        if count == wanted:
            return True
        count += _able(room, fits, kind, node, beside)
    return count == wanted


@compiled_apart
def _tightest(room: RoomArrays, others: Masks, kind: int, beside: bool, level: int) -> int:
    """Return the switch of a level with the least room that suffices, -1 for none; the first of equals."""
    chunks, needed = room.kinds[kind, CHUNKS], room.kinds[kind, CHUNKS] + room.kinds[kind, RESTS]
    if room.sizes[level] == 1:
        return 0  # there is enough, and all of it is here
    able, full, best = room.counts[0], room.counts[1], -1
    _count(room, others, kind, beside, level, able)
    _count(room, room.fits, kind, beside, level, full)
    for switch in range(room.sizes[level]):
        enough = able[switch] >= needed and full[switch] >= chunks
        if enough and (best < 0 or able[switch] < able[best]):
            best = switch
    return best


@compiled
def _count(room: RoomArrays, fits: Masks, kind: int, beside: bool, level: int, counts: Longs) -> None:
    """Count by switch of a level the nodes that count for a kind."""
    for switch in range(room.sizes[level]):
        counts[switch] = 0
    for node in room.near:
        counts[room.switches[level, node]] += _able(room, fits, kind, node, beside)


@compiled_apart
def _fill(room: RoomArrays, others: Masks, kind: int, beside: bool, level: int, inside: int) -> int:
    """Take the nodes of a job inside a switch (of no level: anywhere), the roomiest leaves first; return how many."""
    chunks, rests = room.kinds[kind, CHUNKS], room.kinds[kind, RESTS]
    _count(room, others, kind, beside, 0, room.counts[0])
    _line_up(room, room.fits, kind, beside, level, inside)
    for index in range(chunks):
        room.place[index] = room.line[0, index]
        room.chosen[room.place[index]] = True
    taken: int = chunks
    number = _line_up(room, others, kind, beside, level, inside) if rests > 0 else 0
    for index in range(number):
        if taken < chunks + rests and not room.chosen[room.line[0, index]]:
            room.place[taken] = room.line[0, index]
            taken += 1
    for index in range(chunks):
        room.chosen[room.place[index]] = False
    return taken


@compiled_apart
def _line_up(room: RoomArrays, fits: Masks, kind: int, beside: bool, level: int, inside: int) -> int:
    """Fill ``line`` with the nodes inside that count, the roomiest leaves first, within them the fullest nodes."""
    count = 0
    for node in room.order:
        here = level == room.sizes.size or room.switches[level, node] == inside
        if here and _able(room, fits, kind, node, beside):
            room.line[0, count] = node
            count += 1
    if level > 0:
        for index in range(count):
            node = room.line[1, index] = room.line[0, index]
            room.counts[1, node] = room.near.size - room.counts[0, room.switches[0, node]]
        _sort(room.line[1], room.line[0], count, room.counts[1], room.counts[2])
    return count


@compiled_apart
def take(room: RoomArrays, kind: int, nodes: Longs) -> None:
    """Take from nodes what a job of a kind holds there."""
    for index in range(nodes.size):
        node, need = nodes[index], room.full if index < room.kinds[kind, CHUNKS] else room.last
        for what in range(3):
            room.free[node, what] -= need[kind, what]
        if room.kinds[kind, WHOLE] == 1:
            room.free[node, 1] = 0
        if room.island.size:  # of the tightest that suffices, as the engine does; at worst too careful
            room.island[node] = min(room.island[node], room.free[node, 0])
        room.busy[node] += 1
    renew(room, nodes)


@compiled_apart
def renew(room: RoomArrays, nodes: Longs) -> None:
    """Look again who fits on nodes on which something has changed; who neither did nor does stays as it was told."""
    rests, room.sorted_[0] = room.rest_fits.shape[0] > 0, False
    for kind in range(room.kinds.shape[0]):
        concerned = False
        for node in nodes:
            concerned |= room.fits[kind, node]
            room.fits[kind, node] = _holds(room, room.full, kind, node)
            concerned |= room.fits[kind, node]
            if rests:
                concerned |= room.rest_fits[kind, node]
                room.rest_fits[kind, node] = _holds(room, room.last, kind, node)
                concerned |= room.rest_fits[kind, node]
        if concerned:
            room.stale[2 * kind] = room.stale[2 * kind + 1] = True


@compiled
def _holds(room: RoomArrays, wanted: Longs, kind: int, node: int) -> bool:
    """Tell whether a node has room for a chunk, or a rest."""
    if not room.may[kind, node]:
        return False
    for what in range(3):
        if room.free[node, what] < wanted[kind, what]:
            return False
    return bool(room.kinds[kind, WHOLE] == 0 or (room.free[node, 0] == room.gpus[node]
                and room.free[node, 1] == room.cpus[node] and room.busy[node] == 0))

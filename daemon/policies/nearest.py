"""Nearest: GPUs as close together as they can be: one node, else one leaf switch, else one spine, else few leaves.

Best fit at every level, so that big holes survive: the node, leaf or spine with the least room that still suffices; of
spines first the one on which the fewest leaves do.
"""

from __future__ import annotations

from ..replay.arrays import Ask, Longs, Records, Site
from ..replay.compiled import compiled, compiled_apart
from ..replay.moves import fits
from ..replay.pick import least, pick
from .registry import placement

FAR = 1 << 60
ANY = 1 << 32
"""Room of a switch in one number: nodes that fit any part of the job in the upper half, a full chunk in the lower."""


@placement("nearest")
def nearest(site: Site, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes that are closest together; O(nodes) beside the choice among them."""
    if ask.chunks + ask.rests == 1:
        prefer_fullest(site.nodes)
    else:
        prefer_close(site, ask, chosen)
    return pick(site, ask, chosen)


@compiled
def prefer_fullest(nodes: Records) -> None:
    """Score nodes by free GPUs."""
    for node in range(nodes.size):
        nodes[node].score = nodes[node].free_gpus


@compiled_apart
def prefer_close(site: Site, ask: Ask, room: Longs) -> None:
    """Score nodes by switch, those of the same one by free GPUs; ``room`` is scratch."""
    count_room(site, ask, room)
    leaf = tightest_leaf(site.nodes, ask, room)
    spine = -1 if leaf >= 0 else tightest_spine(site.nodes, ask, room)
    for node in range(site.nodes.size):
        row = site.nodes[node]
        row.score = row.free_gpus
        if leaf >= 0:
            row.score += 0 if row.leaf == leaf else FAR
        else:  # leaf after leaf, those with most room first, so that few of them are needed
            row.score -= 1024 * ((room[row.leaf] // ANY + 1) * site.nodes.size - row.leaf)
            row.score += 0 if spine < 0 or row.spine == spine else FAR


@compiled
def count_room(site: Site, ask: Ask, room: Longs) -> None:
    """Count the nodes that fit: by leaf in ``room``, by spine in the scores."""
    for switch in range(site.nodes.size):
        room[switch] = 0
        site.nodes[switch].score = 0
    for node in range(site.nodes.size):
        row = site.nodes[node]
        if fits(site, node, ask, least(ask)):
            more = ANY + (1 if ask.rests == 0 or fits(site, node, ask, ask.gpus) else 0)
            room[row.leaf] += more
            site.nodes[row.spine].score += more


@compiled
def suffices(room: int, ask: Ask) -> bool:
    """Tell whether a switch has room for all parts of the job."""
    return room // ANY >= ask.chunks + ask.rests and room % ANY >= ask.chunks


@compiled
def tightest_leaf(nodes: Records, ask: Ask, room: Longs) -> int:
    """Return the leaf with the least room that suffices, -1 if none."""
    best = -1
    for leaf in range(nodes.size):
        if suffices(room[leaf], ask) and (best < 0 or room[leaf] < room[best]):
            best = leaf
    return best


@compiled
def tightest_spine(nodes: Records, ask: Ask, room: Longs) -> int:
    """Return the spine that needs fewest leaves, of those the one with the least room; -1 if none suffices."""
    best, fewest = -1, nodes.size
    for spine in range(nodes.size):
        if suffices(nodes[spine].score, ask):
            count = leaves_needed(nodes, spine, ask.chunks + ask.rests, room, fewest)
            if count < fewest or (count == fewest and (best < 0 or nodes[spine].score < nodes[best].score)):
                best, fewest = spine, count
    return best


@compiled
def leaves_needed(nodes: Records, spine: int, parts: int, room: Longs, most: int) -> int:
    """Return how many leaves of a spine have room for so many parts; ``most`` + 1 where more would be needed."""
    count, found, last = 0, 0, -1
    while found < parts and count <= most:
        leaf = -1
        for node in range(nodes.size):
            other = nodes[node].leaf
            if nodes[node].spine == spine and (last < 0 or roomier(room, last, other)) and (
                    leaf < 0 or roomier(room, other, leaf)):
                leaf = other
        found += room[leaf] // ANY
        last = leaf
        count += 1
    return count


@compiled
def roomier(room: Longs, leaf: int, other: int) -> bool:
    """Tell whether a leaf comes before another, the one with more room first."""
    return room[leaf] // ANY > room[other] // ANY or (room[leaf] // ANY == room[other] // ANY and leaf < other)

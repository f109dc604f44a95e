"""Nearest: GPUs as close together as they can be: one node, else one leaf switch, else one spine, else few leaves.

Best fit at every level, so that big holes survive: the node, leaf or spine with the least room that still suffices.
"""

from ..replay.arrays import Ask, Longs, Records, Site
from ..replay.compiled import compiled
from ..replay.moves import fits
from ..replay.pick import pick
from .registry import placement

FAR = 1 << 40


@placement("nearest")
def nearest(site: Site, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes that are closest together; O(nodes) beside the choice among them."""
    parts = ask.chunks + ask.rests
    if parts == 1:
        prefer_fullest(site.nodes)
        return pick(site, ask, chosen)
    spine = tightest(site, ask, parts, chosen, False)
    leaf = tightest(site, ask, parts, chosen, True)  # last, so that ``chosen`` still holds the room of each leaf
    for node in range(site.nodes.size):
        row = site.nodes[node]
        row.score = row.free_gpus
        if leaf >= 0:
            row.score += 0 if row.leaf == leaf else FAR
        else:  # leaves with most room first, so that few of them are needed
            row.score -= 1024 * chosen[row.leaf]
            row.score += 0 if spine < 0 or row.spine == spine else FAR
    return pick(site, ask, chosen)


@compiled
def prefer_fullest(nodes: Records) -> None:
    """Score nodes by free GPUs."""
    for node in range(nodes.size):
        nodes[node].score = nodes[node].free_gpus


@compiled
def tightest(site: Site, ask: Ask, parts: int, room: Longs, by_leaf: bool) -> int:
    """Return the switch with the fewest fitting nodes that suffice, -1 if none; ``room`` counts them by switch."""
    for switch in range(site.nodes.size):
        room[switch] = 0
    for node in range(site.nodes.size):
        if fits(site, node, ask, ask.gpus):
            room[site.nodes[node].leaf if by_leaf else site.nodes[node].spine] += 1
    best = -1
    for switch in range(site.nodes.size):
        if room[switch] >= parts and (best < 0 or room[switch] < room[best]):
            best = switch
    return best

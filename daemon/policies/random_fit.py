"""The GIST AI-X paper's naive placement, in both ways it can be read (section 3.2 and 6.1)."""

from ..replay.arrays import Ask, Longs, PlacementView
from ..replay.compiled import compiled
from ..replay.moves import draw, fits
from ..replay.node_selection import contains, enough, least, pick
from .registry import placement


@placement("random-fit")
def random_fit(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose at random among the nodes that fit; nothing is drawn for others, nor for a job that does not fit."""
    if not enough(site, ask):
        return 0
    for node in range(site.nodes.size):
        if fits(site, node, ask, least(ask)):
            site.nodes[node].score = draw(site.words, 1 << 40)
    return pick(site, ask, chosen)


@placement("naive-random", repeatable=False)
def naive_random(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose a node at random, and wait if just that one has no room."""
    parts = ask.chunks + ask.rests
    candidates = 0
    for node in range(site.nodes.size):
        candidates += usable(site, node, ask)
    for count in range(parts):
        if candidates - count <= 0:
            return 0
        chosen[count] = numbered(site, ask, chosen, count, draw(site.words, candidates - count))
        if not fits(site, chosen[count], ask, ask.gpus if count < ask.chunks else ask.rest):
            return 0
    return parts


@compiled
def usable(site: PlacementView, node: int, ask: Ask) -> int:
    """Return 1 for a node that is open to the job, full or not."""
    return 1 if site.nodes[node].open == 1 and site.eligible[ask.pool, node] == 1 else 0


@compiled
def numbered(site: PlacementView, ask: Ask, chosen: Longs, count: int, number: int) -> int:
    """Return the usable node of this number among those not yet chosen."""
    for node in range(site.nodes.size):
        if usable(site, node, ask) and not contains(chosen, count, node):
            if number == 0:
                return node
            number -= 1
    return -1

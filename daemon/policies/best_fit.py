"""Best fit: the fullest nodes that still hold the job, so that big holes survive."""

from ..replay.arrays import Ask, Longs, PlacementView
from ..replay.compiled import compiled
from ..replay.moves import fits
from ..replay.node_selection import pick
from .registry import placement


@compiled
def fullest(site: PlacementView, ask: Ask) -> int:
    """Return the node with the fewest free GPUs that holds one chunk, -1 if none: the case worth its own fast lane."""
    best, least = -1, 1 << 62
    for node in range(site.nodes.size):
        free = site.nodes[node].free_gpus
        if ask.gpus <= free < least and fits(site, node, ask, ask.gpus):
            best, least = node, free
    return best


@placement("best-fit")
def best_fit(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes with the fewest free GPUs that fit; ties go to the lowest index."""
    if ask.chunks == 1 and ask.rests == 0:
        chosen[0] = fullest(site, ask)
        return 1 if chosen[0] >= 0 else 0
    for node in range(site.nodes.size):
        site.nodes[node].score = site.nodes[node].free_gpus
    return pick(site, ask, chosen)

"""Worst fit: the emptiest nodes first. It scatters, and stands for every policy that does."""

from ..replay.arrays import Ask, Longs, PlacementView
from ..replay.moves import fits
from ..replay.node_selection import enough, least, pick
from .registry import placement


@placement("worst-fit")
def worst_fit(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes with the most free GPUs."""
    if not enough(site, ask):
        return 0
    for node in range(site.nodes.size):
        if fits(site, node, ask, least(ask)):
            site.nodes[node].score = -site.nodes[node].free_gpus
    return pick(site, ask, chosen)

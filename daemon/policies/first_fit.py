"""First fit: the first nodes that hold the job."""

from ..replay.arrays import Ask, Longs, PlacementView
from ..replay.node_selection import pick
from .registry import placement


@placement("first-fit")
def first_fit(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose the fitting nodes of lowest index."""
    for node in range(site.nodes.size):
        site.nodes[node].score = 0
    return pick(site, ask, chosen)

"""Fragmentation gradient descent (FGD, Weng et al., ATC'23): place where the least room becomes useless."""

from ..replay.arrays import Ask, Floats, Longs, PlacementView
from ..replay.compiled import compiled
from ..replay.node_selection import pick
from .registry import placement


@compiled
def fragments(free: int, demand: Floats) -> float:
    """Return the GPUs of a node that the typical job cannot use: free ones times the share of jobs that do not fit."""
    missing = 0.0
    for gpus in range(free + 1, demand.size):
        missing += demand[gpus]
    return free * missing


@placement("fragmentation")
def fragmentation(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes whose fragmentation grows least; ties go to the fullest node."""
    for node in range(site.nodes.size):
        row = site.nodes[node]
        row.score = row.free_gpus
        if row.free_gpus >= ask.gpus:
            growth = fragments(row.free_gpus - ask.gpus, site.demand) - fragments(row.free_gpus, site.demand)
            row.score += 1024 * round(1e6 * growth)
    return pick(site, ask, chosen)

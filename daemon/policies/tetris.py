"""Tetris (Grandl et al., SIGCOMM'14): a job goes where its demand points the way of what is free."""

from ..replay.arrays import Ask, Longs, PlacementView
from ..replay.compiled import compiled
from ..replay.node_selection import pick
from .registry import alias, placement

alias("tetris", "qssf+alignment+greedy")
"""Least work left first (there: resources times duration), packed by alignment, and nobody holds a place for others."""


@compiled
def part(wanted: int, free: int, total: int) -> float:
    """Return the product of what is wanted and what is free of a resource, both as parts of the node's."""
    return (wanted / total) * (free / total) if total > 0 else 0.0  # bytes times bytes would not fit in 64 bits


@placement("alignment")
def alignment(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes of largest dot product of demand and free resources, each as a part of the node's (§3.2).

    It leaves nodes evenly used in all resources, which keeps none from being the one that runs out.
    """
    for node in range(site.nodes.size):
        row = site.nodes[node]
        row.score = -round(1e9 * (part(ask.gpus, row.free_gpus, row.gpus) + part(ask.cpus, row.free_cpus, row.cpus)
                                  + part(ask.memory, row.free_memory, row.memory)))
    return pick(site, ask, chosen)

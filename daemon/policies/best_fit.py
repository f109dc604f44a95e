"""Best fit: the fullest nodes that still hold the job, so that big holes survive."""

from ..replay.pick import pick
from ..replay.arrays import Ask, Longs, Nodes
from .registry import placement


@placement("best-fit")
def best_fit(nodes: Nodes, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes with the fewest free GPUs that fit; ties go to the lowest index."""
    return pick(nodes, ask, chosen, nodes.free_gpus)

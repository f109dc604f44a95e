"""Best fit: the fullest nodes that still hold the job, so that big holes survive."""

from ..replay.arrays import Ask, Longs, Site
from ..replay.pick import pick
from .registry import placement


@placement("best-fit")
def best_fit(site: Site, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes with the fewest free GPUs that fit; ties go to the lowest index."""
    for node in range(site.nodes.size):
        site.nodes[node].score = site.nodes[node].free_gpus
    return pick(site, ask, chosen)

"""First fit: the first nodes that hold the job."""

import numpy as np

from ..replay.pick import pick
from ..replay.arrays import Ask, Longs, Nodes
from .registry import placement


@placement("first-fit")
def first_fit(nodes: Nodes, ask: Ask, chosen: Longs) -> int:
    """Choose the fitting nodes of lowest index."""
    return pick(nodes, ask, chosen, np.zeros_like(nodes.gpus))

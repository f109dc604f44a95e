"""What a placement costs in communication: the weights of all edges that lie on shortest paths between its GPUs.

The paths include those to the centre of the cluster, so that a spread job pays for every switch it touches. GPUs of one
node are joined pair by pair. As in TopDRL's predecessor (Proximity-DRL, CANAI 2024), where an edge weighs the inverse
of its bandwidth; the level above the racks, which it does not have, is ours.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
Leaf = TypeVar("Leaf", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Weights:
    """What an edge of each level costs."""

    gpu: float = 1 / 40
    """From a GPU to its node, and to each other GPU of the node: NVLink."""
    node: float = 1 / 4
    """From a node to its leaf switch: InfiniBand."""
    leaf: float = 1 / 2
    """From a leaf switch to the spine, or to the centre of a cluster without spines."""
    spine: float = 1.0
    """From a spine switch to the centre."""


PREDECESSOR = Weights()


def cost(gpus: Mapping[Node, int], leaf: Mapping[Node, Leaf], spine: Mapping[Leaf, Hashable] | None = None,
         weights: Weights = PREDECESSOR) -> float:
    """Return the cost of a placement: ``gpus`` held by node, the leaf switch of each node, the spine of each leaf.

    Without ``spine`` the leaves hang on the centre itself.
    """
    leaves = {leaf[node] for node in gpus}
    inside = weights.gpu * sum(held + held * (held - 1) / 2 for held in gpus.values())
    above = weights.spine * len({spine[switch] for switch in leaves}) if spine else 0.0
    return inside + weights.node * len(gpus) + weights.leaf * len(leaves) + above

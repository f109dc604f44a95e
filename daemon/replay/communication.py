"""What a placement costs in communication: the weights of all edges that lie on shortest paths between its GPUs.

The paths include those to the centre of the cluster, so that a spread job pays for every switch it touches. GPUs of one
node are joined pair by pair. As in TopDRL's predecessor (Proximity-DRL, CANAI 2024), where an edge weighs the inverse
of its bandwidth; the level above the racks, which it does not have, is ours.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...storage.records import Islands

Node = TypeVar("Node", bound=Hashable)
Leaf = TypeVar("Leaf", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Weights:
    """What an edge of each level costs."""

    gpu: float = 1 / 40
    """From a GPU to its node, and to each other GPU of the node: NVLink."""
    apart: float = 1 / 16
    """To a GPU of the node that NVLink does not reach: PCIe 3.0; the predecessor's nodes have none such."""
    node: float = 1 / 4
    """From a node to its leaf switch: InfiniBand."""
    leaf: float = 1 / 2
    """From a leaf switch to the spine, or to the centre of a cluster without spines."""
    spine: float = 1.0
    """From a spine switch to the centre, or to the level above it; each further level weighs twice the one below."""
    domain: float = 9.0
    """For each NVLink domain beyond the first: a GPU of an NVL72 reaches the others of its domain with 1.8 TB/s, and
    all others with the 0.1 TB/s of its network card (both ways), so that leaving it weighs 18 times leaving a leaf."""


PREDECESSOR = Weights()


def cost(gpus: Mapping[Node, int], leaf: Mapping[Node, Leaf], spine: Mapping[Leaf, Hashable] | None = None,
         weights: Weights = PREDECESSOR, *, apart: int = 0) -> float:
    """Return the cost of a placement: ``gpus`` held by node, the leaf switch of each node, the spine of each leaf.

    Without ``spine`` the leaves hang on the centre itself. ``apart`` counts pairs of GPUs on different islands of a
    node.
    """
    leaves = {leaf[node] for node in gpus}
    inside = weights.gpu * sum(held + held * (held - 1) / 2 for held in gpus.values())
    inside += (weights.apart - weights.gpu) * apart
    above = weights.spine * len({spine[switch] for switch in leaves}) if spine else 0.0
    return inside + weights.node * len(gpus) + weights.leaf * len(leaves) + above


def cost_in_tree(gpus: Mapping[Node, int], above: Mapping[Node, Sequence[Hashable]], domain: Mapping[Node, Hashable],
                 weights: Weights = PREDECESSOR, *, apart: int = 0) -> float:
    """Return the cost of a placement in a tree of any depth: as `cost`, each level above the spine twice the one below.

    Args:
        gpus: held by node.
        above: the switches above each node, the closest first, of all nodes equally many; the switches
            above a switch distinguish it from its namesakes.
        domain: the NVLink domain of each node that is in one.
        weights: what edges cost.
        apart: pairs of GPUs on different islands of a node.
    """
    depth = len(next(iter(above.values()), ()))
    paths = {tuple(above[node]) for node in gpus}
    levels = [len({path[level:] for path in paths}) for level in range(depth)]
    edges = (weights.leaf, *(weights.spine * 2**level for level in range(depth)))
    inside = weights.gpu * sum(held + held * (held - 1) / 2 for held in gpus.values())
    inside += (weights.apart - weights.gpu) * apart
    outside = sum(count * edge for count, edge in zip(levels, edges, strict=False))
    # Of nodes in no domain NVLink reaches none: beyond one there is nothing to leave.
    left = max(0, len({domain[node] for node in gpus if node in domain}) - 1)
    return inside + weights.node * len(gpus) + outside + weights.domain * left


def pairs_apart(indexes: Collection[int], islands: Islands) -> int:
    """Return how many pairs of these GPUs of a node are on different islands; none where the islands are not known."""
    together = [sum(index in island for index in indexes) for island in islands] or [len(indexes)]
    return (len(indexes) ** 2 - sum(count**2 for count in together)) // 2

"""How close together placements are: what they cost in communication, and which nodes would be closest."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from ...storage.recommendations import Placed, Placement
from ...storage.records import Node
from ..replay.communication import PREDECESSOR, Weights, cost, pairs_apart
from .gpu_assignment import Indexes


class TopologyCost:
    """The switches above the nodes of a snapshot, and the islands inside them."""

    def __init__(self, nodes: Sequence[Node], weights: Weights = PREDECESSOR) -> None:
        self._leaf = {node.name: (node.spine, node.leaf) for node in nodes}
        spines = {leaf: leaf[0] for leaf in self._leaf.values()}
        self._spine = spines if any(spines.values()) else None
        self._islands = {node.name: node.islands for node in nodes}
        self._weights = weights

    def cost(self, placement: Placement | None, indexes: Indexes = ()) -> float | None:
        """Return what a placement costs; None without one, or where a node of it is not known any more.

        ``indexes`` are its GPUs; where they are not known they count as on one island.
        """
        if placement is None or not all(node in self._leaf for node in placement.nodes):
            return None
        held = dict(zip(placement.nodes, placement.gpus, strict=True))
        named = zip(placement.nodes, indexes, strict=False)
        apart = sum(pairs_apart(some, self._islands[node]) for node, some in named)
        return cost(held, self._leaf, self._spine, self._weights, apart=apart)

    def closest(self, names: Sequence[str], count: int) -> tuple[str, ...]:
        """Return ``count`` of these nodes that are close together: on one leaf switch, else one spine, else few leaves.

        Much as the placement ``nearest`` does it: of the switches that have enough the one with least, of spines first
        the one that needs fewest leaves; of nodes that are equally close the first.
        """
        for leaf in sorted(_grouped(names, self._leaf), key=len):
            if len(leaf) >= count:
                return tuple(leaf[:count])
        above = {name: leaf[0] for name, leaf in self._leaf.items()}
        spines = [spine for spine in sorted(_grouped(names, above), key=len) if len(spine) >= count]
        return min((self._leaf_after_leaf(among, count) for among in spines or [list(names)]),
                   key=lambda nodes: len({self._leaf[node] for node in nodes}))

    def _leaf_after_leaf(self, names: Sequence[str], count: int) -> tuple[str, ...]:
        """Return the first nodes, those of the leaf with most of them first."""
        roomiest_first = sorted(_grouped(names, self._leaf), key=len, reverse=True)
        return tuple([name for leaf in roomiest_first for name in leaf][:count])


def compared(runs: Iterable[Placed], topology_cost: TopologyCost) -> dict[tuple[str, str], float]:
    """Return what runs cost together by partition, as they are placed (``actual``) and as was ``advised``."""
    total: dict[tuple[str, str], float] = {}
    for run in runs:
        actual, advised = topology_cost.cost(run.actual), topology_cost.cost(run.advised)
        if actual is not None and advised is not None:
            for placement, weight in (("actual", actual), ("advised", advised)):
                total[run.partition, placement] = total.get((run.partition, placement), 0.0) + weight
    return total


def _grouped(names: Sequence[str], switch: Mapping[str, Hashable]) -> list[list[str]]:
    groups: dict[Hashable, list[str]] = {}
    for name in names:
        groups.setdefault(switch[name], []).append(name)
    return list(groups.values())

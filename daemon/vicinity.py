"""How close together placements are: what they cost in communication, and which nodes would be closest."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from ..storage.records import Node, Placed, Placement
from .replay.communication import PREDECESSOR, Weights, cost

Switches = Mapping[str, Hashable]


class Vicinity:
    """The switches above the nodes of a snapshot."""

    def __init__(self, nodes: Sequence[Node], weights: Weights = PREDECESSOR) -> None:
        self._leaf: dict[Hashable, Hashable] = {node.name: (node.spine, node.leaf) for node in nodes}
        spines = {leaf: leaf[0] for leaf in self._leaf.values() if isinstance(leaf, tuple)}
        self._spine: dict[Hashable, Hashable] | None = spines if any(spines.values()) else None
        self._weights = weights

    def cost(self, placement: Placement | None) -> float | None:
        """Return what a placement costs; None without one, or where a node of it is not known any more."""
        if placement is None or not all(node in self._leaf for node in placement.nodes):
            return None
        held: dict[Hashable, int] = dict(zip(placement.nodes, placement.gpus, strict=True))
        return cost(held, self._leaf, self._spine, self._weights)

    def closest(self, names: Sequence[str], count: int) -> tuple[str, ...]:
        """Return ``count`` of these nodes that are close together: on one leaf switch, else one spine, else few leaves.

        As the placement ``nearest`` does it: of the switches that have enough the one with least, of nodes that are
        equally close the first.
        """
        by_leaf = _grouped(names, self._leaf)
        spines = self._spine or {}
        by_spine = _grouped(names, {name: spines.get(self._leaf[name]) for name in names})
        enough = [group for level in (by_leaf, by_spine) for group in sorted(level, key=len) if len(group) >= count]
        among = set(enough[0] if enough else names)
        roomiest_first = sorted(by_leaf, key=len, reverse=True)
        return tuple([name for group in roomiest_first for name in group if name in among][:count])


def compared(runs: Iterable[Placed], vicinity: Vicinity) -> dict[tuple[str, str], float]:
    """Return what runs cost together by partition, as they are placed (``actual``) and as was ``advised``."""
    total: dict[tuple[str, str], float] = {}
    for run in runs:
        costs = {"actual": vicinity.cost(run.actual), "advised": vicinity.cost(run.advised)}
        for placement, cost_now in costs.items():
            if cost_now is not None and None not in costs.values():
                total[run.partition, placement] = total.get((run.partition, placement), 0.0) + cost_now
    return total


def _grouped(names: Sequence[str], switch: Mapping[Hashable, Hashable]) -> list[list[str]]:
    groups: dict[Hashable, list[str]] = {}
    for name in names:
        groups.setdefault(switch[name], []).append(name)
    return list(groups.values())

"""Where each node hangs: what the scheduler says of its nodes, completed by what is known of switches and links."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..storage.records import Node, SchedulerSnapshot
from ..storage.topology import Fabric, NodeLinks, Topology

log = logging.getLogger(__name__)

SHOWN = 5


class AttachTopology:
    """Hangs the nodes of snapshots on switches, and says once what does not fit together."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, ...]] = {}

    def hang(self, snapshot: SchedulerSnapshot, known: Sequence[Topology]) -> SchedulerSnapshot:
        """Return the snapshot with the switches and islands of its nodes; where two know a node the last is taken."""
        nodes = snapshot.nodes
        for topology in known:
            nodes = tuple(topology.placed(nodes))
        links = [topology for topology in known if isinstance(topology, NodeLinks)]
        self._tell("%d nodes have another number of GPUs than their kind, so that how these are linked is not known "
                   "(MIG slices have no links): %s", (name for one in links for name in one.misfits(nodes)))
        fabrics = [topology for topology in known if isinstance(topology, Fabric)]
        self._tell("the topology names %d nodes that the scheduler does not know: %s",
                   (name for fabric in fabrics for name in fabric.strangers(nodes)))
        if fabrics:
            self._tell("%d nodes hang on no switch that the topology knows, and are taken to be far from all others: "
                       "%s", (node.name for node in nodes if not node.leaf))
            nodes = _each_on_its_own(nodes)
        return replace(snapshot, nodes=nodes)

    def _tell(self, words: str, found: Iterable[str]) -> None:
        """Log the names that are found, unless they are those found last time."""
        names = tuple(sorted(set(found)))
        if names and names != self._told.get(words):
            log.warning(words, len(names), ", ".join(names[:SHOWN]))
        self._told[words] = names


def _each_on_its_own(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes with a switch of its own for each that hangs on none: who shares '' would be close together."""
    has_spines = any(node.spine for node in nodes)
    return tuple(node if node.leaf else replace(node, leaf=node.name, spine=node.name if has_spines else "")
                 for node in nodes)

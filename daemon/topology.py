"""Where each node hangs: what the scheduler says of its nodes, completed by what is known of the switches."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from ..storage.records import Node, SchedulerSnapshot
from ..storage.topology import Fabric

log = logging.getLogger(__name__)

SHOWN = 5


class Hanging:
    """Hangs the nodes of snapshots on switches, and says once what does not fit together."""

    def __init__(self) -> None:
        self._told: tuple[tuple[str, ...], ...] = ()

    def hang(self, snapshot: SchedulerSnapshot, fabrics: Sequence[Fabric]) -> SchedulerSnapshot:
        """Return the snapshot with the switches of its nodes; where two fabrics know a node the last one is taken."""
        nodes = snapshot.nodes
        for fabric in fabrics:
            nodes = tuple(fabric.placed(nodes))
        if fabrics:
            self._tell(tuple(sorted({name for fabric in fabrics for name in fabric.strangers(nodes)})),
                       tuple(node.name for node in nodes if not node.leaf))
            nodes = _each_on_its_own(nodes)
        return replace(snapshot, nodes=nodes)

    def _tell(self, strangers: tuple[str, ...], loose: tuple[str, ...]) -> None:
        if (strangers, loose) == self._told:
            return
        self._told = strangers, loose
        if strangers:
            log.warning("the topology names %d nodes that the scheduler does not know: %s", len(strangers),
                        ", ".join(strangers[:SHOWN]))
        if loose:
            log.warning("%d nodes hang on no switch that the topology knows, and are taken to be far from all others: "
                        "%s", len(loose), ", ".join(loose[:SHOWN]))


def _each_on_its_own(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes with a switch of its own for each that hangs on none: who shares '' would be close together."""
    has_spines = any(node.spine for node in nodes)
    return tuple(node if node.leaf else replace(node, leaf=node.name, spine=node.name if has_spines else "")
                 for node in nodes)

"""Where each node hangs: what the scheduler says of its nodes, completed by what is known of switches and links."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..exporters.domains import of_gpus, within_one_tree
from ..storage.records import Node, SchedulerSnapshot
from ..storage.telemetry import GpuReading
from ..storage.topology import Fabric, NodeLinks, Topology, TopologyError

log = logging.getLogger(__name__)

SHOWN = 5


class AttachTopology:
    """Hangs the nodes of snapshots on switches, and says once what does not fit together."""

    def __init__(self) -> None:
        self._logged: dict[str, tuple[str, ...]] = {}
        self._domains: dict[str, str] = {}
        """By node, as GPUs reported them last: an exporter that is silent for a while moves no node."""

    def hang(self, snapshot: SchedulerSnapshot, known: Sequence[Topology],
             gpus: Iterable[GpuReading] = ()) -> SchedulerSnapshot:
        """Return the snapshot with the switches and islands of its nodes; where two know a node the last is taken.

        NVLink domains from drivers (``gpus``) count for nodes without a domain in any topology.
        """
        nodes = snapshot.nodes
        links = [topology for topology in known if isinstance(topology, NodeLinks)]
        fabrics = [topology for topology in known if isinstance(topology, Fabric)]
        self._domains.update(of_gpus(gpus))
        here = {node.name for node in nodes}
        self._domains = {name: domain for name, domain in self._domains.items() if name in here}
        by_gpus = Fabric(domain={name: domain for name, domain in self._domains.items() if domain})
        fabric = self._laid_over([by_gpus, *fabrics])
        nodes = tuple(fabric.placed(nodes))
        for link in links:
            nodes = tuple(link.placed(nodes))
        self._log_once("%d nodes have another number of GPUs than their kind, so that how these are linked is not "
                       "known (MIG slices have no links): %s", (name for link in links for name in link.misfits(nodes)))
        self._log_once("the topology names %d nodes that the scheduler does not know: %s",
                       (name for fabric in fabrics for name in fabric.strangers(nodes)))
        if fabrics:
            self._log_once("%d nodes hang on no switch that the topology knows, and are taken to be far from all "
                           "others: %s", (node.name for node in nodes if not node.leaf))
        if fabrics or fabric.domain:
            nodes = _each_on_its_own(nodes)
        return replace(snapshot, nodes=nodes)

    def _laid_over(self, fabrics: Sequence[Fabric]) -> Fabric:
        """Return the fabrics as one, the last uppermost; one that makes no tree with those before it stands alone."""
        merged = Fabric()
        for fabric in fabrics:
            try:
                merged = fabric.over(merged)
            except TopologyError as error:
                self._log_once("%d topologies contradict each other, and the last is taken: %s", (str(error),))
                merged = fabric
        return within_one_tree(merged)

    def _log_once(self, message: str, subjects: Iterable[str]) -> None:
        """Log the names that are found, unless they are those found last time."""
        names = tuple(sorted(set(subjects)))
        if names and names != self._logged.get(message):
            log.warning(message, len(names), ", ".join(names[:SHOWN]))
        self._logged[message] = names


def _each_on_its_own(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes with a switch of its own for each that hangs on none: sharing '' would make them close."""
    has_spines = any(node.spine for node in nodes)
    return tuple(_alone(node, has_spines) for node in nodes)


def _alone(node: Node, has_spines: bool) -> Node:
    if node.leaf and (node.spine or not has_spines or not node.domain):
        return node
    return replace(node, leaf=node.leaf or node.name, spine=(node.domain or node.name) if has_spines else "")

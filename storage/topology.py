"""How nodes hang together: switches above nodes, links between the GPUs of a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import product

from .records import Islands, Node


class TopologyError(ValueError):
    """A topology that cannot be; the message names the switch, node or GPU."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch with the nodes that hang on it, or the switches below it."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fabric:
    """A tree, or several, of switches with nodes as leaves."""

    leaf: Mapping[str, str] = field(default_factory=dict)
    """Switch by node."""
    parent: Mapping[str, str] = field(default_factory=dict)
    """Switch above by switch; those on top are missing."""
    domain: Mapping[str, str] = field(default_factory=dict)
    """NVLink domain by node, of those that are in one."""

    @classmethod
    def of(cls, switches: Iterable[Switch], domain: Mapping[str, str] | None = None) -> Fabric:
        """Return the fabric that these switches make, with the NVLink domain of each node that is in one.

        Raises:
            TopologyError: a node on two switches, a switch below two or below itself, a switch nobody describes.
        """
        described = list(switches)
        leaf = _owners(((node, switch.name) for switch in described for node in switch.nodes), "node")
        parent = _owners(((below, switch.name) for switch in described for below in switch.switches), "switch")
        unknown = sorted(set(parent) - {switch.name for switch in described})
        if unknown:
            raise TopologyError(f"switch {parent[unknown[0]]} is above {unknown[0]}, which is not described")
        fabric = cls(leaf, parent, dict(domain or {}))
        for switch in described:
            fabric.above(switch.name)
        return fabric

    def above(self, switch: str) -> tuple[str, ...]:
        """Return the switches above one, the nearest first; TopologyError when it is above itself."""
        switches: list[str] = []
        while switch in self.parent:
            switch = self.parent[switch]
            if switch in switches:
                raise TopologyError(f"switch {switch} is above itself: {' > '.join((*switches, switch))}")
            switches.append(switch)
        return tuple(switches)

    def spine(self, node: str) -> str:
        """Return the switch above a node's leaf switch; '' when there is none."""
        return self.parent.get(self.leaf.get(node, ""), "")

    def placed(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Yield the nodes with their levels; a node that the fabric does not know stays as it is.

        A domain is the closest level, and the leaf switch the one above it: policies then fill a domain first.
        """
        above = {leaf: (leaf, *self.above(leaf)) for leaf in set(self.leaf.values())}
        for node in nodes:
            leaf, domain = self.leaf.get(node.name), self.domain.get(node.name, "")
            path = ((domain,) if domain else ()) + (above[leaf] if leaf is not None else ())
            if path:
                node = replace(node, leaf=path[0], spine=path[1] if len(path) > 1 else "", above=path[2:],
                               domain=domain)
            yield node

    def over(self, other: Fabric) -> Fabric:
        """Return both laid over each other; where both know a node, or a switch, it is as this one has it.

        Raises:
            TopologyError: together they are no tree.
        """
        both = Fabric({**other.leaf, **self.leaf}, {**other.parent, **self.parent}, {**other.domain, **self.domain})
        for switch in {*both.leaf.values(), *both.parent}:
            both.above(switch)
        return both

    def strangers(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """Return the fabric's nodes that the scheduler does not know."""
        return tuple(sorted((set(self.leaf) | set(self.domain)) - {node.name for node in nodes}))

    def loose(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """Return the scheduler's nodes that hang on no switch of the fabric."""
        return tuple(sorted({node.name for node in nodes} - set(self.leaf) - set(self.domain)))


def _owners(pairs: Iterable[tuple[str, str]], kind: str) -> dict[str, str]:
    owners: dict[str, str] = {}
    for owned, owner in pairs:
        if owners.setdefault(owned, owner) != owner:
            raise TopologyError(f"{kind} {owned} hangs on two switches: {owners[owned]} and {owner}")
    return owners


LINKS = ("NVLINK", "PIX", "PXB", "PHB", "NODE", "SYS")
"""Ways from GPU to GPU, the closest first, in nvidia-smi's words: NVLink or NVSwitch; one PCIe bridge; several; the
host bridge; between host bridges of one NUMA node; between NUMA nodes."""


@dataclass(frozen=True)
class GpuLinks:
    """The GPUs of one node and the ways between them."""

    gpus: tuple[int, ...]
    """Indexes; there may be holes (DGX Station: 0, 1, 2, 4)."""
    links: Mapping[tuple[int, int], str]
    """One of ``LINKS`` by pair of GPU indexes, the smaller first."""
    lanes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """NVLinks bonded between a pair."""
    numa: Mapping[int, int] = field(default_factory=dict)
    """NUMA node by GPU index, where it is reported."""

    def distance(self, first: int, second: int) -> int:
        """Return how far apart two GPUs are, as a place in ``LINKS``; 0 is closest."""
        return LINKS.index(self.links[min(first, second), max(first, second)])

    def islands(self) -> Islands:
        """Return the groups of GPUs of which each reaches every other by NVLink, or else within one NUMA node.

        The mesh of a DGX-1, in which a GPU reaches four others, falls into its halves: neighbours of one CPU go first.
        """
        reach = LINKS.index("NVLINK" if "NVLINK" in self.links.values() else "NODE")
        groups = [{gpu} for gpu in self.gpus]
        for gpus in sorted(self.links, key=lambda pair: (self.numa.get(pair[0]) != self.numa.get(pair[1]), pair)):
            first, second = (next(group for group in groups if gpu in group) for gpu in gpus)
            if first is not second and all(self.distance(*pair) <= reach for pair in product(first, second)):
                groups = [group for group in groups if group not in (first, second)] + [first | second]
        return tuple(sorted(tuple(sorted(group)) for group in groups))

    def numbered(self) -> Islands:
        """Return the islands as the scheduler numbers GPUs: 0, 1, 2, … over the holes."""
        return tuple(tuple(self.gpus.index(gpu) for gpu in island) for island in self.islands())


@dataclass(frozen=True)
class NodeLinks:
    """Nodes whose GPUs hang together in the same way."""

    names: tuple[str, ...]
    """Of the nodes; patterns such as ``dgx-v100-*``."""
    islands: Islands
    """By the scheduler's indexes."""

    def __post_init__(self) -> None:
        """Refuse islands that share a GPU, or leave one out."""
        indexes = sorted(index for island in self.islands for index in island)
        if not indexes or indexes != list(range(len(indexes))):
            named = " and ".join(",".join(map(str, island)) for island in self.islands)
            raise TopologyError(f"islands must name each GPU from 0 on once, not {named or 'nothing'}")

    def placed(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Yield the nodes with their islands; one of another name, or with other GPUs, stays as it is."""
        size = sum(map(len, self.islands))
        for node in nodes:
            yield replace(node, islands=self.islands) if self._names(node) and node.gpus == size else node

    def misfits(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """Return the nodes of this name with another number of GPUs: MIG slices, GPUs that the scheduler lacks."""
        size = sum(map(len, self.islands))
        return tuple(sorted(node.name for node in nodes if self._names(node) and node.gpus != size))

    def _names(self, node: Node) -> bool:
        return any(fnmatchcase(node.name, pattern) for pattern in self.names)


Topology = Fabric | NodeLinks
"""What is known of how GPUs reach each other: between nodes, or inside of them."""

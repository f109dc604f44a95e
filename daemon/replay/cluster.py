"""The cluster that is replayed: its nodes, partitions, switches, and what happens to nodes over time."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ...storage.records import Islands, Node, Partition
from ...storage.topology import Fabric, Topology
from ..strict_yaml import faults_of
from .cluster_document import ClusterDocument
from .priority.site import Scheduling

PLENTY = 1 << 56
"""Stands for an unknown amount: it never binds."""

_SPEC = re.compile(r"(\d+)x(\d+)(?::([\w.-]+))?$")
MOST_GPUS = 1024
"""Higher indexes of GPUs are mistakes."""


class ClusterError(ValueError):
    """A description of a cluster that makes no sense; the message says where."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something that happens to a node: it fails (its jobs start over), is drained (its jobs go on) or comes back."""

    time: float
    node: str
    kind: Literal["down", "drain", "up"]


@dataclass(frozen=True)
class Cluster:
    """Nodes as a structure of arrays; row ``n`` of every array is node ``names[n]``."""

    names: tuple[str, ...]
    gpus: NDArray[np.int64]
    cpus: NDArray[np.int64]
    """PLENTY where unknown."""
    memory: NDArray[np.int64]
    """Bytes; PLENTY where unknown."""
    model: tuple[str, ...]
    leaf: NDArray[np.int64]
    spine: NDArray[np.int64]
    """Numbered so that spines that hang together stand side by side."""
    joined: NDArray[np.int64]
    """[spine] How many levels above the spines each hangs together with the one before it; 0 for the first. That is
    the whole tree: below one place of a level are spines in a row that are joined no further up."""
    up: NDArray[np.bool_]
    features: tuple[frozenset[str], ...]
    partitions: Mapping[str, NDArray[np.bool_]]
    """Members of each partition, in the order of its definition. The first is the default one."""
    events: tuple[NodeEvent, ...] = field(default=())
    islands: Mapping[str, Islands] = field(default_factory=dict)
    """How nodes are divided, by name; a node that is missing is one island with its GPUs numbered from 0. An index that
    is on none is not there."""
    mixed: frozenset[int] = frozenset()
    """Rows of nodes that are known to have GPUs of several types; ``model`` is the first of them."""
    scheduling: Scheduling = Scheduling()
    """How the site's own scheduler orders and backfills, for the policies that do as it does."""

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.names)

    def index(self, name: str) -> int:
        """Return the row of a node; ClusterError when there is none of this name."""
        try:
            return self.names.index(name)
        except ValueError:
            raise ClusterError(f"no node is called {name!r}") from None

    def with_events(self, events: Iterable[NodeEvent]) -> Cluster:
        """Return the same cluster with outages and drains; each must name a node that exists."""
        ordered = tuple(sorted(events, key=lambda event: event.time))
        for event in ordered:
            self.index(event.node)
        return replace(self, events=ordered)

    def with_islands(self, islands: Mapping[str, Sequence[Sequence[int]]]) -> Cluster:
        """Return the same cluster with nodes that are divided: ``{"n0": ((0, 1), (2, 4))}`` is one without GPU 3.

        Each GPU of a node must be on one island. A MIG slice that the scheduler hands out counts as a GPU, and those of
        one GPU as an island.
        """
        known: dict[str, Islands] = {name: tuple(tuple(part) for part in parts) for name, parts in islands.items()}
        for name, parts in known.items():
            indexes, gpus = [index for part in parts for index in part], int(self.gpus[self.index(name)])
            if len(set(indexes)) != gpus or len(indexes) != gpus or not set(indexes) <= set(range(MOST_GPUS)):
                raise ClusterError(f"{name}: its {gpus} GPUs must each be on one island, by index, not {parts}")
        return replace(self, islands=known)

    @classmethod
    def from_spec(cls, spec: str) -> Cluster:
        """Return the cluster that ``NODESxGPUS[:MODEL][,…]`` describes: ``64x8``, ``2x8:a100,2x8:v100``.

        All nodes hang on one leaf switch and serve one partition ``default``; CPUs and memory never bind.
        """
        nodes: list[Node] = []
        for part in spec.split(","):
            match = _SPEC.match(part.strip())
            if match is None or int(match[1]) == 0:
                raise ClusterError(f"{spec!r} is not NODESxGPUS[:MODEL][,…], e.g. 64x8 or 2x8:a100,2x8:v100")
            first = len(nodes)
            nodes += [Node(f"node{first + n:04d}", ("default",), int(match[2]), match[3] or "")
                      for n in range(int(match[1]))]
        return cls.from_records(nodes)

    @classmethod
    def from_mapping(cls, described: Mapping[str, Any], *known: Topology) -> Cluster:
        """Return the cluster of a YAML document: ``nodes: [{name, count, gpus, …}]``, ``events: [{time, node, kind}]``.

        ``settings`` are Slurm's, as ``idlewatt slurm-settings`` prints them. A name with ``count`` becomes
        ``name0 … name<count-1>``; ``islands`` are as in :meth:`with_islands`. Unknown keys are errors, and so are nodes
        that a fabric does not know, or whose GPUs are not those that a GPU has.
        """
        try:
            document = ClusterDocument.model_validate(described)
        except ValidationError as error:
            raise ClusterError(faults_of(error)) from error
        groups = [(entry, entry.expanded(row)) for row, entry in enumerate(document.nodes or ())]
        islands = {node.name: entry.islands for entry, nodes in groups for node in nodes if entry.islands is not None}
        events = [NodeEvent(event.time, event.node, event.kind) for event in document.events or ()]
        cluster = cls.from_records(_hung([node for _, nodes in groups for node in nodes], known))
        cluster = cluster.with_islands({**cluster.islands, **islands}).with_events(events)
        try:
            return replace(cluster, scheduling=Scheduling.of_config_lines(document.settings or {}))
        except ValueError as error:
            raise ClusterError(f"cluster: {error}") from error

    @classmethod
    def from_records(cls, nodes: Sequence[Node], partitions: Sequence[Partition] = ()) -> Cluster:
        """Return the cluster of a scheduler's nodes and partitions; unknown CPUs or memory never bind."""
        if not nodes:
            raise ClusterError("a cluster needs at least one node")
        names = tuple(node.name for node in nodes)
        if len(set(names)) < len(names):
            raise ClusterError(f"two nodes are called {next(n for n in names if names.count(n) > 1)!r}")
        spine, joined = _spines(nodes)
        return cls(
            names=names,
            gpus=np.array([node.gpus for node in nodes], np.int64),
            cpus=np.array([node.cpus or PLENTY for node in nodes], np.int64),
            memory=np.array([node.memory_bytes or PLENTY for node in nodes], np.int64),
            model=tuple(node.gpu_model for node in nodes),
            leaf=_codes([(node.leaf, node.spine, *node.above) for node in nodes]),
            spine=spine, joined=joined,
            up=np.array([node.state.schedulable for node in nodes], bool),
            features=tuple(frozenset(node.features) for node in nodes),
            partitions=_members(nodes, partitions),
            islands={node.name: node.islands for node in nodes if len(node.islands) > 1},
            mixed=frozenset(row for row, node in enumerate(nodes) if node.gpu_models),
        )


def _hung(nodes: Sequence[Node], known: Sequence[Topology]) -> Sequence[Node]:
    for topology in known:
        wrong, why = (topology.loose(nodes), "hang on no switch of the topology") if isinstance(topology, Fabric) else \
            (topology.misfits(nodes), "have another number of GPUs than the links name")
        if wrong:
            raise ClusterError(f"{len(wrong)} nodes {why}: {', '.join(wrong[:3])}")
        nodes = tuple(topology.placed(nodes))
    return nodes


def _members(nodes: Sequence[Node], partitions: Sequence[Partition]) -> dict[str, NDArray[np.bool_]]:
    """Return the nodes of each partition, from the partitions' lists and the nodes' entries; the default one first."""
    ordered = sorted(partitions, key=lambda partition: not partition.default)
    known = {partition.name: set(partition.nodes) for partition in ordered}
    for node in nodes:
        for name in node.partitions:
            known.setdefault(name, set()).add(node.name)
    return {name: np.array([node.name in members for node in nodes], bool) for name, members in known.items()}


def _codes(labels: Sequence[Hashable]) -> NDArray[np.int64]:
    """Number labels in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)


def _spines(nodes: Sequence[Node]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the spine of each node, and how far above each spine the one before it hangs together with it.

    Spines are numbered place after place, those in the same place in order of appearance.
    """
    depth = max(len(node.above) for node in nodes)
    paths = [(node.spine, *node.above, *[""] * (depth - len(node.above))) for node in nodes]
    seen: dict[tuple[str, ...], int] = {}
    for path in paths:
        for level in range(depth + 1):
            seen.setdefault(path[level:], len(seen))
    ordered = sorted(set(paths), key=lambda path: [seen[path[level:]] for level in range(depth, -1, -1)])
    joined = [next((level for level in range(1, depth + 1) if later[level:] == before[level:]), depth + 1)
              for before, later in pairwise(ordered)]
    number = {path: place for place, path in enumerate(ordered)}
    return np.array([number[path] for path in paths], np.int64), np.array([0, *joined], np.int64)

"""The source ``kubernetes_topology``: where each node of a cluster hangs, by what its API server tells.

Levels are those of Kueue's Topology objects where a node has their labels, else Volcano's HyperNodes, else the labels
that are known by name (topograph, clouds). Domains are labels in any case.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from ...storage.topology import Fabric
from ..domains import DOMAIN_LABELS, check_levels, domain_of, path_of, within_one_tree, within_paths
from ..fetch import Refused
from ..text import clean
from .access import reach
from .api import ApiClient
from .fields import Bare, Listing, Meta, ObjectPart, some
from .hypernodes import HyperNode, Labels, fabric_of
from .lists import read_list, served
from .options import KubernetesAccess

Part = TypeVar("Part", bound=ObjectPart)

log = logging.getLogger(__name__)

_HOST = "kubernetes.io/hostname"
"""Often the lowest level of a Topology: the node itself, and no switch."""
_LIST = msgspec.json.Decoder(Listing)


class _Level(ObjectPart, frozen=True):
    """A level of a Topology."""

    node_label: str = ""


class _Levels(ObjectPart, frozen=True):
    """The levels of a Topology, the topmost first."""

    levels: list[_Level] | None = None


class KueueTopology(ObjectPart, frozen=True):
    """Which labels tell where nodes hang."""

    metadata: Meta = Meta()
    spec: _Levels = _Levels()


_TOPOLOGIES = ("kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1"), "topologies")
_HYPERNODES = ("topology.volcano.sh", ("v1alpha1",), "hypernodes")


class TopologyAsker:
    """Asks one API server, and keeps its connection."""

    def __init__(self, config: KubernetesAccess) -> None:
        self._config = config
        self._api: ApiClient | None = None

    def look(self) -> Fabric:
        """Return the fabric of the moment; raise ``SourceError`` or ``TopologyError`` where there is none."""
        if self._api is None:
            config = self._config
            self._api = ApiClient(reach(config.url, config.kubeconfig, config.context), config.http)
        nodes = {clean(node.metadata.name): node.metadata.labels or {}
                 for node in self._listed("/api/v1/nodes", Bare)}
        return fabric(nodes, self._optional(_TOPOLOGIES, KueueTopology), self._optional(_HYPERNODES, HyperNode))

    def close(self) -> None:
        """End what is under way."""
        if self._api is not None:
            self._api.close()

    def _optional(self, resource: tuple[str, tuple[str, ...], str], kind: type[Part]) -> list[Part]:
        """Return what a list holds that a server may not have, or not show to us."""
        group, versions, plural = resource
        assert self._api is not None
        there = served(self._api).get(group, ())
        version = next((candidate for candidate in versions if candidate in there), "")
        if not version:
            return []
        try:
            return self._listed(f"/apis/{group}/{version}/{plural}", kind)
        except Refused as refused:
            if refused.status == 404:  # the group is there, and without this kind
                return []
            if refused.status == 403:
                log.warning("%s of %s are not shown to us, and are left out: reader.yaml grants them", plural, group)
                return []
            raise

    def _listed(self, path: str, kind: type[Part]) -> list[Part]:
        assert self._api is not None
        items, decoder = list[Part](), msgspec.json.Decoder(kind)

        def take(body: bytes) -> Listing:
            page = _LIST.decode(body)
            items.extend(decoder.decode(raw) for raw in some(page.items))
            return page

        read_list(self._api, path, take)
        return items


def fabric(nodes: Labels, topologies: Iterable[KueueTopology], groups: Iterable[HyperNode]) -> Fabric:
    """Return where nodes hang by their labels and the objects that give these a meaning; ``TopologyError`` for none."""
    chains = sorted((chain for topology in topologies if (chain := _chain(topology))), key=len, reverse=True)
    volcano = fabric_of(groups, nodes)
    paths = {name: _kueue(labels, chains) or _volcano(name, volcano) for name, labels in nodes.items()}
    known = {name: path_of(labels) for name, labels in nodes.items() if not paths[name]}
    check_levels(known.values())
    domains = {name: domain for name, labels in nodes.items() if (domain := domain_of(labels))}
    return within_one_tree(within_paths(paths | known, domains))


def _chain(topology: KueueTopology) -> tuple[str, ...]:
    """Return the labels of the levels that are switches, the topmost first."""
    return tuple(level.node_label for level in some(topology.spec.levels)
                 if level.node_label and level.node_label != _HOST and level.node_label not in DOMAIN_LABELS)


def _kueue(labels: Mapping[str, str], chains: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the path of a node by the first levels of which it has all, the closest switch first.

    A value may stand again below another parent (rack 1 of each block): each is named with those above it.
    """
    values = next((levels for chain in chains if all(levels := [labels.get(key, "") for key in chain])), [])
    return tuple("/".join(values[:end]) for end in range(len(values), 0, -1))


def _volcano(name: str, fabric: Fabric) -> tuple[str, ...]:
    leaf = fabric.leaf.get(name)
    return () if leaf is None else (leaf, *fabric.above(leaf))

"""NVLink domains across nodes, and trees of any depth, as labels of Kubernetes nodes and Slurm's newer texts tell them.

A domain (an NVL72 rack) is closer than any switch: its nodes reach each other's GPUs by NVLink.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import yaml

from ..storage.topology import Fabric, Switch, TopologyError
from .hostlist import expand

log = logging.getLogger(__name__)

DOMAIN_LABELS = ("accelerator.topograph.run/domain", "network.topology.nvidia.com/accelerator", "nvidia.com/gpu.clique")
"""topograph since 1.0 and before, and GPU feature discovery (ClusterUUID.CliqueID)."""
CHAINS = (("topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2",
           "topology.k8s.aws/network-node-layer-1"),
          ("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"),
          ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/core"),
          ("topology.kubernetes.io/rack",), ("rack",))
"""Labels of switches, the closest first."""
_ZONE = "topology.kubernetes.io/zone"
"""Above a leaf of which nothing else is known."""
_TIER = re.compile(r"fabric\.topograph\.run/tier-(\d{1,2})")
_NO_CLIQUE = re.compile(r"0{8}-0{4}-0{4}-0{4}-0{12}(\.\d+)?|\.?")
"""What GPUs without a fabric tell in place of one."""
_PAIR = re.compile(r"(\w+)=(\S+)")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def of_labels(nodes: Mapping[str, Mapping[str, str]]) -> Fabric:
    """Return switches and domains that the labels of nodes tell; nodes without such labels hang nowhere.

    Raises:
        TopologyError: a switch below two others, or the name of two levels.
    """
    paths = {name: _path(labels) for name, labels in nodes.items()}
    domains = {name: domain for name, labels in nodes.items() if (domain := _domain(labels))}
    levels: dict[str, int] = {}
    for path in paths.values():
        for level, switch in enumerate(path):
            if levels.setdefault(switch, level) != level:
                raise TopologyError(f"{switch} is the name of a leaf and of a spine; their labels must differ")
    return within_one_tree(Fabric.of(_switches(paths), domains))


def _path(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the switches above a node, the closest first: of the first kind of labels that it has."""
    tiers = sorted((int(match[1]), value) for key, value in labels.items()
                   if (match := _TIER.fullmatch(key)) and value)
    if tiers:
        return tuple(value for _, value in tiers)
    for chain in CHAINS:
        if labels.get(chain[0]):
            path = tuple(labels[key] for key in chain if labels.get(key))
            return (*path, labels[_ZONE]) if len(path) == 1 and labels.get(_ZONE) else path
    return ()


def _domain(labels: Mapping[str, str]) -> str:
    found = next((labels[key] for key in DOMAIN_LABELS if labels.get(key)), "")
    return "" if _NO_CLIQUE.fullmatch(found) else found


def _switches(paths: Mapping[str, tuple[str, ...]]) -> Iterator[Switch]:
    nodes: dict[str, list[str]] = {}
    below: dict[str, dict[str, None]] = {}
    for name, path in paths.items():
        if path:
            nodes.setdefault(path[0], []).append(name)
        for lower, upper in pairwise(path):
            below.setdefault(upper, {})[lower] = None
    for switch in nodes.keys() | below.keys():
        yield Switch(switch, tuple(nodes.get(switch, ())), tuple(sorted(below.get(switch, ()))))


def within_one_tree(fabric: Fabric) -> Fabric:
    """Return the fabric without domains whose nodes hang in several trees: NVLink does not span sites."""
    tops: dict[str, set[str]] = {}
    for node, domain in fabric.domain.items():
        leaf = fabric.leaf.get(node, "")
        tops.setdefault(domain, set()).add((fabric.above(leaf) or (leaf,))[-1])
    wrong = {domain for domain, found in tops.items() if len(found - {""}) > 1}
    if not wrong:
        return fabric
    log.warning("%d NVLink domains span several networks, which cannot be, and are left out: %s", len(wrong),
                ", ".join(sorted(wrong)[:5]))
    return Fabric(fabric.leaf, fabric.parent, {node: domain for node, domain in fabric.domain.items()
                                               if domain not in wrong})


def block_of(number: int, line: str) -> tuple[str, tuple[str, ...]] | None:
    """Return name and nodes of a line of Slurm's topology/block, None where it is of another kind."""
    facts = {key.lower(): value for key, value in _PAIR.findall(line)}
    if "blockname" in facts:
        try:
            return facts["blockname"], expand(facts.get("nodes", ""))
        except ValueError as error:
            raise TopologyError(f"line {number}: {error}") from error
    return ("", ()) if facts.keys() & {"blocksizes", "aggregatedblock"} else None


def domains_of(blocks: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    """Return the block of each node; TopologyError for a node in two."""
    found: dict[str, str] = {}
    for name, nodes in blocks:
        for node in nodes:
            if found.setdefault(node, name) != name:
                raise TopologyError(f"node {node} is in two blocks: {found[node]} and {name}")
    return found


def parse_yaml(text: str) -> Fabric:
    """Return what Slurm's ``topology.yaml`` (25.05 and later) describes: the default tree, and the blocks of all.

    Raises:
        TopologyError: it is no such list, or the trees are none.
    """
    try:
        listed = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise TopologyError(f"not YAML: {str(error)[:200]}") from error
    if not isinstance(listed, list) or not all(isinstance(one, dict) and "topology" in one for one in listed):
        raise TopologyError("not a topology.yaml: a list of topologies is expected")
    trees = [one for one in listed if isinstance(one.get("tree"), dict)]
    trees.sort(key=lambda one: not one.get("cluster_default"))
    switches = [_switch(row) for row in _rows(trees[0]["tree"], "switches")] if trees else []
    blocks = [(_word(row, "block"), _hosts(row, "nodes")) for one in listed if isinstance(one.get("block"), dict)
              for row in _rows(one["block"], "blocks")]
    return within_one_tree(Fabric.of(switches, domains_of(blocks)))


def _rows(part: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rows = part.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TopologyError(f"{key} is no list of mappings")
    return rows


def _switch(row: Mapping[str, Any]) -> Switch:
    return Switch(_word(row, "switch"), _hosts(row, "nodes"), _hosts(row, "children"))


def _word(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise TopologyError(f"an entry without the name of its {key}")
    return value


def _hosts(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = row.get(key, "")
    if not isinstance(value, str):
        raise TopologyError(f"{key} is no list of hosts: {str(value)[:80]!r}")
    try:
        return expand(value)
    except ValueError as error:
        raise TopologyError(str(error)) from error

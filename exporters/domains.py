"""NVLink domains across nodes, and trees of any depth, as labels of Kubernetes nodes and Slurm's newer texts tell them.

A domain (an NVL72 rack) is closer than any switch: its nodes reach each other's GPUs by NVLink.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

import yaml

from ..storage.telemetry import GpuReading
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
NO_CLIQUE = re.compile(r"0{8}-0{4}-0{4}-0{4}-0{12}(\.\d+)?|\.?")
"""What GPUs without a fabric tell in place of one."""
_PAIR = re.compile(r"(\w+)=(\S+)")
_DEEPEST = 32
"""Of topology.yaml: its own lists and mappings are six deep."""
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def of_labels(nodes: Mapping[str, Mapping[str, str]]) -> Fabric:
    """Return switches and domains that the labels of nodes tell; nodes without such labels hang nowhere.

    Raises:
        TopologyError: a switch below two others, or the name of two levels.
    """
    paths = {name: path_of(labels) for name, labels in nodes.items()}
    domains = {name: domain for name, labels in nodes.items() if (domain := domain_of(labels))}
    check_levels(paths.values())
    return within_one_tree(within_paths(paths, domains))


def check_levels(paths: Iterable[tuple[str, ...]]) -> None:
    """Raise ``TopologyError`` where a switch is on two levels: labels name a level, so that one of them is wrong."""
    levels: dict[str, int] = {}
    for path in paths:
        for level, switch in enumerate(path):
            if levels.setdefault(switch, level) != level:
                raise TopologyError(f"{switch} is the name of a leaf and of a spine; their labels must differ")


def within_paths(paths: Mapping[str, tuple[str, ...]], domains: Mapping[str, str]) -> Fabric:
    """Return the fabric of nodes by the switches above each, the closest first; ``TopologyError`` for no tree."""
    return Fabric.of(_switches(paths), domains)


def path_of(labels: Mapping[str, str]) -> tuple[str, ...]:
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


def domain_of(labels: Mapping[str, str]) -> str:
    """Return the NVLink domain that the labels of a node tell, '' for none."""
    label = next((labels[key] for key in DOMAIN_LABELS if labels.get(key)), "")
    return "" if NO_CLIQUE.fullmatch(label) else label


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


def of_gpus(gpus: Iterable[GpuReading]) -> dict[str, str]:
    """Return the NVLink domain of each node whose GPUs tell; '' for none, or where the GPUs of a node differ."""
    domains: dict[str, set[str]] = {}
    for gpu in gpus:
        if gpu.domain is not None:
            domains.setdefault(gpu.node, set()).add(gpu.domain)
    return {node: names.pop() if len(names) == 1 else "" for node, names in domains.items()}


def within_one_tree(fabric: Fabric) -> Fabric:
    """Return the fabric without domains whose nodes hang in several trees: NVLink does not span sites."""
    tops: dict[str, set[str]] = {}
    for node, domain in fabric.domain.items():
        leaf = fabric.leaf.get(node, "")
        tops.setdefault(domain, set()).add((fabric.above(leaf) or (leaf,))[-1])
    wrong = {domain for domain, top_switches in tops.items() if len(top_switches - {""}) > 1}
    if not wrong:
        return fabric
    _tell_of(tuple(sorted(wrong)))
    return Fabric(fabric.leaf, fabric.parent, {node: domain for node, domain in fabric.domain.items()
                                               if domain not in wrong})


@lru_cache(maxsize=64)
def _tell_of(wrong: tuple[str, ...]) -> None:
    """Log these once, though they are found at every look."""
    log.warning("%d NVLink domains span several networks, which cannot be, and are left out: %s", len(wrong),
                ", ".join(wrong[:5]))


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
    block_by_node: dict[str, str] = {}
    for name, nodes in blocks:
        for node in nodes:
            if block_by_node.setdefault(node, name) != name:
                raise TopologyError(f"node {node} is in two blocks: {block_by_node[node]} and {name}")
    return block_by_node


def parse_yaml(text: str) -> Fabric:
    """Return what Slurm's ``topology.yaml`` (25.05 and later) describes: the default tree, and the blocks of all.

    Raises:
        TopologyError: it is no such list, or the trees are none.
    """
    try:
        _check_depth(text)
        listed = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise TopologyError(f"not YAML: {str(error)[:200]}") from error
    except (AttributeError, KeyError, TypeError) as error:  # so PyYAML fails at a value that its tag does not fit
        raise TopologyError("not YAML: a value is not of the kind that the tag before it names") from error
    if not isinstance(listed, list) or not all(isinstance(topology, dict) and "topology" in topology
                                               for topology in listed):
        raise TopologyError("not a topology.yaml: a list of topologies is expected")
    trees = [topology for topology in listed if isinstance(topology.get("tree"), dict)]
    trees.sort(key=lambda topology: not topology.get("cluster_default"))
    switches = [_switch(row) for row in _rows(trees[0]["tree"], "switches")] if trees else []
    blocks = [(_word(row, "block"), _hosts(row, "nodes"))
              for topology in listed if isinstance(topology.get("block"), dict)
              for row in _rows(topology["block"], "blocks")]
    return within_one_tree(Fabric.of(switches, domains_of(blocks)))


def _check_depth(text: str) -> None:
    """Raise ``ValueError`` for nesting that no topology has: libyaml composes by recursion, and ends the process.

    References are refused, too: a few lines of them stand for more entries than fit the memory.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"*{event.anchor} refers to another place: write it out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"lists within lists, more than {_DEEPEST} deep")


def _rows(part: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    rows = part.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TopologyError(f"{key} is no list of mappings")
    return rows


def _switch(row: Mapping[str, object]) -> Switch:
    return Switch(_word(row, "switch"), _hosts(row, "nodes"), _hosts(row, "children"))


def _word(row: Mapping[str, object], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise TopologyError(f"an entry without the name of its {key}")
    return value


def _hosts(row: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = row.get(key, "")
    if not isinstance(value, str):
        raise TopologyError(f"{key} is no list of hosts: {str(value)[:80]!r}")
    try:
        return expand(value)
    except ValueError as error:
        raise TopologyError(str(error)) from error

"""A node as Kubernetes tells it: how many GPUs it really has, what of it is taken, whether it may be used."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from ...storage.records import Node, NodeState
from ..text import clean
from .asks import NOTHING, WHOLE, Amount, features, instances_per_gpu, is_slice, repels
from .fields import Amounts, Text, condition, quantity, some
from .objects import NodeObject, Taint
from .pods import PodFacts
from .strange_pods import StrangePod

_NODE = msgspec.json.Decoder(NodeObject)
PRODUCT, COUNT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas"
_LEAVING = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted")
_SHARED_PRODUCT = re.compile(r"(-MIG-\S+|-SHARED)+$")
_MOST_GPUS = 256


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, without what of it is taken."""

    name: str
    labels: Mapping[str, str]
    gpus: int
    """GPUs, where its labels tell how many there are behind what is shared."""
    shares: bool
    """One ``nvidia.com/gpu`` of it is no whole GPU."""
    model: str
    cpus: int
    memory_bytes: int
    ready: bool
    cordoned: bool
    reason: str
    taints: tuple[Taint, ...]
    """Those that keep pods away for what the node is."""
    amounts: Mapping[str, float]
    """What it has by resource, as quotas count it."""
    slices: tuple[tuple[str, int], ...] = ()
    """Parts of GPUs that it hands out, by resource."""
    by_name: bool = False
    """A driver offers GPUs of it by name (DRA)."""

    def whole(self, requested: Amount) -> int:
        """Return how many whole GPUs of it a pod holds that requested so much."""
        return 0 if self.shares else requested.gpus

    def parts(self, requested: Amount) -> Iterator[tuple[str, int]]:
        """Yield the parts of GPUs that somebody holds of it."""
        if requested.slices:
            yield requested.profile, requested.slices
        if requested.gpus and self.shares:
            yield WHOLE[0], requested.gpus


def parse_node(raw: Text) -> NodeFacts:
    """Return a node."""
    node = _NODE.decode(raw)
    labels = {clean(name): clean(value) for name, value in (node.metadata.labels or {}).items()}
    ready = condition(node.status.conditions, "Ready")
    taints = tuple(some(node.spec.taints))
    leaving = next((taint.key for taint in taints if taint.key in _LEAVING), "")
    able = node.status.allocatable or {}
    gpus, shares = _gpus(able, labels)
    up = ready is not None and ready.status == "True"
    return NodeFacts(
        name=clean(node.metadata.name), labels=labels, gpus=gpus, shares=shares,
        model=_SHARED_PRODUCT.sub("", labels.get(PRODUCT, "")), cpus=math.floor(quantity(able.get("cpu", 0))),
        memory_bytes=int(quantity(able.get("memory", 0))), ready=up,
        cordoned=node.spec.unschedulable or bool(leaving),
        reason="" if up and not leaving else clean(leaving or (ready.message or ready.reason if ready else "")),
        taints=tuple(taint for taint in taints if repels(taint) and taint.key not in _LEAVING),
        amounts=_amounts(able), slices=_slices(able, shares))


def _amounts(able: Amounts) -> dict[str, float]:
    """Return what a node has by resource; an amount that cannot be costs itself alone."""
    amounts = dict[str, float]()
    for name, value in able.items():
        with suppress(ValueError):
            amounts[name] = quantity(value)
    return amounts


def _slices(able: Amounts, shares: bool) -> tuple[tuple[str, int], ...]:
    """Return the parts of GPUs that a node hands out; those under the name of whole GPUs too, where these are none."""
    return tuple((clean(name), math.floor(quantity(value))) for name, value in sorted(able.items())
                 if is_slice(name) or (shares and name == WHOLE[0]))


def _gpus(able: Amounts, labels: Mapping[str, str]) -> tuple[int, bool]:
    """Return the number of GPUs, and whether what is handed out are parts of them."""
    handed = sum(math.ceil(quantity(able[name])) for name in WHOLE if name in able)
    count, replicas = _number(labels.get(COUNT, "")), _number(labels.get(REPLICAS, "")) or 1
    instances = instances_per_gpu(labels.get(PRODUCT, ""))
    if instances:  # each GPU is cut into the same parts, and each part is called a GPU
        return min(math.ceil((count or handed) / instances), _MOST_GPUS), True
    sliced = any("/mig-" in name or name.endswith("gpu.shared") for name in able)
    if replicas > 1 or sliced:
        return min(count or math.ceil(handed / replicas), _MOST_GPUS), replicas > 1
    return handed, False


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def node_of(facts: NodeFacts, pods: Iterable[PodFacts], partitions: tuple[str, ...], keys: Iterable[str],
            strange: Collection[StrangePod] = ()) -> Node:
    """Return a node with what the pods on it take; of its labels those that ``keys`` name.

    Where one that is not understood, or whose claims are not known, may hold any of its GPUs, CPUs or memory, none of
    these is called free.
    """
    holding = [pod for pod in pods if pod.holds]
    amounts = [pod.amount for pod in holding]
    amounts += [pod.amount for pod in strange]
    unknown = frozenset[str]().union(*(pod.unknown for pod in strange))
    full = "gpu" in unknown or (facts.by_name and any(pod.unknown_devices for pod in holding))
    taken, whole, parts = NOTHING, 0, dict[str, int]()
    for amount in amounts:
        taken += amount
        whole += facts.whole(amount)
        for name, count in facts.parts(amount):
            parts[name] = parts.get(name, 0) + count
    busy = full or any(amount.any_gpu for amount in amounts)
    vacant = not strange and all(pod.overhead for pod in holding)
    return Node(
        name=facts.name, partitions=partitions, gpus=facts.gpus, gpu_model=facts.model, cpus=facts.cpus,
        memory_bytes=facts.memory_bytes, state=_state(facts, busy=busy), features=features(facts.labels, keys),
        cpus_allocated=max(math.ceil(taken.cpus), facts.cpus if "cpu" in unknown else 0),
        memory_allocated_bytes=max(int(taken.memory_bytes), facts.memory_bytes if "memory" in unknown else 0),
        gpus_allocated=max(whole, facts.gpus) if full else whole,
        reason=facts.reason, vacant=vacant,
        slices=tuple((name, total, total if full else parts.get(name, 0)) for name, total in facts.slices))


def _state(facts: NodeFacts, *, busy: bool) -> NodeState:
    if not facts.ready:
        return NodeState.DOWN
    if facts.cordoned:
        return NodeState.DRAINING if busy else NodeState.DRAINED
    return NodeState.UP

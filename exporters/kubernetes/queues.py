"""The queues of Kueue and what waits in them: a workload is a job before it has pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from ...storage.quotas import NEVER, Flavored, Queue, Quota
from ...storage.waiting import WaitReason
from ..text import clean
from .asks import WHOLE, Amount, requested
from .fields import Meta, Owner, Text, condition, quantity, seconds, some
from .gangs import GangFacts
from .messages import shortened, wanted_resource, workload_reason
from .nodes import NodeFacts
from .pods import PodConstraints, wish_of
from .queue_objects import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    KueueFlavor,
    KueueWorkload,
    LocalQueue,
    WorkloadSpec,
)

_WORKLOAD = msgspec.json.Decoder(KueueWorkload)
_LOCAL, _CLUSTER = msgspec.json.Decoder(LocalQueue), msgspec.json.Decoder(ClusterQueue)
_COHORT = msgspec.json.Decoder(Cohort)
_FLAVOR = msgspec.json.Decoder(KueueFlavor)
_MOST_PODS = 100_000


class WorkloadPods(msgspec.Struct, frozen=True):
    """Pods of a workload that are alike."""

    count: int
    amount: Amount
    wish: PodConstraints


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """A workload; times in seconds since the epoch."""

    namespace: str
    name: str
    owner: Owner | None
    queue: str
    admitted_to: str
    parts: tuple[WorkloadPods, ...]
    created_s: float
    priority: float | None
    limit_s: float | None
    labels: Mapping[str, str]
    active: bool
    admitted: bool
    finished: bool
    evicted: str
    """Why it was put back into the queue, '' where it was not."""
    reason: str = ""
    message: str = ""
    """Of why it waits."""
    reserved: bool = False
    """Its quota is kept for it already."""
    gated_by: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    """Admission checks in the order of its status."""
    pending_checks: tuple[str, ...] = ()
    pod_sets: tuple[str, ...] = ()
    boost: float = 0.0
    members: frozenset[str] = frozenset()
    """The pods that own it, by their uids."""

    @property
    def effective_priority(self) -> float:
        """Return its priority with its boost."""
        return (self.priority or 0.0) + self.boost


def parse_workload(raw: Text) -> WorkloadFacts:
    """Return a workload."""
    work = _WORKLOAD.decode(raw)
    meta, spec, status = work.metadata, work.spec, work.status
    reserved, admitted = (condition(status.conditions, kind) for kind in ("QuotaReserved", "Admitted"))
    evicted, finished = (condition(status.conditions, kind) for kind in ("Evicted", "Finished"))
    created_s = seconds(meta.creation_timestamp)
    if created_s is None:
        raise ValueError("it has no creation time")
    waits = admitted if reserved and reserved.status == "True" else reserved
    return WorkloadFacts(
        namespace=clean(meta.namespace), name=clean(meta.name), owner=meta.controller, queue=clean(spec.queue_name),
        admitted_to=clean(status.admission.cluster_queue) if status.admission else "",
        parts=tuple(WorkloadPods(max(0, min(pod_set.count, _MOST_PODS)), requested(pod_set.template.spec),
                                 wish_of(pod_set.template.spec))
                    for pod_set in some(spec.pod_sets)),
        created_s=created_s, priority=None if spec.priority is None else float(spec.priority),
        limit_s=spec.maximum_execution_time_seconds, labels=_labels(meta, spec), active=spec.active is not False,
        admitted=admitted is not None and admitted.status == "True",
        finished=finished is not None and finished.status == "True",
        evicted=clean(evicted.reason) if evicted and evicted.status == "True" else "",
        reason=clean(waits.reason) if waits else "", message=clean(waits.message) if waits else "",
        reserved=reserved is not None and reserved.status == "True", gated_by=_gates(meta),
        checks=tuple(clean(check.name) for check in some(status.admission_checks)),
        pending_checks=tuple(clean(check.name) for check in some(status.admission_checks) if check.state == "Pending"),
        pod_sets=tuple(clean(pod_set.name) for pod_set in some(spec.pod_sets)), boost=_boost(meta),
        members=frozenset([owner.uid for owner in some(meta.owner_references) if owner.kind == "Pod"]))


def _gates(meta: Meta) -> tuple[str, ...]:
    gated_by = meta.annotations.gated_by if meta.annotations else ""
    return tuple(clean(name) for part in gated_by.split(",") if (name := part.strip()))


def _boost(meta: Meta) -> float:
    text = meta.annotations.boost if meta.annotations else ""
    return float(text) if len(text) < 12 and text.removeprefix("-").isdecimal() else 0.0


def _labels(meta: Meta, spec: WorkloadSpec) -> dict[str, str]:
    """Return the labels of a workload, and those that its pods will have."""
    labels = {**(meta.labels or {})}
    for pod_set in some(spec.pod_sets):
        labels |= pod_set.template.metadata.labels or {}
    return {name: clean(value) for name, value in labels.items()}


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue of the cluster: how much it may use of each resource, on nodes of which labels."""

    name: str
    flavors: tuple[str, ...]
    quotas: Mapping[str, float]
    queue: Queue
    """The same, flavour by flavour, with what is used and lent."""


def parse_cluster_queue(raw: Text) -> QueueFacts:
    """Return a queue of the cluster."""
    queue = _CLUSTER.decode(raw)
    rows = [row for group in some(queue.spec.resource_groups) for row in some(group.flavors)]
    quotas: dict[str, float] = {}
    for row in rows:
        for quota in some(row.resources):
            quotas[quota.name] = quotas.get(quota.name, 0.0) + quantity(quota.nominal_quota)
    name = clean(queue.metadata.name)
    return QueueFacts(name, tuple(clean(row.name) for row in rows), quotas, _queue(name, queue, rows))


def _queue(name: str, queue: ClusterQueue, rows: Iterable[FlavorQuotas]) -> Queue:
    used = {(row.name, resource.name): quantity(resource.total) for row in some(queue.status.flavors_reservation)
            for resource in some(row.resources)}
    quotas = tuple(
        Quota(resource_word(resource.name), clean(row.name), quantity(resource.nominal_quota),
              used.get((row.name, resource.name), 0.0),
              None if resource.borrowing_limit is None else quantity(resource.borrowing_limit),
              None if resource.lending_limit is None else quantity(resource.lending_limit))
        for row in rows for resource in some(row.resources))
    reclaims = queue.spec.preemption.reclaim_within_cohort if queue.spec.preemption else NEVER
    return Queue(name, clean(queue.spec.cohort_name or queue.spec.cohort), quotas, reclaims)


def resource_word(name: str) -> str:
    """Return how a resource is called here."""
    return "gpu" if name in WHOLE else {"cpu": "cpu", "memory": "mem"}.get(name, clean(name))


def parse_cohort(raw: Text) -> str:
    """Return the name of a cohort that has more than its queues: quotas of its own, or one above it; else ''."""
    cohort = _COHORT.decode(raw)
    more = cohort.spec.parent_name or cohort.spec.parent or cohort.spec.resource_groups
    return clean(cohort.metadata.name) if more else ""


def parse_local_queue(raw: Text) -> tuple[tuple[str, str], str]:
    """Return a queue of a namespace, and the queue of the cluster that it stands for."""
    queue = _LOCAL.decode(raw)
    return (clean(queue.metadata.namespace), clean(queue.metadata.name)), clean(queue.spec.cluster_queue)


def parse_flavor(raw: Text) -> tuple[str, Mapping[str, str]]:
    """Return a flavour with the labels of its nodes."""
    flavor = _FLAVOR.decode(raw)
    return clean(flavor.metadata.name), flavor.spec.node_labels or {}


@dataclass(slots=True)
class Queues:
    """Which queues there are, and which nodes each may use."""

    local: Mapping[tuple[str, str], str] = field(default_factory=dict)
    clusters: Mapping[str, QueueFacts] = field(default_factory=dict)
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    gangs: Mapping[tuple[str, str], GangFacts] = field(default_factory=dict)
    nodes: tuple[NodeFacts, ...] = ()
    nested: frozenset[str] = frozenset()
    """Cohorts that have more than their queues."""
    _has: dict[tuple[str, str], float] = field(default_factory=dict)

    def serving(self, node: NodeFacts) -> list[str]:
        """Return the queues of the cluster that may use a node."""
        return sorted(name for name, queue in self.clusters.items() if self._serves(queue, node))

    def _serves(self, queue: QueueFacts, node: NodeFacts) -> bool:
        wanted = [self.flavors[name] for name in queue.flavors if name in self.flavors]
        return any(all(node.labels.get(key) == value for key, value in labels.items()) for labels in wanted)

    def snapshot(self) -> tuple[tuple[Queue, ...], tuple[Flavored, ...]]:
        """Return all queues with their quotas, and the nodes of each flavour."""
        flavors = tuple(Flavored(clean(name), frozenset(
            node.name for node in self.nodes if all(node.labels.get(key) == value for key, value in labels.items())))
            for name, labels in self.flavors.items())
        queues = tuple(replace(cluster_queue.queue, nested=cluster_queue.queue.cohort in self.nested)
                       for cluster_queue in self.clusters.values())
        return queues, flavors

    def waits_for(self, work: WorkloadFacts, queue: str) -> tuple[WaitReason, str]:
        """Return why a workload waits in a queue, in our word and in Kueue's."""
        if not work.active:
            return WaitReason.HELD, "Deactivated"
        enough = self._enough(queue, wanted_resource(work.message))
        decided = workload_reason(work.reason, work.message, enough=enough)
        return decided, ": ".join(filter(None, (work.reason, shortened(work.message))))

    def _enough(self, queue: str, resource: str) -> bool:
        """Tell whether a queue may use at least as much of a resource as its nodes have: its quota is no limit then."""
        facts = self.clusters.get(queue)
        if facts is None or not resource or resource not in facts.quotas:
            return False
        key = queue, resource
        if key not in self._has:
            self._has[key] = sum(node.amounts.get(resource, 0.0) for node in self.nodes if self._serves(facts, node))
        return facts.quotas[resource] >= self._has[key]


def by_name(pairs: Iterable[tuple[tuple[str, str], str]]) -> dict[tuple[str, str], str]:
    """Return pairs as a mapping."""
    return dict(pairs)

"""The objects that steer where and when a job of Kubernetes runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypedDict

from ...storage.steering import Steering
from ..text import clean
from .batches import BatchFacts
from .budgets import BudgetFacts, budgets_of
from .groups import JobPods
from .neighbours import HOSTNAME
from .nodes import NodeFacts
from .pods import RAY_KIND, PodFacts
from .queues import WorkloadFacts

_REMADE = frozenset((("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController"),
                     ("apps.kruise.io", "CloneSet"), ("apps.kruise.io", "StatefulSet"), ("ray.io", "RayCluster")))
"""Groups and kinds that make each pod again that is taken away, without end."""
_TRAINING = frozenset(("PyTorchJob", "TFJob", "MPIJob", "JAXJob", "PaddleJob", "XGBoostJob"))
"""Kinds of Kubeflow that fail with a pod that is never restarted."""


class _Waiting(TypedDict, total=False):
    """What steers a job that waits, by the names of the fields of ``Steering``."""

    suspended: bool
    gated: tuple[str, ...]
    gate: str
    bound: bool
    check_name: str
    hosts: tuple[tuple[str, str], ...]
    admission_gated: bool
    workload: str
    pod_sets: tuple[str, ...]
    boost: int
    reserved: bool
    check: int | None


@dataclass(frozen=True, slots=True)
class Levers:
    """What a site offers to steer its jobs by, at one moment."""

    gate: str = ""
    check: str = ""
    budgets: Mapping[str, list[BudgetFacts]] | None = None
    """None where nobody shows them."""
    hosts: tuple[tuple[str, str], ...] = ()
    """As ``Steering`` has them."""
    first: Mapping[str, WorkloadFacts] = field(default_factory=dict)
    """The waiting workload that comes first, by queue of the cluster."""

    def awaits(self, group: JobPods, waiting: Sequence[PodFacts]) -> bool:
        """Tell whether a group waits for advice alone: behind our gate, or our admission check."""
        work = group.work
        if work is not None and not work.admitted:
            return bool(self.gate and work.gated_by == (self.gate,)) or (
                work.reserved and work.pending_checks == (self.check,))
        return bool(self.gate and waiting) and all(pod.gates == (self.gate,) for pod in waiting)

    def steering(self, group: JobPods, pods: Sequence[PodFacts], queue: str) -> Steering:
        """Return what steers a group: one that waits, or one that runs."""
        running = [pod for pod in pods if pod.holds]
        only, limited = _container(pods)
        waits: _Waiting = {} if len(running) == len(pods) > 0 else self._waiting(group, pods, queue)
        return Steering(
            group.namespace, owner=_resource(group), pods=tuple([pod.name for pod in running]), container=only,
            limited=limited, batches=_batches(group, pods), movable=self._movable(group, running),
            budgets=budgets_of(running, self.budgets or {}), **waits)

    def _waiting(self, group: JobPods, pods: Sequence[PodFacts], queue: str) -> _Waiting:
        """Return what steers a job that waits, or of which some pods wait."""
        work = group.work if group.work is not None and not group.work.admitted else None
        gated = tuple(pod.name for pod in pods if self.gate and pod.gates == (self.gate,))
        bound = any(pod.wish.nodes or pod.wish.terms for pod in pods) or any(
            part.wish.terms for part in (work.parts if work else ()))
        waits: _Waiting = {"suspended": _unmade(group), "gated": gated, "gate": self.gate, "bound": bound,
                           "check_name": self.check, "hosts": self.hosts}
        if work is None:
            return waits
        return {**waits, "admission_gated": self.gate in work.gated_by, "workload": work.name,
                "pod_sets": work.pod_sets, "boost": self._boost(work, queue), "reserved": work.reserved,
                "check": work.checks.index(self.check) if self.check in work.pending_checks else None}

    def _movable(self, group: JobPods, running: Sequence[PodFacts]) -> bool:
        """Tell whether pods are made again when they are evicted, as far as that and its bounds are known."""
        if self.budgets is None or not running:
            return False
        for pod in running:
            if pod.owner is None or pod.overhead or pod.wish.rules or pod.deleted_s is not None:
                return False
        return _made_again(running, group.batches)

    def _boost(self, work: WorkloadFacts, queue: str) -> int:
        """Return the boost with which a workload is the first of its queue; 0 where it is."""
        first = self.first.get(queue)
        if first is None or (first.namespace, first.name) == (work.namespace, work.name):
            return 0
        return max(0, int(work.boost + first.effective_priority - work.effective_priority) + 1)


def hosts_of(nodes: Sequence[NodeFacts]) -> tuple[tuple[str, str], ...]:
    """Return the nodes whose label of the host name is not their name, each with it; '' where it is of no use."""
    labels = [node.labels.get(HOSTNAME, "") for node in nodes]
    counts = Counter(labels)
    return tuple((node.name, label if counts[label] == 1 else "") for node, label in zip(nodes, labels, strict=True)
                 if label != node.name or counts[label] > 1)


def first_waiting(works: Iterable[WorkloadFacts], queue_of: Mapping[tuple[str, str], str]) -> dict[str, WorkloadFacts]:
    """Return the first workload of each queue: the highest priority with its boost, of equal ones the oldest."""
    workloads: dict[str, WorkloadFacts] = {}
    for work in works:
        if not work.admitted and not work.finished and work.active:
            queue = queue_of.get((work.namespace, work.queue), work.queue)
            first = workloads.get(queue)
            if first is None or _turn(work) < _turn(first):
                workloads[queue] = work
    return workloads


def _turn(work: WorkloadFacts) -> tuple[float, float, str, str]:
    return -work.effective_priority, work.created_s, work.namespace, work.name


def _made_again(pods: Sequence[PodFacts], batches: Mapping[str, BatchFacts]) -> bool:
    """Tell whether all of some pods are made again when they are taken away together, and their jobs go on."""
    of_jobs = Counter(pod.owner.uid for pod in pods if pod.owner is not None and _maker(pod) == ("batch", "Job"))
    if any(uid not in batches or count > batches[uid].spare for uid, count in of_jobs.items()):
        return False
    return all(_maker(pod) == ("batch", "Job") or _remade(pod) for pod in pods)


def _remade(pod: PodFacts) -> bool:
    """Tell whether what makes a pod makes it again; a RayJob ends with the pod that leads its cluster."""
    group, kind = _maker(pod)
    if group == "kubeflow.org" and kind in _TRAINING:
        return not pod.never_restarts
    return (group, kind) in _REMADE and pod.labels.get(RAY_KIND) != "RayJob"


def _maker(pod: PodFacts) -> tuple[str, str]:
    """Return the group and the kind of what makes a pod."""
    return (pod.owner.api_version.rpartition("/")[0], pod.owner.kind) if pod.owner is not None else ("", "")


def _container(pods: Sequence[PodFacts]) -> tuple[str, bool]:
    """Return the one container that all pods with GPUs have, and whether it has limits; '' where they have several."""
    known: tuple[str, bool] | None = None
    for pod in pods:
        if pod.amount.any_gpu:
            if known is None:
                known = pod.container, pod.limited
            elif known[0] != pod.container or known[1] != pod.limited:
                return "", False
    return known or ("", False)


def _batches(group: JobPods, pods: Sequence[PodFacts]) -> tuple[str, ...]:
    """Return the batch jobs between pods and the owner of their group, of which pods alone tell nothing."""
    if group.owner is None or group.kind == "Job":
        return ()
    return tuple(sorted({clean(pod.owner.name) for pod in pods if pod.owner is not None and pod.owner.kind == "Job"}))


def _resource(group: JobPods) -> str:
    """Return the owner of a group as commands name it, '' for what no command names."""
    owner = group.owner
    if owner is None or not owner.kind:
        return ""
    return f"{_kind(owner.kind, owner.api_version)}/{clean(owner.name)}"


@lru_cache(maxsize=1024)
def _kind(kind: str, version: str) -> str:
    """Return a kind as commands name it: ``job.batch``."""
    group = version.rpartition("/")[0]
    return f"{clean(kind).lower()}.{clean(group)}" if group else clean(kind).lower()


def _unmade(group: JobPods) -> bool:
    """Tell whether its owner is a Job that is suspended and has never made pods: its template may be changed."""
    return (group.kind == "Job" and group.batch is not None and group.batch.suspended and not group.batch.begun
            and not group.pods)

"""Pods that are one job: those of one owner at the top, of one gang where they have no owner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ..text import clean
from .batches import BatchFacts
from .fields import Owner
from .pods import (
    JOBSET,
    LEADER_WORKER_SET,
    RAY,
    RAY_KIND,
    RAY_NAME,
    RESERVATIONS,
    TEMPLATE_HASH,
    PodFacts,
)
from .queues import WorkloadFacts

_HIGHEST = 8
"""Owners above one another that are followed: there are three in practice, and a cycle in malice."""
SERVICES = frozenset(("Deployment", "StatefulSet", "LeaderWorkerSet", "RayService", "RayCluster", "ReplicaSet",
                      "InferenceService", "ReplicationController"))
"""Kinds that never end by themselves."""
NOTEBOOKS = frozenset(("Notebook",))
_RENEWED = frozenset(("Deployment", "LeaderWorkerSet", "RayService"))
"""Kinds whose own uid nobody below them names."""

CRON = "CronJob"
"""Each of its batch jobs is a job of its own under its name."""

Key = tuple[str, str, str, str]
"""Namespace, kind, name, uid ('' where it is unknown; of a CronJob that of its batch job)."""


@dataclass(slots=True)
class JobPods:
    """The pods of one job, with what stands above them."""

    key: Key
    pods: list[PodFacts] = field(default_factory=list)
    gone: list[PodFacts] = field(default_factory=list)
    """Those that were deleted since the last look."""
    batch: BatchFacts | None = None
    work: WorkloadFacts | None = None
    owner: Owner | None = None
    """The topmost owner; None for bare pods and gangs."""
    queue: str | None = None
    """Its queue, once it was looked for."""
    batches: Mapping[str, BatchFacts] = field(default_factory=dict)
    """All batch jobs, by uid."""

    @property
    def namespace(self) -> str:
        """Return the namespace."""
        return self.key[0]

    @property
    def kind(self) -> str:
        """Return the kind of the owner, ``Pod`` where there is none."""
        return self.key[1]

    @property
    def name(self) -> str:
        """Return the owner's name."""
        return self.key[2]

    @property
    def asks(self) -> bool:
        """Tell whether any of it asks for GPUs: what does not is overhead of the nodes."""
        for pods in (self.pods, self.gone):
            for pod in pods:  # mostly the first one does
                if pod.amount.any_gpu:
                    return True
        return self.work is not None and any(part.amount.any_gpu for part in self.work.parts)

    @property
    def plain(self) -> bool:
        """Tell whether no label and no note of its pods says anything."""
        for pods in (self.pods, self.gone):
            for pod in pods:
                if pod.labels or pod.gang or pod.volcano_queue:
                    return False
        return True


def gather(pods: Iterable[PodFacts], gone: Iterable[PodFacts], batches: Iterable[BatchFacts],
           works: Iterable[WorkloadFacts]) -> list[JobPods]:
    """Return the jobs that there are; pods of DaemonSets, of the control plane and of KAI's reservations are none."""
    known = {batch.uid: batch for batch in batches}
    groups: dict[Key, JobPods] = {}
    for some_pods, left in ((pods, False), (gone, True)):
        for pod in some_pods:
            owner = _top(pod, known)
            key = _key(pod, owner)
            if key is not None:
                group = groups.get(key)
                if group is None:
                    group = groups[key] = JobPods(key, owner=owner, batches=known)
                (group.gone if left else group.pods).append(pod)
    _attach(groups, known, tuple(works))
    return [group for group in groups.values() if group.asks]


def _key(pod: PodFacts, owner: Owner | None) -> Key | None:
    if pod.namespace == RESERVATIONS:
        return None
    if owner is None:
        if pod.gang:
            return pod.namespace, "PodGroup", pod.gang, ""
        return pod.namespace, "Pod", pod.name, pod.uid
    if owner.kind in ("DaemonSet", "Node"):
        return None
    if pod.gang and owner.kind in SERVICES:
        return pod.namespace, "PodGroup", pod.gang, ""  # each replica is a gang of its own
    below = pod.owner.uid if pod.owner is not None and owner.kind == CRON else owner.uid
    return pod.namespace, clean(owner.kind), clean(owner.name), "" if owner.kind in _RENEWED else below


def _top(pod: PodFacts, batches: Mapping[str, BatchFacts]) -> Owner | None:
    """Return the owner of the owner, as far up as is known; of cycles the last that is reached."""
    labels = pod.labels
    if pod.owner is None:
        return None
    owner = _above(pod.owner, batches)
    if not labels:
        return owner
    suffix = f"-{labels.get(TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return Owner("Deployment", owner.name.removesuffix(suffix), api_version="apps/v1")
    if owner.kind == "Job" and labels.get(JOBSET):
        return Owner("JobSet", labels[JOBSET], api_version="jobset.x-k8s.io/v1alpha2")
    if labels.get(LEADER_WORKER_SET):
        return Owner("LeaderWorkerSet", labels[LEADER_WORKER_SET], api_version="leaderworkerset.x-k8s.io/v1")
    if labels.get(RAY) and labels.get(RAY_NAME):
        return Owner(labels.get(RAY_KIND) or "RayCluster", labels[RAY_NAME], api_version="ray.io/v1")
    return owner


def _above(owner: Owner, batches: Mapping[str, BatchFacts]) -> Owner:
    """Return who owns an owner that is a batch job, as far up as is known; else the owner itself."""
    for _ in range(_HIGHEST):
        batch = batches.get(owner.uid)
        if batch is None or batch.owner is None:
            break
        owner = batch.owner
    return owner


def _attach(groups: dict[Key, JobPods], batches: Mapping[str, BatchFacts], works: Collection[WorkloadFacts]) -> None:
    """Lay batch jobs and workloads over the groups; a workload without pods is a group of its own."""
    for group in groups.values():
        group.batch = batches.get(group.key[3]) if group.kind in ("Job", CRON) else None
    named = {_called(key): group for key, group in groups.items()}
    owning = frozenset[str]().union(*(work.members for work in works))
    by_pod = {pod.uid: group for group in groups.values() for pod in (*group.pods, *group.gone)
              if pod.uid in owning} if owning else {}
    # While a job is resized it may have several: what runs or waits counts before what is over.
    for work in sorted(works, key=lambda work: (not work.finished, work.admitted)):
        key, owner = _of_work(work, batches)
        of_pods = next((by_pod[uid] for uid in sorted(work.members) if uid in by_pod), None)
        if of_pods is not None:
            key = of_pods.key  # it owns no pods: pods own it
        elif work.owner is None and (work.members or _called(_gang_of(work)) in named):
            key = _gang_of(work)
        if _called(key) not in named:
            groups[key] = named[_called(key)] = JobPods(key, batch=batches.get(key[3]), owner=owner)
        named[_called(key)].work = work


def _gang_of(work: WorkloadFacts) -> Key:
    """Return the key of the group of pods that a workload is named after, as Kueue names those of plain pods."""
    return work.namespace, "PodGroup", work.name, ""


def _called(key: Key) -> tuple[str, ...]:
    """Return what tells a job of a workload from others: its owner's name, unless there are several of that."""
    return key if key[1] == CRON else key[:3]


def _of_work(work: WorkloadFacts, batches: Mapping[str, BatchFacts]) -> tuple[Key, Owner | None]:
    """Return the job and the topmost owner of a workload."""
    if work.owner is None:
        return (work.namespace, "Workload", work.name, ""), None
    owner = _above(work.owner, batches)
    below = work.owner.uid if owner.kind == CRON else owner.uid
    return (work.namespace, clean(owner.kind), clean(owner.name), "" if owner.kind in _RENEWED else below), owner

"""The fields of the objects of queueing systems that are needed: Kueue, and the gangs of Volcano and KAI."""

from __future__ import annotations

from .fields import Condition, Meta, ObjectPart
from .objects import PodSpec


class Template(ObjectPart, frozen=True):
    """What the pods of a set will be."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()


class PodSet(ObjectPart, frozen=True):
    """Pods of a workload that are alike."""

    name: str = ""
    count: int = 1
    template: Template = Template()


class WorkloadSpec(ObjectPart, frozen=True):
    """What a workload asks for."""

    pod_sets: list[PodSet] | None = None
    queue_name: str = ""
    priority: int | None = None
    active: bool | None = None
    maximum_execution_time_seconds: float | None = None


class Admission(ObjectPart, frozen=True):
    """Where a workload was let in."""

    cluster_queue: str = ""


class CheckState(ObjectPart, frozen=True):
    """How an admission check of a workload stands."""

    name: str = ""
    state: str = ""


class WorkloadStatus(ObjectPart, frozen=True):
    """How a workload fares."""

    admission_checks: list[CheckState] | None = None
    admission: Admission | None = None
    conditions: list[Condition] | None = None


class KueueWorkload(ObjectPart, frozen=True):
    """What Kueue queues: a job before it has pods."""

    metadata: Meta = Meta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class LocalQueueSpec(ObjectPart, frozen=True):
    """Which queue of the cluster a queue of a namespace stands for."""

    cluster_queue: str = ""


class LocalQueue(ObjectPart, frozen=True):
    """A queue of a namespace."""

    metadata: Meta = Meta()
    spec: LocalQueueSpec = LocalQueueSpec()


class KueueQuota(ObjectPart, frozen=True):
    """How much of a resource a queue may use."""

    name: str = ""
    nominal_quota: str | int | float = "0"
    borrowing_limit: str | int | float | None = None
    lending_limit: str | int | float | None = None


class FlavorQuotas(ObjectPart, frozen=True):
    """The quotas of one flavour."""

    name: str = ""
    resources: list[KueueQuota] | None = None


class ResourceGroup(ObjectPart, frozen=True):
    """Flavours that stand for one another."""

    flavors: list[FlavorQuotas] | None = None


class Preemption(ObjectPart, frozen=True):
    """Which workloads a queue may preempt."""

    reclaim_within_cohort: str = "Never"


class ClusterQueueSpec(ObjectPart, frozen=True):
    """What a queue may use."""

    resource_groups: list[ResourceGroup] | None = None
    preemption: Preemption | None = None
    cohort_name: str = ""
    cohort: str = ""


class Usage(ObjectPart, frozen=True):
    """How much of a resource is used."""

    name: str = ""
    total: str | int | float = "0"


class FlavorUsage(ObjectPart, frozen=True):
    """What of one flavour is used."""

    name: str = ""
    resources: list[Usage] | None = None


class ClusterQueueStatus(ObjectPart, frozen=True):
    """How a queue fares."""

    flavors_reservation: list[FlavorUsage] | None = None


class ClusterQueue(ObjectPart, frozen=True):
    """A queue of the cluster."""

    metadata: Meta = Meta()
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class CohortSpec(ObjectPart, frozen=True):
    """What a cohort has beside its queues' quotas, and above it."""

    parent_name: str = ""
    parent: str = ""
    resource_groups: list[ResourceGroup] | None = None


class Cohort(ObjectPart, frozen=True):
    """Queues that lend to one another."""

    metadata: Meta = Meta()
    spec: CohortSpec = CohortSpec()


class FlavorSpec(ObjectPart, frozen=True):
    """The nodes of a flavour."""

    node_labels: dict[str, str] | None = None


class KueueFlavor(ObjectPart, frozen=True):
    """A kind of node."""

    metadata: Meta = Meta()
    spec: FlavorSpec = FlavorSpec()

"""The fields of the objects of queueing systems that are needed: Kueue, and the gangs of Volcano and KAI."""

from __future__ import annotations

from .fields import Condition, Meta, Part
from .objects import PodSpec


class Template(Part, frozen=True):
    """What the pods of a set will be."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()


class PodSet(Part, frozen=True):
    """Pods of a workload that are alike."""

    count: int = 1
    template: Template = Template()


class WorkloadSpec(Part, frozen=True):
    """What a workload asks for."""

    pod_sets: list[PodSet] | None = None
    queue_name: str = ""
    priority: int | None = None
    active: bool | None = None
    maximum_execution_time_seconds: float | None = None


class Admission(Part, frozen=True):
    """Where a workload was let in."""

    cluster_queue: str = ""


class WorkloadStatus(Part, frozen=True):
    """How a workload fares."""

    admission: Admission | None = None
    conditions: list[Condition] | None = None


class Workload(Part, frozen=True):
    """What Kueue queues: a job before it has pods."""

    metadata: Meta = Meta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class LocalQueueSpec(Part, frozen=True):
    """Which queue of the cluster a queue of a namespace stands for."""

    cluster_queue: str = ""


class LocalQueue(Part, frozen=True):
    """A queue of a namespace."""

    metadata: Meta = Meta()
    spec: LocalQueueSpec = LocalQueueSpec()


class Quota(Part, frozen=True):
    """How much of a resource a queue may use."""

    name: str = ""
    nominal_quota: str | int | float = "0"


class FlavorQuotas(Part, frozen=True):
    """The quotas of one flavour."""

    name: str = ""
    resources: list[Quota] | None = None


class ResourceGroup(Part, frozen=True):
    """Flavours that stand for one another."""

    flavors: list[FlavorQuotas] | None = None


class ClusterQueueSpec(Part, frozen=True):
    """What a queue may use."""

    resource_groups: list[ResourceGroup] | None = None
    cohort_name: str = ""
    cohort: str = ""


class ClusterQueue(Part, frozen=True):
    """A queue of the cluster."""

    metadata: Meta = Meta()
    spec: ClusterQueueSpec = ClusterQueueSpec()


class FlavorSpec(Part, frozen=True):
    """The nodes of a flavour."""

    node_labels: dict[str, str] | None = None


class Flavor(Part, frozen=True):
    """A kind of node."""

    metadata: Meta = Meta()
    spec: FlavorSpec = FlavorSpec()


class PodGroupSpec(Part, frozen=True):
    """What a gang asks for."""

    queue: str = ""


class PodGroup(Part, frozen=True):
    """A gang of Volcano or KAI."""

    metadata: Meta = Meta()
    spec: PodGroupSpec = PodGroupSpec()

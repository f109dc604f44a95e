"""The fields of pods, nodes and batch jobs that are needed, and no others: the rest is skipped while it is read."""

from __future__ import annotations

import msgspec

from .fields import Amounts, Condition, Meta, ObjectPart


class Resources(ObjectPart, frozen=True):
    """What a container asks for, and how much it may use."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class Container(ObjectPart, frozen=True):
    """A container of a pod."""

    name: str = ""
    resources: Resources | None = None
    image: str = ""
    restart_policy: str | None = None
    tty: bool = False


class Requirement(ObjectPart, frozen=True):
    """What a label has to meet."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(ObjectPart, frozen=True):
    """Requirements that have to be met together."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class SelectorTerms(ObjectPart, frozen=True):
    """Terms of which one has to be met."""

    node_selector_terms: list[Term] | None = None


class NodeAffinity(ObjectPart, frozen=True):
    """Which nodes a pod may use."""

    required: SelectorTerms | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Selector(ObjectPart, frozen=True):
    """Which objects are meant, by their labels."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class PodTerm(ObjectPart, frozen=True):
    """Pods beside which, or not beside which, a pod is to be, and what counts as beside."""

    label_selector: Selector | None = None
    namespaces: list[str] | None = None
    namespace_selector: Selector | None = None
    topology_key: str = ""


class PodAffinity(ObjectPart, frozen=True):
    """Which other pods a pod is bound to; what it would only like is left out."""

    required: list[PodTerm] | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Affinity(ObjectPart, frozen=True):
    """Where a pod is to be."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(ObjectPart, frozen=True):
    """How evenly pods have to be spread."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: Selector | None = None
    match_label_keys: list[str] | None = None


class ClaimOfPod(ObjectPart, frozen=True):
    """Devices that a pod asks for by a claim (DRA)."""

    name: str = ""
    resource_claim_name: str | None = None


class Toleration(ObjectPart, frozen=True):
    """A taint that does not keep a pod away."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SchedulingGate(ObjectPart, frozen=True):
    """Something that has to be opened before a pod is scheduled."""

    name: str = ""


class Gang(ObjectPart, frozen=True):
    """The gang of a pod, from Kubernetes 1.36 on."""

    pod_group_name: str | None = None


class PodSpec(ObjectPart, frozen=True):
    """What a pod asks for."""

    node_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Amounts | None = None
    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: Gang | None = None
    topology_spread_constraints: list[Spread] | None = None
    resource_claims: list[ClaimOfPod] | None = None
    active_deadline_seconds: float | None = None
    restart_policy: str = "Always"


class Terminated(ObjectPart, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    finished_at: str | None = None


class Waiting(ObjectPart, frozen=True):
    """Why a container has not begun."""

    reason: str = ""


class ContainerState(ObjectPart, frozen=True):
    """What a container does."""

    terminated: Terminated | None = None
    waiting: Waiting | None = None


class ContainerStatus(ObjectPart, frozen=True):
    """How a container fares."""

    restart_count: int = 0
    state: ContainerState | None = None


class PodStatus(ObjectPart, frozen=True):
    """How a pod fares."""

    phase: str = ""
    reason: str = ""
    conditions: list[Condition] | None = None
    start_time: str | None = None
    nominated_node_name: str = ""
    container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[ClaimOfPod] | None = None


class Pod(ObjectPart, frozen=True):
    """A pod."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(ObjectPart, frozen=True):
    """What keeps pods away from a node that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(ObjectPart, frozen=True):
    """What an administrator has set on a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(ObjectPart, frozen=True):
    """What a node has, and how it fares."""

    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None


class NodeObject(ObjectPart, frozen=True):
    """A node."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ExitCodes(ObjectPart, frozen=True):
    """Which exit codes a rule is about."""

    operator: str = "In"
    values: list[int] | None = None


class FailureRule(ObjectPart, frozen=True):
    """What a batch job does when one of its pods fails in a certain way."""

    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: list[Condition] | None = None


class FailurePolicy(ObjectPart, frozen=True):
    """Rules of which the first that a failed pod meets counts."""

    rules: list[FailureRule] | None = None


class BatchSpec(ObjectPart, frozen=True):
    """What a batch job asks for."""

    suspend: bool | None = None
    active_deadline_seconds: float | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: FailurePolicy | None = None


class BatchStatus(ObjectPart, frozen=True):
    """How a batch job fares."""

    failed: int | None = None
    conditions: list[Condition] | None = None
    start_time: str | None = None
    completion_time: str | None = None


class BatchJob(ObjectPart, frozen=True):
    """A job of the group batch."""

    metadata: Meta = Meta()
    spec: BatchSpec = BatchSpec()
    status: BatchStatus = BatchStatus()

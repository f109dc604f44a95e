"""The facts that idlewatt passes from room to room: frozen, typed, with their units.

Times are seconds since the epoch (UTC, float), power is watts, energy joules, memory bytes, ratios 0..1.
*Unmeasured* is ``None``, never 0: a reader that does not know says so, and nobody adds it up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from .details import Details
from .gpu_parts import GpuPart
from .owners import Holder, OwnerKind, SourceName
from .power_classes import PowerClass
from .rules import Amounts, SchedulerRules
from .steering import Steering
from .waiting import StrandedCause as StrandedCause
from .waiting import WaitReason


class NodeState(StrEnum):
    """What the scheduler says of a node, folded to what matters for power and placement."""

    UP = "up"
    PLANNED = "planned"
    """Up and free, but held by the scheduler's own plan for a known job."""
    DRAINING = "draining"
    """Running its last jobs, taking no new ones."""
    DRAINED = "drained"
    RESERVED = "reserved"
    MAINTENANCE = "maintenance"
    DOWN = "down"
    POWERED_DOWN = "powered_down"
    POWERING_UP = "powering_up"
    UNKNOWN = "unknown"

    @property
    def schedulable(self) -> bool:
        """Tell whether new jobs may start here now."""
        return self in (NodeState.UP, NodeState.PLANNED)

    @property
    def unavailable(self) -> bool:
        """Tell whether the node's power is no matter of scheduling (repair, maintenance, off)."""
        return self in (NodeState.DRAINED, NodeState.MAINTENANCE, NodeState.DOWN, NodeState.POWERED_DOWN,
                        NodeState.POWERING_UP, NodeState.UNKNOWN)


class JobState(StrEnum):
    """What has become of a job; each source translates its scheduler's own states and flags."""

    PENDING = "pending"
    RUNNING = "running"
    """It holds resources, be it only while its nodes or containers are made ready."""
    SUSPENDED = "suspended"
    COMPLETING = "completing"
    """It has ended and still holds resources while it is cleaned up."""
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    TIMEOUT = "timeout"
    """Ended by its time limit."""
    NODE_FAILED = "node_failed"
    PREEMPTED = "preempted"
    """Another job took its place, or it was put back into the queue."""
    START_FAILED = "start_failed"
    """Its nodes could not be made ready."""
    DEADLINE = "deadline"
    """Ended as it could not be done in time."""
    OUT_OF_MEMORY = "out_of_memory"
    UNKNOWN = "unknown"

    @property
    def active(self) -> bool:
        """Tell whether the job holds resources."""
        return self in (JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING)

    @property
    def finished(self) -> bool:
        """Tell whether the job will never run again under this submission."""
        return not self.active and self not in (JobState.PENDING, JobState.UNKNOWN)


Islands = tuple[tuple[int, ...], ...]
"""GPUs of a node by NVLink, NVSwitch or NUMA domain."""


@dataclass(frozen=True, slots=True)
class Node:
    """A server as the scheduler knows it: what it has, what of it is taken, whether it may be used."""

    name: str
    partitions: tuple[str, ...]
    gpus: int
    """Number of GPUs the scheduler may hand out."""
    gpu_model: str = ""
    """The scheduler's type name (``a100``), '' when it names none."""
    cpus: int = 0
    """Schedulable CPUs; hardware threads where the scheduler counts them."""
    memory_bytes: int = 0  # what it may hand out, 0 where unknown
    state: NodeState = NodeState.UP
    features: tuple[str, ...] = ()
    cpus_allocated: int = 0
    memory_allocated_bytes: int = 0
    gpus_allocated: int = 0
    gpu_indexes_allocated: tuple[int, ...] | None = None
    """Scheduler indexes of the GPUs in use; None where the scheduler does not say."""
    reservation: str = ""
    """Name of an active reservation that covers the node."""
    reason: str = ""
    """The administrator's words on why it is not up."""
    leaf: str = ""
    """Leaf switch, or the NVLink domain where the node is in one: what is closest; '' when the topology is unknown."""
    spine: str = ""
    """The switch above that."""
    above: tuple[str, ...] = ()
    """The switches above these two, the closest first, in trees that are deeper."""
    domain: str = ""
    """NVLink domain across nodes (an NVL72 rack), '' where there is none."""
    islands: Islands = ()
    """Scheduler indexes of GPUs that reach each other fastest, each once; () where nobody tells."""
    threads_per_core: int = 1
    """CPUs are handed out in multiples of it."""
    sockets: int = 0  # 0 where unknown
    owner: str = ""
    """The user whose jobs alone may use the node."""
    wakes: bool = False
    """Powered down or waking, and the scheduler starts jobs on it as soon as it is up."""
    slices: tuple[tuple[str, int, int], ...] = ()
    """Parts of GPUs by the scheduler's name of the resource: how many there are, how many are taken."""
    vacant: bool | None = None
    """Whether nothing but what runs on every node is there; None where amounts tell."""
    gpus_bound: bool = True
    """Whether each GPU goes with the cores of a socket; False where the scheduler shows that it knows none."""
    gpu_models: tuple[str, ...] = ()  # all types of its GPUs, where it has several

    @property
    def maintained(self) -> bool:
        """Tell whether nothing but a maintenance reservation keeps new jobs off; a drained node has a reason."""
        # One on which jobs still run counts as draining.
        return bool(self.reservation and not self.reason) and self.state in (NodeState.MAINTENANCE, NodeState.DRAINING)


@dataclass(frozen=True, slots=True)
class Partition:
    """A queue of the scheduler and the nodes that serve it."""

    name: str
    nodes: tuple[str, ...]
    max_time_s: float | None = None
    default: bool = False
    up: bool = True  # jobs that wait in it may start
    priority_tier: int = 1
    priority_factor: int = 1
    """What its jobs' priority gains, in relation to that of other partitions."""
    least_nodes: int = 0
    most_nodes: int | None = None
    most_cpus_per_node: int | None = None
    accounts: tuple[str, ...] = ()
    """Accounts that may use it; () for all."""
    accounts_denied: tuple[str, ...] = ()
    qos_allowed: tuple[str, ...] = ()
    qos_denied: tuple[str, ...] = ()
    qos: str = ""
    """The quality of service whose ceilings bind all its jobs."""
    preempt_mode: tuple[str, ...] = ()  # how its jobs are preempted, upper case; () as the cluster says
    reservation_required: bool = False
    exclusive: bool = False  # its jobs get whole nodes, whatever they ask for
    memory_per_gpu_bytes: int = 0
    """What a job that says nothing of memory gets with each GPU."""
    cpus_per_gpu: int = 0
    draining: bool = False  # it takes no new jobs
    billing_weights: Amounts | None = None
    """What a job is charged for a unit of each resource (of memory, a byte); () where its CPUs count, None unknown."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for, over all its nodes unless the name says otherwise."""

    gpus: int
    nodes: int = 1
    """Nodes requested; 1 when the scheduler may choose and one suffices."""
    gpus_per_node: int | None = None
    """None: the scheduler may split the GPUs as it likes."""
    cpus: int = 0
    memory_bytes: int = 0
    gpu_model: str = ""
    features: str = ""
    """The constraint expression as given, e.g. ``a100&nvswitch``."""
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    reservation: str = ""
    exclusive: bool = False
    details: Details = Details()


@dataclass(frozen=True, slots=True)
class Allocation:
    """The part of one node that a job holds."""

    node: str
    gpus: int
    gpu_indexes: tuple[int, ...] | None = None
    """Scheduler indexes; None when the source does not tell (accounting never does)."""
    cpus: int = 0
    memory_bytes: int = 0
    members: tuple[str, ...] = ()
    """How exporters name the parts of the job that hold its GPUs here, where that is not ``Job.job_id``: its pods."""
    gpu_uuids: tuple[str, ...] = ()
    """The vendor's ids of its GPUs, or of their instances, where the scheduler hands out devices by name."""
    parts: tuple[GpuPart, ...] = ()
    """Parts of GPUs, which ``gpus`` does not count where the scheduler hands them out as such."""


@dataclass(frozen=True, slots=True)
class Job:
    """One submission to the scheduler, at one moment.

    A submission is identified by ``(job_id, submit_s)``: job ids are reused. Some schedulers give a requeued job a new
    submit time, so that it is a new submission; others keep the time, and ``start_s`` tells each run.
    """

    job_id: str
    """As users know it: ``123``, ``123_4`` (array task), ``123+1`` (heterogeneous component), ``team/name``."""
    submit_s: float
    state: JobState
    partition: str
    request: Request
    user: str = ""
    account: str = ""
    """What is charged for it: an account, a project, a namespace."""
    name: str = ""
    qos: str = ""
    reason: WaitReason = WaitReason.NONE
    """Why it is pending."""
    reason_text: str = ""
    """The scheduler's own word for that, or for how it ended; only ever shown."""
    eligible_s: float | None = None
    """Since when (or from when on) it may start."""
    start_s: float | None = None
    """Start of the present or last run; None while it has not run. Never the scheduler's forecast."""
    end_s: float | None = None
    """End of the last run; None until it has ended. Never the limit."""
    limit_s: float | None = None
    """Requested time limit; None when unlimited."""
    expected_start_s: float | None = None
    """The scheduler's own forecast for a pending job."""
    scheduled_nodes: tuple[str, ...] = ()
    """Nodes the scheduler's own backfill plans for it."""
    priority: float | None = None
    nice: int | None = None
    """What is taken off its priority at its user's or an operator's wish; None where the scheduler does not tell."""
    dependency: str = ""
    restarts: int = 0
    exit_code: int | None = None
    tasks: int = 1
    """How many identical pending array tasks this record stands for."""
    raw_id: int | None = None
    """The scheduler's internal number, where it differs from ``job_id``."""
    allocations: tuple[Allocation, ...] = ()
    deadline_s: float | None = None
    """It must have ended by then."""
    least_limit_s: float | None = None
    """The scheduler may shorten its limit down to this."""
    array: str = ""
    """Id of the array it is a task of."""
    array_limit: int | None = None
    """Tasks of the array that may run at once."""
    group: str = ""
    """Id of the heterogeneous job it is a component of: all start together."""
    cpu_seconds: float | None = None
    """CPU time that the last run used; of accounts only, and None where they do not measure it."""
    owner_kind: OwnerKind = OwnerKind.BATCH
    owner: str = ""
    """The object that it belongs to, as its owner would name it to the scheduler's commands: ``Deployment/llm``."""
    steering: Steering | None = None
    """The objects that steer where it runs, where its scheduler has such; never recorded."""
    flavour: str | None = None
    """The named request that it is of; '' when none allows it, None when that is not known yet."""
    image: str = ""
    """Container image that it runs, without registry passwords and digest; '' where nobody tells, as the next two."""
    framework: str = ""
    cuda: str = ""
    """Version of CUDA, as 12.1."""
    source: SourceName = ""
    """Name of the source that lists it, where several schedulers are read; recorded, in no answer."""

    @property
    def holder(self) -> Holder:
        """Return the user and account in whose name it holds resources."""
        return Holder(self.user, self.account)

    @property
    def key(self) -> tuple[str, float]:
        """Return what identifies the submission."""
        return self.job_id, self.submit_s

    def with_unknown(self, facts: Iterable[str]) -> Job:
        """Return the job with facts that decide about its start and are not known."""
        details = replace(self.request.details, unknown=(*self.request.details.unknown, *facts))
        return replace(self, request=replace(self.request, details=details))


@dataclass(frozen=True, slots=True)
class SchedulerSnapshot:
    """What one read of a scheduler gave: all nodes and partitions, pending, running and recently finished jobs."""

    time_s: float
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    jobs: tuple[Job, ...] = ()
    rules: SchedulerRules = SchedulerRules()  # what the scheduler enforces beside free resources
    whole: bool = True  # False where a configured scheduler is missing: what is not in it may be there


@dataclass(frozen=True, slots=True)
class IdleFloor:
    """Watts that a GPU draws doing nothing, and how we know."""

    watts: float
    source: str
    """``learned``, ``configured`` or ``catalogue``."""
    samples: int = 0
    updated_s: float | None = None


@dataclass(frozen=True, slots=True)
class GpuRollup:
    """Five minutes (or coarser) of one GPU."""

    start_s: float
    seconds: float
    """Length of the window."""
    node: str
    uuid: str
    index: int
    measured_seconds: float
    """Time within the window that was really observed; the rest is unmeasured."""
    energy_joules: float | None = None
    activity_mean: float | None = None
    activity_max: float | None = None
    power_mean_watts: float | None = None
    power_max_watts: float | None = None
    allocated_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WasteReading:
    """Energy of one class over one window: of a whole partition, or of one node's part in it where ``node`` is set."""

    start_s: float
    seconds: float
    partition: str
    power_class: PowerClass
    energy_joules: float
    node: str = ""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of a trained agent: enough to trust it, or not."""

    name: str
    version: str
    trained_s: float
    seed: int
    code_version: str
    schema_hash: str
    """Digest of the feature schema: a mismatch means the weights do not fit the code."""
    weights_digest: str
    """SHA-256 of the safetensors file."""
    history_from_s: float | None = None
    history_until_s: float | None = None
    """The weights tell both as well: a card that was changed afterwards is refused."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Held-out results by name, intervals as ``name_low`` and ``name_high``."""
    kind: str = ""
    """Which kind of agent it is, by the name that the kind registered."""
    source: str = ""
    """What it was trained on, in words: a trace, or a history and its span."""
    seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Range of each input in training, by name; outside of it the agent's word is not taken."""
    known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that it may meet, as ``partition`` and ``gpu_model``; what is not listed here it takes as it comes."""
    curve: tuple[tuple[float, float], ...] = ()
    """Held-out score by the share of the budget spent, as ``agents.kinds.Progress`` had them."""
    speeds: str = ""
    """The source of how fast jobs run wherever they are placed, in training: origin and digest; '' without one."""
    objective: str = ""
    """What it is after, by the names of the weights that it was chosen by: ``utilization+jct_mean``; '' unknown."""
    incumbent: str = ""
    """Whose order it was compared with when it was judged last; '' unknown."""

    @property
    def model(self) -> str:
        """Return how the agent is called everywhere: ``kind@version``."""
        return f"{self.kind or self.name}@{self.version}"

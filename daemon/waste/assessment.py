"""What one cycle of accounting found: frozen, by GPU, by node and in sum. Watts, seconds, joules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...storage.power_classes import WASTED, PowerClass
from ...storage.records import IdleFloor, Job, NodeState, StrandedCause

NO_PARTITION = "(none)"
"""Where nodes go that belong to no partition, or that the scheduler does not know."""

HeldRun = tuple[str, float, float | None]
"""Id, submission and start of a run: ids alone may be those of several jobs."""
ClassWatts = dict[PowerClass, float]

CLASSES = tuple(PowerClass)
COLUMN = {power_class: column for column, power_class in enumerate(CLASSES)}
"""The place of each class in a row of watts."""


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """One GPU in one cycle: which job holds it, what it does, where its watts go."""

    node: str
    index: int
    uuid: str
    """'' for a GPU that the scheduler has and telemetry does not."""
    model: str
    partition: str
    state: PowerClass
    watts: float | None
    """None: unmeasured; whatever it draws is then part of the host's."""
    wasted_watts: float = 0.0
    power_source: str = ""
    """``energy_counter`` (rate of the GPU's own counter) or ``power`` (a sampled gauge)."""
    activity: float | None = None
    activity_source: str = ""
    job_id: str = ""
    user: str = ""
    account: str = ""
    allocated: bool = False
    guessed: bool = False
    """The scheduler did not tell which GPUs of the node the job holds; this one was chosen, consistently."""
    floor: IdleFloor | None = None
    """Draw without work: with a context when allocated, bare when free."""
    cause: StrandedCause | None = None
    """Why it is stranded."""
    since_s: float | None = None
    """Since when it has been busy although nobody holds it, or idle or hung in the hands of a job."""
    run: HeldRun | None = None
    """The run that holds it."""

    @property
    def in_use(self) -> bool:
        """Tell whether a job holds it and it is in service."""
        return self.allocated and self.state is not PowerClass.UNAVAILABLE

    def shares(self) -> Iterator[tuple[PowerClass, float]]:
        """Yield the classes its watts go to: one, or underused and productive."""
        if self.watts is None:
            return
        if self.state in (PowerClass.ALLOCATED_UNDERUSED, PowerClass.PRODUCTIVE):
            yield PowerClass.ALLOCATED_UNDERUSED, self.wasted_watts
            yield PowerClass.PRODUCTIVE, self.watts - self.wasted_watts
        else:
            yield self.state, self.watts


def run_of(job: Job) -> HeldRun:
    """Return what identifies the present or last run of a job."""
    return *job.key, job.start_s


def gpus_by_run(verdicts: Iterable[GpuVerdict]) -> dict[HeldRun, list[GpuVerdict]]:
    """Return the GPUs that jobs hold by the run that holds them."""
    gpus: dict[HeldRun, list[GpuVerdict]] = {}
    for gpu in verdicts:
        if gpu.run is not None:
            gpus.setdefault(gpu.run, []).append(gpu)
    return gpus


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One server in one cycle."""

    node: str
    partition: str
    """The partition that its host watts are booked to."""
    state: NodeState | None
    """None: the scheduler does not know it."""
    wall_watts: float | None
    """``max(wall meter, sum of gpus)``; None when nothing of it is measured."""
    source: str
    """Where the wall watts come from; ``estimated`` beside the GPUs where no meter answers, ``gpus`` when only the
    GPUs are metered, '' when nothing is."""
    host_class: PowerClass
    host_watts: float
    disagreement_watts: float
    """By how much the GPUs exceed the wall meter, which averages over its own window."""
    gpus: Mapping[str, int]
    """GPUs by state, every one of ``NODE_STATES``."""
    unmeasured_gpus: int = 0
    """GPUs without watts: what they draw is within ``host_watts``, where the node has a meter."""
    unused_share: float = 0.0
    """GPUs that are in service and that nobody uses, as a share of its GPUs."""

    @property
    def metered(self) -> bool:
        """Tell whether a meter of its own stands behind the wall watts."""
        return self.source not in ("", "gpus", "estimated")

    @property
    def host_known(self) -> bool:
        """Tell whether anything is known of what the node draws beside its GPUs."""
        return self.source not in ("", "gpus")

    @property
    def unused_watts(self) -> float | None:
        """Return the part of ``host_watts`` that a busy node draws for GPUs that nobody uses; None where unmeasured.

        The host of any other node is wholly wasted, or wholly apart, so that it has no such part.
        """
        if not self.unused_share or self.host_class not in (PowerClass.HOST_ACTIVE, PowerClass.UNMEASURED):
            return 0.0
        measured = self.host_known and self.host_class is PowerClass.HOST_ACTIVE
        return self.host_watts * self.unused_share if measured else None


@dataclass(frozen=True, slots=True)
class Utilization:
    """Eq. (4) of the GIST AI-X paper for one partition over the sliding window; see ``utilization.py``."""

    limit: float
    """Completed jobs count with their time limit, as the paper has it; above 1 where others run on their GPUs since."""
    actual: float
    """Every job counts with the time it really ran."""
    rated_watts: float | None
    """Rated draw of the partition's available nodes; None when not known for all."""

    def inefficient_watts(self, basis: str) -> float | None:
        """Return rated power x unallocated share: the paper's upper bound, not a measurement.

        Below 0 on basis ``limit`` where U exceeds 1: the formula then says nothing of power.
        """
        return None if self.rated_watts is None else (1.0 - getattr(self, basis)) * self.rated_watts


RACK_PARTS = ("trays", "switches", "loss", "unmeasured")


@dataclass(frozen=True, slots=True)
class EnclosureVerdict:
    """One enclosure at one moment, in watts."""

    name: str
    meter_watts: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """By ``RACK_PARTS``; they add up to the meter, or to the trays where these are more."""
    nodes: Mapping[str, float] = field(default_factory=dict)
    """Each tray with its share of switches and loss; empty where one of them is not measured."""
    disagreement_watts: float = 0.0
    """By how much the trays exceed the meter."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """Every watt of the cluster at one moment, in exactly one class."""

    time_s: float
    gpu_verdicts: tuple[GpuVerdict, ...] = ()
    nodes: tuple[NodeVerdict, ...] = ()
    totals: Mapping[str, ClassWatts] = field(default_factory=dict)
    """Watts by partition and class, every class present."""
    gpus: Mapping[str, Mapping[PowerClass, int]] = field(default_factory=dict)
    """GPUs by partition and state, every one of ``GPU_CLASSES`` present."""
    stranded: Mapping[str, Mapping[StrandedCause, int]] = field(default_factory=dict)
    """Stranded GPUs by partition and cause, every cause present."""
    fragmentation: Mapping[str, float] = field(default_factory=dict)
    """FGD index as share of free GPUs, where there are free GPUs and known demand."""
    utilization: Mapping[str, Utilization] = field(default_factory=dict)
    unaccounted_watts: float = 0.0
    """Wall power less the sum of all classes: 0 unless the accounting is broken."""
    disagreement_watts: float = 0.0
    floors: Mapping[str, IdleFloor] = field(default_factory=dict)
    """Bare floor by GPU model."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Readings not believed since the start, by reason."""
    enclosures: tuple[EnclosureVerdict, ...] = ()
    """Racks with a meter of their own, taken apart."""

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the partitions in order."""
        return tuple(self.totals)

    @property
    def node_gpus(self) -> dict[str, Mapping[str, int]]:
        """Return the GPUs of every node by state."""
        return {verdict.node: verdict.gpus for verdict in self.nodes}

    @property
    def allocated_gpus(self) -> dict[str, int]:
        """Return the GPUs in service that jobs hold by partition, measured or not."""
        counts = Counter(gpu.partition for gpu in self.gpu_verdicts if gpu.in_use)
        return {partition: counts[partition] for partition in self.gpus}

    @property
    def unmeasured_gpus(self) -> dict[str, int]:
        """Return the unmeasured GPUs by partition."""
        return {partition: states[PowerClass.UNMEASURED] for partition, states in self.gpus.items()}

    @property
    def unmeasured_hosts(self) -> dict[str, int]:
        """Return by partition the empty nodes with GPUs whose draw beside these is not known."""
        counts = Counter(node.partition for node in self.nodes
                         if node.host_class is PowerClass.NODE_OVERHEAD_EMPTY and not node.host_known
                         and any(node.gpus.values()))
        return {partition: counts[partition] for partition in self.gpus}

    @property
    def unmeasured_busy_hosts(self) -> dict[str, int]:
        """Return by partition the busy nodes with unused GPUs whose draw beside their GPUs is not known."""
        counts = Counter(node.partition for node in self.nodes
                         if node.host_class is PowerClass.HOST_ACTIVE and node.unused_watts is None)
        return {partition: counts[partition] for partition in self.gpus}

    @property
    def unused_overhead_watts(self) -> dict[str, float | None]:
        """Return the unused part of busy nodes by partition: contained in ``host_active``; None where none is measured.

        A host that runs one of eight GPUs is on for all of them: seven eighths of its watts serve nobody. Added to
        ``node_overhead_empty`` it is what hosts draw for free GPUs, which does not fall when jobs are spread over more
        nodes that are alike.
        """
        sums: dict[str, float | None] = dict.fromkeys(self.totals, 0.0)
        unknown = self.unmeasured_busy_hosts
        for node in self.nodes:
            if node.unused_watts:
                sums[node.partition] = (sums[node.partition] or 0.0) + node.unused_watts
        return {partition: watts or (None if unknown.get(partition) else 0.0) for partition, watts in sums.items()}

    @property
    def wasted_by_node(self) -> dict[str, float | None]:
        """Return the wasted watts of each node, its host's included; None where nothing of its waste is known.

        Of a node that is not wholly measured the waste may be known in part; that it wastes nothing is not known.
        """
        wasted = {node.node: node.host_watts * (node.host_class in WASTED) for node in self.nodes}
        dark = {node.node for node in self.nodes if node.host_class is PowerClass.UNMEASURED}
        for gpu in self.gpu_verdicts:
            wasted[gpu.node] = wasted.get(gpu.node, 0.0) + gpu.wasted_watts
            if gpu.state is PowerClass.UNMEASURED:
                dark.add(gpu.node)
        return {node: watts if watts or node not in dark else None for node, watts in wasted.items()}

    @property
    def wall_watts(self) -> float:
        """Return the sum over all nodes of their power, in watts: at the wall where there are meters."""
        return sum(verdict.wall_watts or 0.0 for verdict in self.nodes)

    @property
    def wasted_watts(self) -> float:
        """Return the headline: all watts that do no work."""
        return sum(watts[reason] for watts in self.totals.values() for reason in WASTED)

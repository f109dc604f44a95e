"""The judge of one node: where the watts of each of its GPUs go, free or held by a job, and the rest of its power."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...storage.power_classes import ALLOCATED, NODE_STATES, PowerClass
from ...storage.records import IdleFloor, Job, Node, NodeState, StrandedCause
from ...storage.telemetry import NO_DETAIL, GpuDetail, NodeReading
from ..settings.waste import WasteSettings
from .assessment import NO_PARTITION, GpuVerdict, run_of
from .hardware import FloorBook
from .holders import GpuHolder, GpuSlot
from .readings import WatchedGpu

UNIT_WORKS = 0.001
"""Activity of a computing unit or of the memory from which kernels do something: waiting ones show 0.00001 or less."""
LINK_WORKS = 100e6
"""Bytes per second over PCIe or NVLink from which something is moved: an idle GPU shows 1 MB/s."""


@dataclass(frozen=True, slots=True)
class Wall:
    """Watts of a whole node and where they come from."""

    watts: float | None
    source: str
    disagreement_watts: float = 0.0
    silent: bool = False
    """The meter has fallen silent: what the node draws beside its GPUs is what it drew then."""


def wall(reading: NodeReading | None, gpus_watts: float | None, overhead_watts: float | None,
         lost_watts: float | None = None) -> Wall:
    """Return ``P* = max(P, sum of gpus)`` of a node.

    Args:
        reading: the wall meter, None when there is none fresh.
        gpus_watts: sum over measured GPUs, None when none is measured.
        overhead_watts: configured draw beside the GPUs, for nodes without a meter.
        lost_watts: last draw beside the GPUs of a meter that has fallen silent, None once that is too long ago.
    """
    metered = reading.power_watts if reading is not None else None
    if reading is not None and metered is not None and not (metered == 0.0 and gpus_watts):
        # A service processor that says 0 W while GPUs draw power is not measuring.
        gpus = gpus_watts or 0.0
        return Wall(max(metered, gpus), reading.power_source, max(0.0, gpus - metered))
    if lost_watts is not None:
        return Wall((gpus_watts or 0.0) + lost_watts, "estimated", silent=True)
    if gpus_watts is None:
        return Wall(None, "")
    if overhead_watts is None:
        return Wall(gpus_watts, "gpus")
    return Wall(gpus_watts + overhead_watts, "estimated")


def allocated_class(watts: float, activity: float, floor: float | None, *, quiet: bool, hung: bool,
                    settings: WasteSettings) -> tuple[PowerClass, float]:
    """Return the state of an allocated GPU and how many of its watts are wasted.

    An underused GPU wastes the part of its *floor* that bought no work, ``min(p, c) * (1 - u)``; what it draws above
    the floor is credited to the job. A quiet or hung GPU could have been released, so it wastes all it draws.
    Without a known floor nothing is blamed on the job.

    Args:
        watts: draw of the GPU, p.
        activity: share of time it worked, u.
        floor: draw with a context and no work, c.
        quiet: it did nothing throughout the trailing window.
        hung: it was busy at idle draw throughout the trailing window.
        settings: the thresholds.
    """
    if quiet:
        return PowerClass.ALLOCATED_IDLE, watts
    if hung:
        return PowerClass.ALLOCATED_HUNG, watts
    wasted = min(watts, floor) * (1.0 - activity) if floor is not None else 0.0
    if activity >= settings.productive_activity:
        return PowerClass.PRODUCTIVE, wasted
    return PowerClass.ALLOCATED_UNDERUSED, wasted


def free_class(watts: float, *, planned: bool, stranded: bool, outside: bool = False) -> tuple[PowerClass, float]:
    """Return the state of a free GPU of an up node and how many of its watts are wasted."""
    if outside:
        return PowerClass.OUTSIDE_SCHEDULER, 0.0
    if planned:
        return PowerClass.PLANNED, 0.0
    return (PowerClass.STRANDED if stranded else PowerClass.IDLE_UNALLOCATED), watts


def does_nothing(activity: float, busy: float | None, settings: WasteSettings) -> bool:
    """Tell whether a GPU does nothing: neither do its SMs work, nor is there a kernel for more than that time.

    Kernels of one block keep one SM of more than a hundred active, however long they run.
    """
    return activity <= settings.epsilon and (busy is None or busy <= settings.epsilon)


def does_something(detail: GpuDetail) -> bool:
    """Tell whether any unit that is measured computes or moves bytes."""
    units = (detail.tensor_active, detail.fp32_active, detail.fp64_active, detail.dram_active)
    links = (detail.pcie_bytes_per_s, detail.nvlink_bytes_per_s)
    return (any(activity is not None and activity >= UNIT_WORKS for activity in units)
            or any(activity is not None and activity >= LINK_WORKS for activity in links))


def looks_hung(watts: float, busy: float | None, floor: float | None, limit: float | None,
               settings: WasteSettings, detail: GpuDetail = NO_DETAIL) -> bool:
    """Tell whether a GPU is busy at idle draw: ``u >= 0.95`` and ``p <= c + 0.1 (L - c)``, and no unit does anything.

    Where its units are not measured, a live job bound by kernel launches can look the same; show it as suspected.
    """
    if does_something(detail):
        return False
    if busy is None or floor is None or limit is None or limit <= floor:
        return False
    return busy >= settings.hung_activity and watts <= floor + settings.hung_margin * (limit - floor)


def at_work(gpu: WatchedGpu, context_watts: float | None, limit_watts: float | None, settings: WasteSettings) -> bool:
    """Tell whether a GPU works: by its activity, else by watts well above those of an idle context."""
    if gpu.activity is not None or gpu.busy is not None:
        return (gpu.activity or 0.0) > settings.epsilon or (gpu.busy or 0.0) >= settings.hung_activity
    if gpu.watts is None or context_watts is None or limit_watts is None:
        return False
    return gpu.watts > context_watts + settings.hung_margin * max(0.0, limit_watts - context_watts)


@dataclass(frozen=True, slots=True)
class NodeJudge:
    """What is the same for all GPUs of a node."""

    settings: WasteSettings
    floors: FloorBook
    node: Node | None
    """None: telemetry knows it, the scheduler does not; nobody can tell what is allocated."""
    home: str
    """The partition of free GPUs."""
    cause: StrandedCause | None
    unavailable: bool
    longest_s: float
    scheduler_read_s: float
    """When the scheduler gave the answer that says which job holds what."""
    doubtful: bool
    """A job may be on another GPU of the node than the one that was guessed for it."""

    def missing(self, name: str, slot: GpuSlot, holder: GpuHolder | None) -> GpuVerdict:
        """Return the verdict on a GPU without a fresh reading."""
        return self._verdict(name, slot, holder,
                             PowerClass.UNAVAILABLE if self.unavailable else PowerClass.UNMEASURED)

    def gpu_verdict(self, name: str, slot: GpuSlot, gpu: WatchedGpu, holder: GpuHolder | None,
                    limit: float | None) -> GpuVerdict:
        """Return the verdict on a GPU with a fresh reading, and learn from it."""
        reading = gpu.reading
        floor = (self.floors.bare if holder is None else self.floors.context)(reading.uuid, reading.model)
        self._notice(gpu, holder, floor, limit)
        self._watch(gpu, holder, limit)
        state, wasted = self._judge(gpu, holder, floor)
        return self._verdict(name, slot, holder, state, gpu, wasted, floor)

    def _judge(self, gpu: WatchedGpu, holder: GpuHolder | None, floor: IdleFloor | None) -> tuple[PowerClass, float]:
        """Return state and wasted watts: the first class whose condition is met."""
        if self.unavailable:
            return PowerClass.UNAVAILABLE, 0.0
        if self.node is None or gpu.watts is None or (holder is not None and gpu.activity is None):
            return PowerClass.UNMEASURED, 0.0
        if holder is None:
            if self.node.state is NodeState.DRAINING:
                return PowerClass.UNAVAILABLE, 0.0
            since_s = gpu.unheld.since_s
            outside = not self.doubtful and gpu.unheld.lasts(self.scheduler_read_s, self.settings.outside_after)
            # Busy for less than that, a job is just starting or ending there: nothing that anybody wastes.
            planned = since_s is not None or self.node.state in (NodeState.PLANNED, NodeState.RESERVED)
            return free_class(gpu.watts, stranded=self.cause is not None, planned=planned, outside=outside)
        assert gpu.activity is not None
        window = self.settings.window
        return allocated_class(gpu.watts, gpu.activity, floor.watts if floor is not None else None,
                               quiet=does_nothing(gpu.activity, gpu.busy, self.settings)
                               and gpu.trail.quiet_for(window),
                               hung=gpu.trail.hung_for(window), settings=self.settings)

    def _watch(self, gpu: WatchedGpu, holder: GpuHolder | None, limit: float | None) -> None:
        """Note since when a GPU works that nobody holds."""
        if holder is not None or self.node is None:
            gpu.unheld.end()
            return
        measured = gpu.activity is not None or gpu.busy is not None
        context = None if measured else self.floors.context(gpu.reading.uuid, gpu.reading.model)
        busy = at_work(gpu, context.watts if context is not None else None, limit, self.settings)
        patience_s = max(self.settings.outside_after, self.longest_s)
        gpu.unheld.observe(gpu.reading.time_s, self.scheduler_read_s, busy=busy, patience_s=patience_s)

    def _notice(self, gpu: WatchedGpu, holder: GpuHolder | None, floor: IdleFloor | None, limit: float | None) -> None:
        """Let a new sample lengthen or break the trailing window and teach the floors, once."""
        if not gpu.new or gpu.watts is None:
            return
        gpu.new = False
        # Of a node that the scheduler does not know nobody can say that its GPUs are free.
        self.floors.learn(gpu.reading, gpu.watts, allocated=holder is not None or self.node is None)
        if holder is None or gpu.activity is None:
            return
        job, time_s = holder.job, gpu.reading.time_s
        nothing = does_nothing(gpu.activity, gpu.busy, self.settings)
        hung = looks_hung(gpu.watts, gpu.busy, floor.watts if floor is not None else None, limit,
                                 self.settings, gpu.reading.detail)
        gpu.trail.observe(time_s, (*job.key, job.start_s) if job is not None else "unknown", hung=hung,
                          quiet=nothing and time_s >= self._grace_ends(job), longest_s=self.longest_s,
                          worked=not nothing)

    def _grace_ends(self, job: Job | None) -> float:
        if job is None or job.start_s is None:
            return 0.0
        interactive = job.partition in self.settings.interactive_partitions
        return job.start_s + (self.settings.grace_interactive if interactive else self.settings.grace_batch)

    def _verdict(self, name: str, slot: GpuSlot, holder: GpuHolder | None, state: PowerClass,
                 fresh: WatchedGpu | None = None,
                 wasted: float = 0.0, floor: IdleFloor | None = None) -> GpuVerdict:
        job = holder.job if holder is not None else None
        known = slot.gpu.reading if slot.gpu is not None else None
        return GpuVerdict(
            node=name, index=slot.index, state=state, wasted_watts=wasted, floor=floor,
            uuid=known.uuid if known is not None else "", model=known.model if known is not None else "",
            watts=fresh.watts if fresh is not None else None,
            power_source=fresh.power_source if fresh is not None else "",
            activity=fresh.activity if fresh is not None else None,
            activity_source=fresh.reading.activity_source if fresh is not None else "",
            partition=job.partition if job is not None else self.home,
            job_id=job.job_id if job is not None else "", user=job.user if job is not None else "",
            account=job.account if job is not None else "", run=run_of(job) if job is not None else None,
            allocated=holder is not None,
            guessed=holder is not None and holder.guessed, cause=self.cause if state is PowerClass.STRANDED else None,
            since_s=None if fresh is None else fresh.unheld.since_s if holder is None else fresh.trail.since_s)

    @property
    def off(self) -> bool:
        """Tell whether the scheduler has switched the node off, and may be switching it on again."""
        return self.node is not None and self.node.state in (NodeState.POWERED_DOWN, NodeState.POWERING_UP)

    def host_class(self, verdicts: Sequence[GpuVerdict], *, silent: bool) -> PowerClass:
        """Return the class of the node's watts that belong to no measured GPU; ``silent`` is a meter that was lost.

        What a GPU draws that is not measured is among them, so that nobody can say what they do.
        """
        if self.unavailable:
            return PowerClass.UNAVAILABLE
        if self.node is None or silent or any(verdict.watts is None for verdict in verdicts):
            return PowerClass.UNMEASURED
        # A server without GPUs is no empty GPU server: its CPUs tell whether it works.
        busy = (any(verdict.allocated or verdict.since_s is not None for verdict in verdicts) if verdicts
                else self.node.cpus_allocated > 0 and self.node.vacant is not True)
        return PowerClass.HOST_ACTIVE if busy else PowerClass.NODE_OVERHEAD_EMPTY


def is_unavailable(node: Node | None, taken: Mapping[int, GpuHolder]) -> bool:
    """Tell whether the whole node is out of scheduling; draining, it is as soon as its last job has gone."""
    return node is not None and (node.state.unavailable or (node.state is NodeState.DRAINING and not taken))


def home_partition(node: Node | None, defaults: set[str]) -> str:
    """Return the one partition that free GPUs are booked to: the cluster's default, else the first by name."""
    partitions = node.partitions if node is not None else ()
    return min(partitions, key=lambda name: (name not in defaults, name), default=NO_PARTITION)


def host_partition(verdicts: Sequence[GpuVerdict], home: str) -> str:
    """Return the partition that holds most GPUs of the node, else its home."""
    counts = Counter(verdict.partition for verdict in verdicts if verdict.allocated)
    return min(counts, key=lambda name: (-counts[name], name), default=home)


def count_states(verdicts: Sequence[GpuVerdict]) -> dict[str, int]:
    """Return a node's GPUs by ``NODE_STATES``."""
    counts = dict.fromkeys(NODE_STATES, 0)
    for verdict in verdicts:
        counts[ALLOCATED if verdict.in_use else verdict.state.node_state] += 1
    return counts


def unused_share(verdicts: Sequence[GpuVerdict]) -> float:
    """Return the share of a node's GPUs that are in service and that nobody uses: a host that is on is on for all.

    They are the GPUs for which an empty node's host is wasted: not held, not busy outside the scheduler, not drained.
    """
    unused = sum(not verdict.allocated and verdict.since_s is None and verdict.state is not PowerClass.UNAVAILABLE
                 for verdict in verdicts)
    return unused / len(verdicts) if verdicts else 0.0


def in_doubt(places: list[GpuSlot], taken: Mapping[int, GpuHolder], settings: WasteSettings) -> bool:
    """Tell whether a job may be on another GPU of the node than the quiet one that was guessed for it."""
    guessed = (places[position].gpu for position, holder in taken.items() if holder.guessed)
    return any(gpu is None or not at_work(gpu, None, None, settings) for gpu in guessed)

"""The judge of one node: the class of each of its GPUs and of what remains of its wall power."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...storage.power_classes import ALLOCATED, NODE_STATES, PowerClass
from ...storage.records import IdleFloor, Job, Node, NodeState, StrandedCause
from ..settings.waste import WasteSettings
from . import gpu_classes
from .assessment import NO_PARTITION, GpuVerdict
from .floors import FloorBook
from .gpu_classes import at_work
from .holders import GpuHolder, GpuSlot
from .readings import WatchedGpu


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
    asked_s: float
    """When the scheduler gave the answer that says who holds what."""
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
            outside = not self.doubtful and gpu.unheld.lasts(self.asked_s, self.settings.outside_after)
            # Busy for less than that, a job is just starting or ending there: nothing that anybody wastes.
            planned = since_s is not None or self.node.state in (NodeState.PLANNED, NodeState.RESERVED)
            return gpu_classes.free(gpu.watts, stranded=self.cause is not None, planned=planned, outside=outside)
        assert gpu.activity is not None
        window = self.settings.window
        return gpu_classes.allocated(gpu.watts, gpu.activity, floor.watts if floor is not None else None,
                                quiet=gpu_classes.does_nothing(gpu.activity, gpu.busy, self.settings)
                                and gpu.trail.quiet_for(window),
                                hung=gpu.trail.hung_for(window), settings=self.settings)

    def _watch(self, gpu: WatchedGpu, holder: GpuHolder | None, limit: float | None) -> None:
        """Note since when a GPU works that nobody holds."""
        if holder is not None or self.node is None:
            gpu.unheld.end()
            return
        told = gpu.activity is not None or gpu.busy is not None
        context = None if told else self.floors.context(gpu.reading.uuid, gpu.reading.model)
        busy = at_work(gpu, context.watts if context is not None else None, limit, self.settings)
        patience_s = max(self.settings.outside_after, self.longest_s)
        gpu.unheld.observe(gpu.reading.time_s, self.asked_s, busy=busy, patience_s=patience_s)

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
        nothing = gpu_classes.does_nothing(gpu.activity, gpu.busy, self.settings)
        hung = gpu_classes.looks_hung(gpu.watts, gpu.busy, floor.watts if floor is not None else None, limit,
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
            account=job.account if job is not None else "", allocated=holder is not None,
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
        held = verdict.allocated and verdict.state is not PowerClass.UNAVAILABLE
        counts[ALLOCATED if held else verdict.state.node_state] += 1
    return counts

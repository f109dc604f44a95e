"""The accounting of every watt: scheduler x telemetry -> one class each, cycle after cycle.

No I/O and no clock: what is read and when it is comes from outside, so that a live cluster, a simulated one and a
recorded one are judged alike.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from operator import add

from ...storage.power_classes import GPU_CLASSES, PowerClass
from ...storage.records import Job, SchedulerSnapshot, StrandedCause
from ...storage.telemetry import NodeReading, Telemetry
from ..settings.waste import WasteSettings
from . import hardware
from .assessment import CLASSES, COLUMN, Assessment, ClassWatts, GpuVerdict, NodeVerdict
from .energy import Closed, Counters, Place, Windows
from .hardware import FloorBook
from .holders import GpuHolder, GpuSlot, NodeShares, Share, allocations_by_node, holders, slots
from .nodes import (
    NodeJudge,
    Wall,
    count_states,
    home_partition,
    host_partition,
    in_doubt,
    is_unavailable,
    unused_share,
    wall,
)
from .readings import Fleet, WatchedGpu
from .stranded import DemandMix, PendingQueue, fragmentation
from .utilization import UtilizationWindow
from .wall_meters import Enclosures, LastWalls


class NodesAssessment:
    """The judgement of all nodes at one moment: the scheduler's and telemetry's as an outer join, all summed."""

    def __init__(self, snapshot: SchedulerSnapshot, settings: WasteSettings, now_s: float, longest_s: float) -> None:
        self._settings, self._now_s, self._longest_s = settings, now_s, longest_s
        self._scheduler_read_s = snapshot.time_s
        self._inventory = {node.name: node for node in snapshot.nodes}
        self._defaults = {partition.name for partition in snapshot.partitions if partition.default}
        self._held = allocations_by_node(snapshot.jobs)
        self._jobs = snapshot.jobs
        self._cpu_jobs: dict[str, list[tuple[Job, int]]] | None = None
        self._known = sorted({partition.name for partition in snapshot.partitions}
                             | {name for node in snapshot.nodes for name in node.partitions})
        self.queue = PendingQueue(tuple(self._inventory.values()), snapshot.jobs, now_s)
        self.gpu_verdicts: list[GpuVerdict] = []
        self.nodes: list[NodeVerdict] = []
        self.watts: dict[Place, list[float]] = {}
        """Watts by node and partition, a column per class."""
        self.shares: list[Share] = []
        """Watts by node and run, or by node and partition where nobody holds them; their sum is that of ``watts``."""

    def judge(self, fleet: Fleet, floors: FloorBook) -> None:
        """Judge every node that the scheduler or telemetry knows."""
        gpus, walls = fleet.gpus_by_node(), fleet.walls_by_node(self._now_s)
        for name in sorted(self._inventory.keys() | gpus.keys() | walls.keys() | fleet.last_walls.nodes):
            self._judge_node(name, gpus.get(name, []), walls.get(name), fleet, floors)

    def _judge_node(self, name: str, gpus: list[WatchedGpu], reading: NodeReading | None, fleet: Fleet,
                    floors: FloorBook) -> None:
        node = self._inventory.get(name)
        places = slots(gpus, node)
        taken = holders(places, self._held.get(name, []), node)
        judge = NodeJudge(self._settings, floors, node, home_partition(node, self._defaults), self.queue.cause(name),
                          is_unavailable(node, taken), self._longest_s, self._scheduler_read_s,
                          in_doubt(places, taken, self._settings))
        verdicts = [self._judge_slot(judge, name, slot, taken.get(position), fleet)
                    for position, slot in enumerate(places)]
        shares = NodeShares(name)
        shares.add_gpus(verdicts, taken, places)
        self._add_gpus(name, verdicts, shares)
        host = self._add_host(name, judge, verdicts, reading, fleet.last_walls)
        shares.add_host(host.host_class, host.host_watts, host.partition, () if verdicts else self._cpus(name))
        self.shares += shares.all

    def _judge_slot(self, judge: NodeJudge, name: str, slot: GpuSlot, holder: GpuHolder | None,
                    fleet: Fleet) -> GpuVerdict:
        gpu = slot.gpu
        if gpu is None or self._now_s - gpu.reading.time_s > self._longest_s:
            return judge.missing(name, slot, holder)
        return judge.gpu_verdict(name, slot, gpu, holder, fleet.limit(gpu.reading))

    def _add_gpus(self, name: str, verdicts: list[GpuVerdict], shares: NodeShares) -> None:
        self.gpu_verdicts += verdicts
        for share in shares.all:
            row = self.watts.get((name, share.partition))
            class_watts = share.values[:len(CLASSES)]
            self.watts[name, share.partition] = class_watts if row is None else list(map(add, row, class_watts))

    def _cpus(self, name: str) -> list[tuple[Job, int]]:
        """Return the jobs that hold CPUs of a server without GPUs."""
        if self._cpu_jobs is None:
            self._cpu_jobs = {}
            for job in self._jobs:
                for part in job.allocations if job.state.active else ():
                    self._cpu_jobs.setdefault(part.node, []).append((job, part.cpus))
        return self._cpu_jobs.get(name, [])

    def _add_host(self, name: str, judge: NodeJudge, verdicts: list[GpuVerdict], reading: NodeReading | None,
                  last_walls: LastWalls) -> NodeVerdict:
        measured = {verdict.uuid: verdict.watts for verdict in verdicts if verdict.watts is not None}
        total = sum(measured.values())
        # What is switched off falls silent too.
        lost = None if judge.off else last_walls.beside(name, measured)
        meter: Wall = wall(reading, total if measured else None,
                           hardware.by_pattern(name, self._settings.host_overhead_watts), lost)
        if reading is not None and meter.watts is not None and meter.source == reading.power_source:
            last_walls.note(reading, meter.watts, measured)
        host_watts = max(0.0, meter.watts - total) if meter.watts is not None else 0.0
        host_class = judge.host_class(verdicts, silent=meter.silent)
        partition = host_partition(verdicts, judge.home)
        self._tally(name, partition, host_class, host_watts)
        state = judge.node.state if judge.node is not None else None
        self.nodes.append(NodeVerdict(name, partition, state, meter.watts, meter.source, host_class, host_watts,
                                      meter.disagreement_watts, count_states(verdicts),
                                      len(verdicts) - len(measured), unused_share(verdicts)))
        return self.nodes[-1]

    def _tally(self, node: str, partition: str, power_class: PowerClass, watts: float) -> None:
        row = self.watts.get((node, partition))
        if row is None:
            row = self.watts[node, partition] = [0.0] * len(CLASSES)
        row[COLUMN[power_class]] += watts

    @cached_property
    def partitions(self) -> list[str]:
        """Return every partition: the scheduler's own, then those that only occur in what was judged."""
        judged = {partition for _, partition in self.watts} | {verdict.partition for verdict in self.gpu_verdicts}
        return [*self._known, *sorted(judged.difference(self._known))]

    def totals(self) -> dict[str, ClassWatts]:
        """Return the watts of every partition by class."""
        totals = {name: dict.fromkeys(CLASSES, 0.0) for name in self.partitions}
        for (_, partition), row in self.watts.items():
            total = totals[partition]
            for power_class, watts in zip(CLASSES, row, strict=True):
                total[power_class] += watts
        return totals

    def gpus(self) -> dict[str, dict[PowerClass, int]]:
        """Return the GPUs of every partition by state."""
        counts = Counter(zip([verdict.partition for verdict in self.gpu_verdicts],
                             [verdict.state for verdict in self.gpu_verdicts], strict=True))
        return {name: {state: counts[name, state] for state in GPU_CLASSES} for name in self.partitions}

    def stranded(self) -> dict[str, dict[StrandedCause, int]]:
        """Return the stranded GPUs of every partition by cause."""
        counts = Counter([(verdict.partition, verdict.cause) for verdict in self.gpu_verdicts
                          if verdict.cause is not None])
        return {name: {cause: counts[name, cause] for cause in StrandedCause} for name in self.partitions}


_OF_UTILIZATION = frozenset(("utilization_window", "rated_node_watts"))
"""Settings with whose change the window of utilisation begins anew."""


class WasteAccountant:
    """Judge every cycle and keep what must outlive it: windows, floors, counters.

    ``interval_s`` is the sampling interval of telemetry; readings older than ``gap_factor`` times it are unmeasured.
    """

    def __init__(self, settings: WasteSettings, interval_s: float = 15.0) -> None:
        self._settings = settings
        self._longest_s = settings.gap_factor * interval_s
        self._fleet = Fleet(settings)
        self._mix = DemandMix()
        self._utilization = UtilizationWindow(settings)
        self._windows = Windows()
        self._enclosures = Enclosures(settings.enclosures, settings.wall_max_age, self._longest_s)
        self._last_s: float | None = None
        self.floors = FloorBook(settings)
        """Learned idle floors: ``learned()`` before a stop, ``restore()`` after a start."""
        self.counters = Counters()

    def assess(self, snapshot: SchedulerSnapshot, telemetry: Telemetry, now_s: float) -> Assessment:
        """Judge the cluster at ``now_s`` and book the energy since the last call.

        A scheduler's answer older than ``scheduler_max_age`` is not believed: everything is then unmeasured.
        """
        if now_s - snapshot.time_s > self._settings.scheduler_max_age:
            snapshot = SchedulerSnapshot(snapshot.time_s, partitions=snapshot.partitions)
        self._fleet.absorb(telemetry, now_s, self._longest_s)
        self._enclosures.absorb(telemetry.enclosures, now_s, telemetry.meters)
        self._mix.observe(snapshot.jobs, now_s)
        cycle = NodesAssessment(snapshot, self._settings, now_s, self._longest_s)
        cycle.judge(self._fleet, self.floors)
        totals = cycle.totals()
        self._book(cycle, totals, now_s)
        walls = sum(node.wall_watts or 0.0 for node in cycle.nodes)
        return Assessment(
            time_s=now_s, gpu_verdicts=tuple(cycle.gpu_verdicts), nodes=tuple(cycle.nodes), totals=totals,
            gpus=cycle.gpus(), stranded=cycle.stranded(), fragmentation=self._fragmentation(cycle),
            utilization=self._utilization.observe(snapshot, now_s),
            unaccounted_watts=walls - sum(sum(watts.values()) for watts in totals.values()),
            disagreement_watts=sum(node.disagreement_watts for node in cycle.nodes),
            floors=self.floors.by_model(),
            rejected=self._rejected(),
            enclosures=self._enclosures.judge({node.node: node.wall_watts for node in cycle.nodes}, now_s))

    def _rejected(self) -> dict[str, int]:
        """Return how many readings were left out since the start, by why."""
        racks = {"above_rack_rating": self._enclosures.rejected, "part_of_rack": self._enclosures.partial,
                 "future": self._fleet.rejected["future"] + self._enclosures.future}
        return dict(self._fleet.rejected) | racks

    def _fragmentation(self, cycle: NodesAssessment) -> dict[str, float]:
        shares = {name: fragmentation(cycle.queue.free, name, self._mix.mix(name)) for name in cycle.partitions}
        return {name: share for name, share in shares.items() if share is not None}

    def _book(self, cycle: NodesAssessment, totals: dict[str, ClassWatts], now_s: float) -> None:
        """Integrate over the time since the last cycle: no more than the sampling allows, never backwards."""
        passed = max(0.0, now_s - self._last_s) if self._last_s is not None else 0.0
        seconds = min(passed, self._longest_s)
        self._last_s = now_s
        self.counters.add(totals, seconds)
        self.counters.add_gpus(cycle.gpu_verdicts, seconds, passed - seconds)
        self._windows.add(now_s, seconds, cycle.gpu_verdicts, cycle.watts, cycle.shares)

    def drain_closed(self) -> Closed:
        """Return the five-minute windows closed since the last call, by GPU, by class and by run."""
        return self._windows.drain()

    def drain_all(self) -> Closed:
        """Return what is left, the open window cut short: the last thing before a stop."""
        self._windows.close(self._last_s or 0.0)
        return self._windows.drain()

    def renewed(self, settings: WasteSettings, interval_s: float) -> WasteAccountant:
        """Return an accountant of other settings that goes on from this one: a reload resets no exported counter.

        Only what rests on a setting that changed is seen anew. This accountant must not be used any more.
        """
        fresh = WasteAccountant(settings, interval_s)
        fresh.floors.restore(self.floors.learned())
        fresh.counters, fresh._windows, fresh._last_s = self.counters, self._windows, self._last_s
        fresh._mix, fresh._fleet, fresh._enclosures = self._mix, self._fleet, self._enclosures
        changed = {name for name in WasteSettings.model_fields
                   if getattr(settings, name) != getattr(self._settings, name)}
        fresh._fleet.renew(settings, changed)
        fresh._enclosures.renew(settings.enclosures, settings.wall_max_age, fresh._longest_s)
        if not changed & _OF_UTILIZATION:
            fresh._utilization = self._utilization
        return fresh

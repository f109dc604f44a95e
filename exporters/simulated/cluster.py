"""The cluster in simulated time: jobs arrive, start, behave and end; nodes drain; GPUs draw power.

No I/O and no wall clock here: the owner of the clock calls ``advance``. The state moves on a fixed grid of ticks, so
that the same seed is the same cluster however often it is looked at.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...storage.records import JobState
from ...storage.waiting import WaitReason
from .gpus import GpuPhysics
from .hardware import Power, servers
from .jobs import SimulatedJob, Submissions
from .scene import open_scene
from .scheduler import Capacity, startable
from .shards import share_a_gpu

FINISHED_KEPT = 20_000
"""Accounting forgets beyond this, so that a long run does not grow."""
DAY_RHYTHM = (0.6, 1.4)
"""Submissions by night and by day (08-20 UTC) against the mean."""


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """What makes one simulated cluster differ from another."""

    nodes: int = 4
    hardware: str = "dgx"
    """One of ``hardware.HARDWARE``."""
    seed: int = 1
    start_s: float = 1_750_000_000.0
    tick_s: float = 5.0
    hour_s: float = 60.0
    """Length of an hour of Table 2; the paper's own experiments (section 6.2) shorten hours to minutes."""
    load: float = 0.8
    """GPU-seconds requested against GPU-seconds there are; plain first come, first served cannot carry 1.0."""
    queue_limit: int = 6
    """Pending jobs per server at which users stop submitting."""
    outage_gap_s: float = 6 * 3600.0
    """Mean time between drains in a cluster of four nodes."""
    outage_s: float = 3600.0


class SimulatedCluster:
    """Two DGX A100 and two DGX-1V by default, with users; ``advance`` moves it on."""

    def __init__(self, shape: ClusterShape | None = None, power: Power | None = None) -> None:
        self.shape = shape = shape or ClusterShape()
        self.servers = servers(shape.nodes, shape.hardware)
        seeds = np.random.SeedSequence(shape.seed).spawn(3)
        self._rng = np.random.default_rng(seeds[0])
        self.gpus = GpuPhysics(self.servers, np.random.default_rng(seeds[1]), power or Power())
        self.capacity = Capacity(self.servers)
        self.submissions = Submissions(np.random.default_rng(seeds[2]), shape.hour_s,
                                       {server.model.partition: server.model for server in self.servers})
        self.now_s = shape.start_s
        self.partitions = tuple(dict.fromkeys(server.model.partition for server in self.servers))
        self.pending: dict[str, list[SimulatedJob]] = {partition: [] for partition in self.partitions}
        self.running: dict[int, SimulatedJob] = {}
        self.finished: deque[SimulatedJob] = deque(maxlen=FINISHED_KEPT)
        self._due: list[tuple[float, int]] = []
        self._arrivals = {partition: self.now_s + self._gap(partition) for partition in self.partitions}
        self._drained_until: dict[int, float] = {}
        self._next_outage_s = shape.start_s + 3600.0 + self._outage_gap()
        self.shards = share_a_gpu(self) if shape.hardware == "mixed" else {}
        """Shards of a GPU by job id, of jobs that hold no whole one."""
        open_scene(self)
        self.gpus.advance(0.0)

    def advance(self, until_s: float) -> None:
        """Move on to the last tick at or before ``until_s``; an earlier time changes nothing."""
        while self.now_s + self.shape.tick_s <= until_s:
            self._tick()

    def run(self, seconds: float, every_s: float) -> Iterator[float]:
        """Move on step by step and yield the time after each: history without waiting for it."""
        for step in itertools.count(1):
            if step * every_s > seconds:
                return
            self.advance(self.shape.start_s + step * every_s)
            yield self.now_s

    def _tick(self) -> None:
        self.gpus.advance(self.shape.tick_s)
        self.now_s += self.shape.tick_s
        changed = self._end_due()
        changed |= self._arrive()
        changed |= self._drain()
        if changed:
            self.schedule()

    # Jobs

    def submit(self, job: SimulatedJob) -> None:
        """Put a job at the end of its partition's queue; like Slurm, refuse what the partition can never run."""
        if job.nodes > self._size(job.partition) - (self._shared(job.partition) if job.takes_whole_nodes else 0):
            return
        self.pending[job.partition].append(job)

    def start(self, job: SimulatedJob, numbers: Iterable[int], start_s: float | None = None) -> None:
        """Give a job its GPUs on the servers and let it run."""
        job.state, job.reason = JobState.RUNNING, WaitReason.NONE
        job.start_s = self.now_s if start_s is None else start_s
        for server in numbers:
            indexes = self.capacity.take(job, server)
            self.gpus.occupy(job, server, indexes)
            job.allocation.append((server, indexes))
        self.running[job.job_id] = job
        heapq.heappush(self._due, (job.due_s, job.job_id))

    def steer(self, job_id: int, nodes: tuple[str, ...]) -> None:
        """Require nodes for a pending job, as ``scontrol update ReqNodeList=`` does.

        Raise ``KeyError`` when no such job is pending, ``ValueError`` when the nodes do not suit it.
        """
        job = next((job for queue in self.pending.values() for job in queue if job.job_id == job_id), None)
        if job is None:
            raise KeyError(f"job {job_id} is not pending")
        known = {server.name for server in self.servers if server.model.partition == job.partition}
        if not set(nodes) <= known or (nodes and len(nodes) < job.nodes):
            raise ValueError(f"job {job_id} needs {job.nodes} node(s) of partition {job.partition}, not {nodes}")
        job.required_nodes = nodes
        self.schedule()

    def schedule(self) -> None:
        """Start what may start."""
        for queue in self.pending.values():
            while (placement := startable(queue, self.capacity)) is not None:
                job, numbers = placement
                queue.remove(job)
                self.start(job, numbers)

    def _end_due(self) -> bool:
        ended = False
        while self._due and self._due[0][0] <= self.now_s:
            _, job_id = heapq.heappop(self._due)
            self._end(self.running.pop(job_id))
            ended = True
        return ended

    def _end(self, job: SimulatedJob) -> None:
        job.end_s = self.now_s
        if job.fails:
            job.state, job.exit_code = JobState.FAILED, 1
        elif job.run_s >= job.flavor.limit_s:
            job.state = JobState.TIMEOUT
        else:
            job.state = JobState.COMPLETED
        for server, indexes in job.allocation:
            self.capacity.give_back(job, server, indexes)
            self.gpus.vacate(job, server, indexes)
        self.finished.append(job)

    def _arrive(self) -> bool:
        arrived = False
        for partition, due_s in self._arrivals.items():
            if due_s > self.now_s:
                continue
            self._arrivals[partition] = self.now_s + self._gap(partition)
            if self._wanted(partition):
                self.submit(self.submissions.draw(partition, self.now_s))
                arrived = True
        return arrived

    def _wanted(self, partition: str) -> bool:
        night, day = DAY_RHYTHM
        rate = day if 8 <= self.now_s // 3600 % 24 < 20 else night
        room = len(self.pending[partition]) < self.shape.queue_limit * self._size(partition)
        return bool(self._rng.random() < rate / day) and room

    def _gap(self, partition: str) -> float:
        """Return the time to the next arrival at the day's rate; the night drops some of them."""
        gpus = sum(s.model.gpus for s in self.servers if s.model.partition == partition)
        mean_s = self.submissions.mean_gpu_seconds(partition) / (gpus * self.shape.load * DAY_RHYTHM[1])
        return float(self._rng.exponential(mean_s))

    def _shared(self, partition: str) -> int:
        """Return the servers of a partition of which a GPU is never free as a whole."""
        return len({number for job_id in self.shards for number, _ in self.running[job_id].allocation
                    if self.running[job_id].partition == partition})

    def _size(self, partition: str) -> int:
        return sum(server.model.partition == partition for server in self.servers)

    # Nodes

    def _outage_gap(self) -> float:
        return float(self._rng.exponential(self.shape.outage_gap_s * 4 / len(self.servers)))

    def _drain(self) -> bool:
        """Close a node now and then, and open it again when it is mended."""
        back = [server for server, until_s in self._drained_until.items() if until_s <= self.now_s]
        for server in back:
            del self._drained_until[server]
            self.capacity.open[server] = True
        if self.now_s >= self._next_outage_s:
            self._next_outage_s = self.now_s + self._outage_gap()
            server = int(self._rng.integers(len(self.servers)))
            self._drained_until[server] = self.now_s + self.shape.outage_s
            self.capacity.open[server] = False
        return bool(back)

    def drained(self, server: int) -> bool:
        """Tell whether an administrator has closed a node."""
        return server in self._drained_until

    def exporter_answers(self, server: int) -> bool:
        """Tell whether dcgm-exporter answers: the last node's falls over for three minutes of every two hours."""
        return server != len(self.servers) - 1 or (self.now_s - self.shape.start_s) % 7200 < 7020

    def meter_answers(self, server: int) -> bool:
        """Tell whether the BMC answers: the last one hangs for three minutes of every forty."""
        return server != len(self.servers) - 1 or (self.now_s - self.shape.start_s) % 2400 < 2220

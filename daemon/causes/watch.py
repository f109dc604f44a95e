"""Watches the GPUs of running jobs: five minutes at a time, each window judged by the rules and added to the run's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...storage.pod_readings import by_job
from ...storage.records import Allocation, Job, JobState, SchedulerSnapshot
from ...storage.telemetry import GpuReading, JobReading, NodeReading, Telemetry
from ...storage.underuse import CauseTally
from .rules import HostMeans, Means, judge
from .tally import Tally
from .windows import ENOUGH, LONGEST_GAP_S, HighestClocks, Sums, Throttled, of_gpu, of_node, throttled

WINDOW_S = 300.0
SETTLE_S = 300.0
"""After a job's start, in which it loads and compiles."""
MOST_RUNS = 20_000
MOST_ENDED = 20_000
"""Runs that have ended are kept until they are recorded, which an outage of the database delays."""
WHOLE = 0.8
"""Share of a server's CPUs from which what all of them do is taken for what the one job there does."""

Run = tuple[str, float, float]
Held = Callable[[Allocation], list[GpuReading | None]]
"""Return the GPUs that a job holds on a node, None for each that is not known."""
_TRAINS = re.compile(r"(?<![a-z])(?:pre|re|post|co)?-?train|fine-?_?tun|(?<![a-z])(?:sft|lora|dpo)(?![a-z])", re.I)


@dataclass(slots=True)
class _Host:
    """A job's part of one server."""

    sums: Sums = field(default_factory=Sums)
    read_s: float = 0.0
    counted: tuple[float, float] | None = None
    """When its CPU time was read last, and what it was."""


@dataclass(slots=True)
class _GpuSpan:
    """A GPU of a job: what its last reading is compared with, and the open window."""

    node: str
    last: Throttled
    sums: Sums = field(default_factory=Sums)


@dataclass(slots=True)
class _Watched:
    """A run since it was first seen."""

    job: Job
    opened_s: float
    gpus: dict[str, _GpuSpan] = field(default_factory=dict)
    """By uuid."""
    hosts: dict[str, _Host] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    fresh: bool = False
    resumed: bool = False
    """Whether its tally goes on from what was recorded before it was watched."""

    def pause(self, job: Job, now_s: float) -> None:
        """Begin the open window anew: a job that is suspended uses nothing, and shall not be judged by that."""
        self.job, self.opened_s, self.gpus, self.hosts = job, now_s, {}, {}


class _Round:
    """What was read at one moment."""

    def __init__(self, snapshot: SchedulerSnapshot, telemetry: Telemetry, held: Held) -> None:
        self.held = held
        self.cpus = {node.name: node.cpus for node in snapshot.nodes}
        self.jobs = by_job(telemetry.jobs, snapshot.jobs)
        self.nodes: dict[str, list[NodeReading]] = {}
        for reading in telemetry.nodes:
            self.nodes.setdefault(reading.node, []).append(reading)
        active = [job for job in snapshot.jobs if job.state.active]
        self.crowd = Counter(part.node for job in active for part in job.allocations)
        self.shared = {uuid for uuid, count in Counter(
            gpu.uuid for job in active for part in job.allocations for gpu in held(part) if gpu is not None).items()
            if count > 1}

    def of_job(self, job: Job, node: str) -> JobReading | None:
        """Return what its cgroup says of one server."""
        number = str(job.raw_id) if job.raw_id is not None else job.job_id
        return self.jobs.get((number, node)) or self.jobs.get((job.job_id, node))


class CauseWatch:
    """Every current run with its windows; a run that has ended is handed over once."""

    def __init__(self) -> None:
        self._runs: dict[Run, _Watched] = {}
        self._ended: dict[Run, _Watched] = {}
        self._clocks = HighestClocks()

    def observe(self, snapshot: SchedulerSnapshot, telemetry: Telemetry, held: Held, now_s: float) -> None:
        """Take in what was read; what was read before says nothing new."""
        seen = _Round(snapshot, telemetry, held)
        runs: dict[Run, _Watched] = {}
        for job in snapshot.jobs:
            if job.start_s is None or len(runs) >= MOST_RUNS:
                continue
            run = (*job.key, job.start_s)
            if job.state is JobState.SUSPENDED and run in self._runs:
                runs[run] = self._runs[run]
                runs[run].pause(job, now_s)
            elif job.state is JobState.RUNNING and now_s - job.start_s >= SETTLE_S and _on_gpus(job):
                watched = runs[run] = self._runs.get(run) or self._ended.pop(run, None) or _Watched(job, now_s)
                watched.job = job
                self._take(watched, seen)
                if not 0 <= now_s - watched.opened_s < WINDOW_S:
                    self._close(watched, seen, now_s)
        self._ended |= {run: watched for run, watched in self._runs.items() if run not in runs and watched.fresh}
        self._runs = runs
        while len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    def unresumed(self) -> set[Run]:
        """Return the runs of which it is not known yet what was recorded before they were watched."""
        return {run for run, watched in (self._ended | self._runs).items() if not watched.resumed}

    def resume(self, tallies: Iterable[CauseTally]) -> None:
        """Go on from all that was recorded of the runs that are not resumed yet."""
        runs = self._ended | self._runs
        new = self.unresumed()
        for tally in tallies:
            if tally.run in new:
                runs[tally.run].tally.resume(tally)
        for run in new:
            runs[run].resumed = True

    def running(self, now_s: float) -> Iterator[tuple[Job, tuple[CauseTally, ...], float | None]]:
        """Yield each running job with what was judged of it, and the mean activity over that time."""
        for run, watched in self._runs.items():
            rows = tuple(watched.tally.rows(run, now_s))
            if rows and watched.job.state is JobState.RUNNING:
                yield watched.job, rows, watched.tally.mean_activity

    def unrecorded(self, now_s: float) -> list[CauseTally]:
        """Return the tallies of runs of which there is more to say than when this was called last.

        One that is not resumed yet waits: what is recorded replaces what was recorded before.
        """
        some: Mapping[Run, _Watched] = {run: watched for run, watched in (self._ended | self._runs).items()
                                        if watched.fresh and watched.resumed}
        self._ended = {run: watched for run, watched in self._ended.items() if run not in some}
        for watched in some.values():
            watched.fresh = False
        return [row for run, watched in some.items() for row in watched.tally.rows(run, now_s)]

    def _take(self, watched: _Watched, seen: _Round) -> None:
        for part in watched.job.allocations:
            for gpu in seen.held(part):
                if gpu is not None and gpu.uuid not in seen.shared:
                    self._take_gpu(watched, gpu)
            _take_host(watched, part, seen)

    def _take_gpu(self, watched: _Watched, gpu: GpuReading) -> None:
        known = watched.gpus.get(gpu.uuid)
        if known is not None and gpu.time_s <= known.last.time_s:
            return
        clock = self._clocks.share(gpu)
        if known is None:
            watched.gpus[gpu.uuid] = _GpuSpan(gpu.node, throttled(gpu))
            return
        if gpu.time_s - known.last.time_s <= LONGEST_GAP_S:
            known.sums.add(of_gpu(gpu, known.last, clock), gpu.time_s - known.last.time_s)
        known.node, known.last = gpu.node, throttled(gpu)

    def _close(self, watched: _Watched, seen: _Round, now_s: float) -> None:
        """Judge the open window of each GPU and open the next."""
        means = {uuid: Means(**gpu.sums.means()) for uuid, gpu in watched.gpus.items()
                 if gpu.sums.seconds >= ENOUGH * WINDOW_S}
        busiest = max((mean.activity for mean in means.values() if mean.activity is not None), default=None)
        hosts = {part.node: _host_means(watched, part, seen, busiest) for part in watched.job.allocations}
        for uuid, mean in means.items():
            gpu = watched.gpus[uuid]
            if gpu.node in hosts:  # what a job held of a server that it has left is not known any more
                watched.tally.add(judge(mean, hosts[gpu.node]), gpu.sums.seconds, mean.activity)
                watched.fresh = True
        held = {gpu.uuid for part in watched.job.allocations for gpu in seen.held(part) if gpu is not None}
        watched.gpus = {uuid: _GpuSpan(gpu.node, gpu.last) for uuid, gpu in watched.gpus.items() if uuid in held}
        for host in watched.hosts.values():
            host.sums = Sums()
        watched.opened_s = now_s


def _on_gpus(job: Job) -> bool:
    return any(part.gpus for part in job.allocations)


def _take_host(watched: _Watched, part: Allocation, seen: _Round) -> None:
    """Add what was read of the server; the CPUs of the job's own, or all of them where they are nearly all its own."""
    name = part.node
    host = watched.hosts.setdefault(name, _Host())
    reading = next((node for node in seen.nodes.get(name, ()) if node.cpu_busy_ratio is not None), None)
    if reading is None or reading.time_s <= host.read_s:
        return
    seconds, host.read_s = reading.time_s - host.read_s, reading.time_s
    cores = _cores(watched.job, host, name, seen)
    cpus = seen.cpus.get(name, 0)
    if cores is None and seen.crowd[name] == 1 and reading.cpu_busy_ratio is not None and part.cpus >= WHOLE * cpus > 0:
        cores = reading.cpu_busy_ratio * cpus
    if seconds <= LONGEST_GAP_S:
        host.sums.add(iter((*of_node(reading), ("cpus", cores))), seconds)


def _cores(job: Job, host: _Host, name: str, seen: _Round) -> float | None:
    """Return the cores that a job used since its cgroup was read last; None where that is unknown."""
    reading = seen.of_job(job, name)
    if reading is None or reading.cpu_seconds is None:
        return None
    before, host.counted = host.counted, (reading.time_s, reading.cpu_seconds)
    if before is None or not 0 < reading.time_s - before[0] <= LONGEST_GAP_S or reading.cpu_seconds < before[1]:
        return None
    return (reading.cpu_seconds - before[1]) / (reading.time_s - before[0])


def _host_means(watched: _Watched, part: Allocation, seen: _Round, busiest: float | None) -> HostMeans:
    host = watched.hosts.get(part.node)
    means = host.sums.means() if host is not None else {}
    return HostMeans(means.get("cpus"), part.cpus, part.gpus, means.get("disk"), means.get("waiting"),
                     means.get("fabric"), seen.crowd[part.node] == 1, bool(_TRAINS.search(watched.job.name)), busiest)

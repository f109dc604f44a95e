"""How much of its CPUs and memory each running job uses: counters become cores in use, over a sliding window.

What a job uses is read from its cgroup; where no exporter tells, all that a node uses is an upper bound of what the one
job that has it alone uses. Its node's page cache is not in that, so that of memory nothing is known then.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ....storage.pod_readings import by_job
from ....storage.records import Allocation, Job, JobState, Node, SchedulerSnapshot
from ....storage.telemetry import JobReading, Telemetry
from ....storage.uses import ACCOUNTS, Use
from ...replay.runtime_prediction import template
from ..held_gpus import HeldGpus

Floats = NDArray[np.float64]
Run = tuple[str, float, float]
"""Job id, submit time, start time."""

QUANTILE = 95
ENOUGH = 0.8
"""Share of a window that must have been measured."""
LONGEST_GAP_S = 600.0
"""Over a longer gap between two readings the mean says nothing of the peaks."""
MOST_ENDED = 2_000
"""Runs that ended and wait to be recorded: the database may be gone for long."""
ROUNDING = 1.1
"""Two pages are never read at exactly the moments that they bear: a little more than the whole node may be one."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A job between two readings."""

    time_s: float
    seconds: float
    cores: float
    """The cores in use on the node where the job uses most."""
    activity: float | None


class _Samples:
    """The samples of a window in 32 bytes each: a large site has a hundred thousand."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = array("d")
        """Time, seconds, cores and activity of one after the other, NaN where that is not known."""

    def add(self, sample: Sample, since_s: float) -> None:
        """Add a sample, and forget the samples up to a moment."""
        activity = math.nan if sample.activity is None else sample.activity
        self._values.extend((sample.time_s, sample.seconds, sample.cores, activity))
        late = bisect_right(self._values[::4], since_s)
        del self._values[:4 * late]

    @property
    def seconds(self) -> float:
        """Return for how long the job was measured."""
        return sum(self._values[1::4])

    @property
    def cores(self) -> array[float]:
        """Return the cores in use in each sample."""
        return self._values[2::4]

    @property
    def activity(self) -> float | None:
        """Return the mean activity; None unless the activity of most samples is known."""
        known = [value for value in self._values[3::4] if not math.isnan(value)]
        return float(np.mean(known)) if known and 2 * len(known) > len(self.cores) else None


@dataclass(frozen=True)
class UsageWindow:
    """The last samples of a running job."""

    cores: Floats
    seconds: float
    """Measured."""
    memory_peak_bytes: float | None
    """The peak of the whole run: memory that was needed once may be needed again."""
    activity: float | None
    source: str

    @property
    def p95(self) -> float:
        """Return the cores that suffice the job nearly always."""
        return float(np.percentile(self.cores, QUANTILE, method="higher"))

    def at_limit(self, limit: float) -> float:
        """Return the share of samples with at least so many cores in use."""
        return float(np.mean(self.cores >= limit))


@dataclass(slots=True)
class _Counter:
    """What was read last of a job on one node."""

    time_s: float
    cpu_seconds: float | None


@dataclass(slots=True)
class _Track:
    """A run since it was first seen."""

    job: Job
    counters: dict[str, _Counter] = field(default_factory=dict)
    samples: _Samples = field(default_factory=_Samples)
    source: str = "cgroup"
    memory_peak: float | None = None
    busiest: float = 0.0
    """The highest use of cores over whole windows."""
    first_peak: float = 0.0
    """The peak in a record of less than a window; it counts until a whole window was measured."""
    measured_s: float = 0.0
    core_s: float = 0.0
    at_limit_s: float = 0.0
    active_s: float = 0.0
    watched_s: float = 0.0
    """Time for which the activity of its GPUs is known."""
    fresh: bool = False
    """Whether there is something that was not recorded yet."""
    recorded: bool = False
    """Whether what was recorded of the run is all in here."""


class _RoundByJob:
    """What was read at one moment, so that it can be looked up job by job."""

    def __init__(self, snapshot: SchedulerSnapshot, telemetry: Telemetry) -> None:
        self._jobs = by_job(telemetry.jobs, snapshot.jobs)
        self._busy = {reading.node: reading for reading in telemetry.nodes if reading.cpu_busy_ratio is not None}
        self.nodes = {node.name: node for node in snapshot.nodes}
        self._crowd = Counter(part.node for job in snapshot.jobs if job.state.active for part in job.allocations)
        fresh = (gpu for gpu in telemetry.gpus if gpu.time_s >= snapshot.time_s - LONGEST_GAP_S)
        self._gpus = HeldGpus(fresh, snapshot.nodes)

    def of_job(self, job: Job, node: str) -> JobReading | None:
        """Return what a job's cgroup says; cgroups go by Slurm's own number, which an array task is not known by."""
        number = str(job.raw_id) if job.raw_id is not None else job.job_id
        return self._jobs.get((number, node)) or self._jobs.get((job.job_id, node))

    def of_node(self, node: str) -> tuple[float, float] | None:
        """Return when a node was read and how many of its cores were busy; None where several jobs are on it."""
        reading, known = self._busy.get(node), self.nodes.get(node)
        if reading is None or known is None or reading.cpu_busy_ratio is None or self._crowd[node] != 1:
            return None
        return reading.time_s, reading.cpu_busy_ratio * known.cpus

    def on_gpus(self, job: Job) -> bool:
        """Return whether a job is on a node that has GPUs; others are left out."""
        return any(part.node in self.nodes and self.nodes[part.node].gpus > 0 for part in job.allocations)

    def activity(self, parts: Iterable[Allocation]) -> float | None:
        """Return the mean activity of a job's GPUs; None unless that of each is known."""
        activities = [gpu.activity if gpu is not None else None for part in parts for gpu in self._gpus.of(part)]
        known = [value for value in activities if value is not None and 0 <= value <= 1]
        return float(np.mean(known)) if known and len(known) == len(activities) else None


class UsageMeter:
    """Watches running jobs; ``window_s`` is how far back it looks, ``starved`` the share of CPUs that is nearly all."""

    def __init__(self, window_s: float, starved: float) -> None:
        self._window_s, self._starved = window_s, starved
        self._tracks: dict[Run, _Track] = {}
        self._ended: dict[Run, _Track] = {}

    def observe(self, snapshot: SchedulerSnapshot, telemetry: Telemetry) -> None:
        """Take in what was read; what was read before says nothing new."""
        seen, tracks = _RoundByJob(snapshot, telemetry), {}
        for job in snapshot.jobs:
            if job.state.active and job.start_s is not None and seen.on_gpus(job):
                run = (*job.key, job.start_s)
                # The scheduler may have reported no job for a moment.
                track = tracks[run] = self._tracks.get(run) or self._ended.pop(run, None) or _Track(job)
                track.job = job
                if job.state is JobState.RUNNING:
                    self._sample(track, seen)
        self._ended |= {run: track for run, track in self._tracks.items() if run not in tracks and track.fresh}
        self._tracks = tracks
        while len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    def resume(self, uses: Iterable[Use]) -> None:
        """Go on from what was recorded of runs before this meter watched them; its own records are no news."""
        for use in uses:
            track = self._tracks.get(use.run) or self._ended.get(use.run)
            if track is not None and not track.recorded and use.source != ACCOUNTS:
                _go_on(track, use)
                if use.measured_s >= ENOUGH * self._window_s:
                    track.busiest = max(track.busiest, use.cpus_p95)
                else:
                    track.first_peak = use.cpus_p95

    def windows(self) -> dict[Run, UsageWindow]:
        """Return the windows of running jobs of which enough has been measured."""
        return {run: _window(track) for run, track in self._tracks.items() if self._full(track)}

    def unrecorded(self) -> list[Use]:
        """Return the uses of runs on GPUs of which there is more to say than when this was called last."""
        fresh = [track for track in (*self._ended.values(), *self._tracks.values())
                 if track.fresh and held(track.job).gpus]
        self._ended = {}
        for track in fresh:
            track.fresh, track.recorded = False, True
        return [_use(track) for track in fresh]

    def _sample(self, track: _Track, seen: _RoundByJob) -> None:
        between = [self._between(track, part.node, seen) for part in track.job.allocations]
        measured = [pair for pair in between if pair is not None]
        if len(measured) < len(between) or not measured:
            return  # half of its nodes would look like a job that uses little
        seconds, cores = max(pair[0] for pair in measured), max(pair[1] for pair in measured)
        time_s = max(counter.time_s for counter in track.counters.values())
        sample = Sample(time_s, seconds, cores, seen.activity(track.job.allocations))
        track.samples.add(sample, time_s - self._window_s)
        _add_up(track, sample, self._starved * (held(track.job).cpus or float("inf")))
        if self._full(track):
            track.busiest = max(track.busiest, _window(track).p95)

    def _full(self, track: _Track) -> bool:
        return track.samples.seconds >= ENOUGH * self._window_s

    def _between(self, track: _Track, name: str, seen: _RoundByJob) -> tuple[float, float] | None:
        """Return seconds and mean cores in use on a node since it was read last; None where that is unknown."""
        reading, node_usage = seen.of_job(track.job, name), seen.of_node(name)
        if reading is not None and reading.memory_used_bytes is not None:
            _learn_memory(track, reading.memory_used_bytes, seen.nodes.get(name))
        if reading is not None and reading.cpu_seconds is not None:
            now, bound = _Counter(reading.time_s, reading.cpu_seconds), None
        elif node_usage is not None:
            now, bound = _Counter(node_usage[0], None), node_usage[1]
        else:
            return None
        before = track.counters.get(name)
        if before is None or now.time_s > before.time_s:
            track.counters[name] = now
        if before is None or not 0 < now.time_s - before.time_s <= LONGEST_GAP_S:
            return None
        seconds = now.time_s - before.time_s
        cores = _rate(before.cpu_seconds, now.cpu_seconds, seconds) if bound is None else bound
        if cores is None or not cores <= ROUNDING * _most(seen.nodes.get(name)):
            return None
        track.source = "cgroup" if bound is None else "node"
        return seconds, cores


def held(job: Job) -> Allocation:
    """Return what a job holds of each of its nodes: the least where Slurm gave it unequal parts."""
    return min(job.allocations, key=lambda part: (part.cpus, part.memory_bytes, part.node))


def _rate(before: float | None, now: float | None, seconds: float) -> float | None:
    """Return cores in use; None where the counter restarted."""
    if before is None or now is None or now < before:
        return None
    return (now - before) / seconds


def _most(node: Node | None) -> float:
    return float(node.cpus) if node is not None and node.cpus else float("inf")


def _learn_memory(track: _Track, used: float, node: Node | None) -> None:
    if node is None or not node.memory_bytes or used <= ROUNDING * node.memory_bytes:
        track.memory_peak = max(track.memory_peak or 0.0, used)


def _add_up(track: _Track, sample: Sample, limit: float) -> None:
    track.fresh = True
    track.measured_s += sample.seconds
    track.core_s += sample.cores * sample.seconds
    track.at_limit_s += sample.seconds * (sample.cores >= limit)
    if sample.activity is not None:
        track.watched_s += sample.seconds
        track.active_s += sample.activity * sample.seconds


def _go_on(track: _Track, use: Use) -> None:
    track.recorded = True
    track.measured_s += use.measured_s
    track.core_s += use.cpus_mean * use.measured_s
    track.at_limit_s += use.at_limit_ratio * use.measured_s
    if use.memory_peak_bytes is not None:
        track.memory_peak = max(track.memory_peak or 0.0, use.memory_peak_bytes)
    if use.activity is not None:
        track.watched_s += use.measured_s
        track.active_s += use.activity * use.measured_s


def _window(track: _Track) -> UsageWindow:
    return UsageWindow(np.array(track.samples.cores), track.samples.seconds, track.memory_peak, track.samples.activity,
                       track.source)


def _use(track: _Track) -> Use:
    job, part = track.job, held(track.job)
    # Shorter than a window: all that there is must do.
    busiest = track.busiest or max((track.first_peak, *track.samples.cores))
    return Use(job.job_id, job.submit_s, job.start_s or 0.0, job.user, template(job.name), part.gpus, part.cpus,
               part.memory_bytes, max(counter.time_s for counter in track.counters.values()), track.measured_s,
               track.source, track.core_s / track.measured_s, busiest, track.at_limit_s / track.measured_s,
               track.memory_peak, track.active_s / track.watched_s if track.watched_s else None)

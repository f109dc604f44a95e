"""Watching how fast runs are: by the site's own throughput where it measures one, else by the activity of their GPUs.

Nothing but a mean is kept of a run. Jobs are alike when user, name (without what varies from run to run) and GPU model
are; what one basis says is never mixed with what another does.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from ....storage.records import Job, JobState, Node
from ....storage.speeds import RunSpeed, Throughput
from ...replay.runtime_prediction import template
from ..held_gpus import HeldGpus

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

THROUGHPUT, ACTIVITY = "throughput", "activity"
LEAST_SAMPLES = 3
"""Readings before a run counts."""
LEAST_ACTIVITY = 0.05
"""A job that does nothing has no speed."""
MEMORY = 24
"""Last runs of like jobs of one size that count: users change their programs."""
MOST_SIZES = 32
"""Sizes of a kind, by either basis, that are remembered; those seen last."""
MOST_KINDS = 5_000
"""Kinds of jobs that are remembered; those seen last."""

Kind = tuple[str, str, str]
"""User, template and GPU model."""
Run = tuple[str, float, float, str]
"""Job id, submit time, start time and basis."""


@dataclass(frozen=True, slots=True)
class ThroughputSample:
    """How fast a job was at one moment."""

    basis: str
    rate: float
    time_s: float


def kind_of(job: Job, gpu_model: str) -> Kind:
    """Return which jobs are like this one."""
    # Each word once: some hundred words distinguish thousands of jobs.
    return sys.intern(job.user), sys.intern(template(job.name)), sys.intern(gpu_model.lower())


class _LastRuns:
    """The last runs of one kind, basis and size, in 32 bytes each: a large site has ten thousands of them.

    Of a run only the hash of what identifies it is kept, to know it again.
    """

    __slots__ = ("_means", "_runs")

    def __init__(self) -> None:
        self._runs = array("q")
        self._means = array("d")
        """Rate, readings and the time of the last one, of one run after the other."""

    def put(self, run: Run, mean: tuple[float, float, float]) -> None:
        """Put what was seen last at the end, and let go of the first of too many."""
        number = hash(run)
        if number in self._runs:
            self._forget(self._runs.index(number))
        self._runs.append(number)
        self._means.extend(mean)
        if len(self._runs) > MEMORY:
            self._forget(0)

    def get(self, run: Run) -> tuple[float, float, float] | None:
        """Return the mean of a run; None where it is not among the last."""
        number = hash(run)
        if number not in self._runs:
            return None
        place = 3 * self._runs.index(number)
        rate, samples, last_s = self._means[place:place + 3]
        return rate, samples, last_s

    @property
    def rates(self) -> array[float]:
        """Return how fast they were, what was seen last at the end."""
        return self._means[::3]

    def _forget(self, place: int) -> None:
        del self._runs[place]
        del self._means[3 * place:3 * place + 3]


class WatchedRuns:
    """The runs that were watched: the means of those that go on, and the last that count by kind, basis and GPUs."""

    def __init__(self, past: Iterable[RunSpeed] = ()) -> None:
        # However many like jobs run at once, none of them may restart because others are remembered.
        self._means: dict[Run, RunSpeed] = {}
        self._by_kind: dict[Kind, dict[tuple[str, int], _LastRuns]] = {}
        self._changed: dict[Run, RunSpeed] = {}
        for run in past:
            self._keep(run)

    def forget_ended(self, jobs: Iterable[Job]) -> None:
        """Let go of the means of jobs that are not among these: they go on counting among the last of their kind."""
        known = {job.key for job in jobs}
        self._means = {key: run for key, run in self._means.items() if key[:2] in known}

    def watch(self, job: Job, kind: Kind, reading: ThroughputSample) -> None:
        """Take a reading into the mean of a run; one that is not newer than the last is no news."""
        if job.start_s is None or not (math.isfinite(reading.rate) and reading.rate > 0):
            return
        gpus = sum(part.gpus for part in job.allocations)
        key = *job.key, job.start_s, reading.basis
        run = self._means.get(key)
        if run is None or run.gpus != gpus:  # one that was shrunk is another job from then on
            # The scheduler may have reported no job for a moment.
            last = self._by_kind.get(kind, {}).get((reading.basis, gpus)) if run is None else None
            rate, samples, last_s = (last.get(key) if last else None) or (0.0, 0, -math.inf)
            run = RunSpeed(job.job_id, job.submit_s, job.start_s, *kind, gpus, len(job.allocations), reading.basis,
                           rate, int(samples), last_s)
        if gpus <= 0 or reading.time_s <= run.last_s:
            return
        mean = (run.rate * run.samples + reading.rate) / (run.samples + 1)
        self._changed[key] = replace(run, rate=mean, samples=run.samples + 1, last_s=reading.time_s)
        self._keep(self._changed[key])

    def of(self, kind: Kind, basis: str) -> list[tuple[int, float]]:
        """Return GPUs and rates of the last runs of a kind that were seen for long enough, of every size."""
        sizes = self._by_kind.get(kind, {})
        return [(size[1], rate) for size in sorted(sizes) if size[0] == basis for rate in sizes[size].rates]

    def changed(self) -> list[RunSpeed]:
        """Return the runs of which there was news since this was last called."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def _keep(self, run: RunSpeed) -> None:
        key, kind = (run.job_id, run.submit_s, run.start_s, run.basis), (run.user, run.template, run.gpu_model)
        self._means[key] = run
        if run.samples >= LEAST_SAMPLES:
            sizes = self._by_kind.get(kind, {})
            runs = sizes.get((run.basis, run.gpus)) or _LastRuns()
            runs.put(key, (run.rate, run.samples, run.last_s))
            _put_last(sizes, (run.basis, run.gpus), runs, MOST_SIZES)
            _put_last(self._by_kind, kind, sizes, MOST_KINDS)


def _put_last(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Put what was seen last at the end, and let go of the first of too many."""
    known.pop(key, None)
    known[key] = value
    while len(known) > most:
        del known[next(iter(known))]


def readings(jobs: Iterable[Job], throughput: Iterable[Throughput], gpus: HeldGpus) \
        -> dict[tuple[str, float], ThroughputSample]:
    """Return how fast running jobs are, by key: as the site measures it, else by activity.

    A job that two sources give, or whose name another one has too, as of a second scheduler, has none of that basis:
    nobody knows which of them is meant.
    """
    running = [job for job in jobs if job.state is JobState.RUNNING]
    namesakes = Counter(name for job in running for name in set(_names(job)))
    given: dict[str, list[ThroughputSample]] = {}
    for source in throughput:
        for rate in source.rates:
            given.setdefault(rate.job_id, []).append(ThroughputSample(THROUGHPUT, rate.rate, source.time_s))
    measured = {name: samples[0] for name, samples in given.items() if len(samples) == 1 and namesakes[name] == 1}
    by_job = {}
    for job in running:
        name = next((name for name in _names(job) if name in given), None)
        reading = _by_activity(job, gpus) if name is None else measured.get(name)
        if reading is not None:
            by_job[job.key] = reading
    return by_job


def _names(job: Job) -> tuple[str, ...]:
    """Return what throughput may call a job: its id, else the scheduler's own number, where there is one."""
    # Programs know themselves by the number: of an array's task it is not the id that people use.
    return (job.job_id,) if job.raw_id is None else (job.job_id, str(job.raw_id))


def _by_activity(job: Job, gpus: HeldGpus) -> ThroughputSample | None:
    """Return the activity of a job's GPUs, added up; None where one of them is unknown, or they do nothing."""
    held = [gpu for part in job.allocations for gpu in gpus.of(part)]
    active = [gpu.activity for gpu in held if gpu is not None and gpu.activity is not None]
    if not held or len(active) < len(held) or sum(active) < LEAST_ACTIVITY * len(held):
        return None
    return ThroughputSample(ACTIVITY, sum(active), min(gpu.time_s for gpu in held if gpu is not None))


class Models:
    """The GPU models of nodes and partitions."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by_node: dict[str, str] = {}
        self._by_partition: dict[str, set[str]] = {}
        for node in nodes:
            self._by_node[node.name] = node.gpu_model
            for partition in node.partitions if node.gpus else ():
                self._by_partition.setdefault(partition, set()).add(node.gpu_model)

    def of(self, job: Job) -> str:
        """Return the model of a job's GPUs, or of those it asks for; '' where it may be any of several."""
        held = {self._by_node.get(part.node, "") for part in job.allocations}
        partitions = (self._by_partition.get(partition, set()) for partition in job.partition.split(","))
        may = held or ({job.request.gpu_model} if job.request.gpu_model else set().union(*partitions))
        return next(iter(may)) if len(may) == 1 else ""

"""Watching how fast runs are: by the site's own throughput where it measures one, else by the activity of their GPUs.

Nothing but a mean is kept of a run. Jobs are alike when user, name (without what varies from run to run) and GPU model
are; what one basis says is never mixed with what another does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ....storage.records import GpuReading, Job, JobState, Node
from ....storage.speeds import RunSpeed, Throughput
from ...replay.prediction import template

THROUGHPUT, ACTIVITY = "throughput", "activity"
LEAST_SAMPLES = 3
"""Readings before a run counts."""
LEAST_ACTIVITY = 0.05
"""A job that does nothing has no speed."""
MEMORY = 48
"""Last runs of like jobs that count: users change their programs."""
MOST_KINDS = 5_000
"""Kinds of jobs that are remembered; those seen last."""

Kind = tuple[str, str, str]
"""User, template and GPU model."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How fast a job was at one moment."""

    basis: str
    rate: float
    time_s: float


def kind_of(job: Job, gpu_model: str) -> Kind:
    """Return which jobs are like this one."""
    return job.user, template(job.name), gpu_model.lower()


class Runs:
    """The runs that were watched, by kind."""

    def __init__(self, past: Iterable[RunSpeed] = ()) -> None:
        self._by_kind: dict[Kind, dict[tuple[str, float, float, str], RunSpeed]] = {}
        self._changed: dict[tuple[str, float, float, str], RunSpeed] = {}
        for run in past:
            self._keep((run.user, run.template, run.gpu_model), run)

    def watch(self, job: Job, kind: Kind, reading: Reading) -> None:
        """Take a reading into the mean of a run; one that is not newer than the last is no news."""
        if job.start_s is None or not (math.isfinite(reading.rate) and reading.rate > 0):
            return
        gpus = sum(part.gpus for part in job.allocations)
        run = self._by_kind.get(kind, {}).get((*job.key, job.start_s, reading.basis))
        if run is None or run.gpus != gpus:  # one that was shrunk is another job from then on
            run = RunSpeed(job.job_id, job.submit_s, job.start_s, *kind, gpus, len(job.allocations), reading.basis,
                           0.0, 0, -math.inf)
        if gpus <= 0 or reading.time_s <= run.last_s:
            return
        mean = (run.rate * run.samples + reading.rate) / (run.samples + 1)
        self._keep(kind, replace(run, rate=mean, samples=run.samples + 1, last_s=reading.time_s))
        self._changed[_key(run)] = self._by_kind[kind][_key(run)]

    def of(self, kind: Kind, basis: str) -> list[RunSpeed]:
        """Return the last runs of a kind that were seen for long enough."""
        found = [run for run in self._by_kind.get(kind, {}).values()
                 if run.basis == basis and run.samples >= LEAST_SAMPLES]
        return found[-MEMORY:]

    def changed(self) -> list[RunSpeed]:
        """Return the runs of which there was news since this was last asked."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def _keep(self, kind: Kind, run: RunSpeed) -> None:
        runs = self._by_kind.pop(kind, {})
        runs.pop(_key(run), None)
        runs[_key(run)] = run  # the one seen last is the last
        while len(runs) > 2 * MEMORY:
            del runs[next(iter(runs))]
        self._by_kind[kind] = runs
        while len(self._by_kind) > MOST_KINDS:
            del self._by_kind[next(iter(self._by_kind))]


def _key(run: RunSpeed) -> tuple[str, float, float, str]:
    return run.job_id, run.submit_s, run.start_s, run.basis


def readings(jobs: Iterable[Job], throughput: Iterable[Throughput], gpus: Iterable[GpuReading]) -> dict[str, Reading]:
    """Return how fast running jobs are, by id: as the site measures it, else by activity.

    A job that two sources give has none of that basis: nobody knows which of them is meant.
    """
    given: dict[str, list[Reading]] = {}
    for source in throughput:
        for rate in source.rates:
            given.setdefault(rate.job_id, []).append(Reading(THROUGHPUT, rate.rate, source.time_s))
    measured = {job_id: found[0] for job_id, found in given.items() if len(found) == 1}
    boards = {(gpu.node, gpu.index): gpu for gpu in gpus}
    found = {}
    for job in jobs:
        if job.state is not JobState.RUNNING:
            continue
        # Programs know themselves by the scheduler's own number: of an array's task it is not the one people use.
        name = job.job_id if job.job_id in given else str(job.raw_id)
        reading = measured.get(name) if name in given else _by_activity(job, boards)
        if reading is not None:
            found[job.job_id] = reading
    return found


def _by_activity(job: Job, boards: Mapping[tuple[str, int], GpuReading]) -> Reading | None:
    """Return the activity of a job's GPUs, added up; None where one of them is unknown, or they do nothing."""
    places = [(part.node, index) for part in job.allocations for index in part.gpu_indexes or (-1,) * part.gpus]
    held = [boards.get(place) for place in places]
    active = [board.activity for board in held if board is not None and board.activity is not None]
    if not held or len(active) < len(held) or sum(active) < LEAST_ACTIVITY * len(held):
        return None
    return Reading(ACTIVITY, sum(active), min(board.time_s for board in held if board is not None))


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

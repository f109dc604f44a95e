"""Whose watts they are: of every node, what each run takes of its GPUs and of its host, and what nobody holds.

The rules, stated once: a GPU's watts are its holder's; where several jobs hold one GPU, instances (MIG) have parts by
their slices and activity, others (shards, MPS, time slicing, fractions) by what the scheduler records that each holds,
else equal ones (``instances``). The watts of a host are divided
among the jobs that hold its GPUs, by their number; on a server without GPUs among its jobs, by their CPUs. What is left
is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...storage.power_classes import PowerClass
from ...storage.records import Job
from .assessment import CLASSES, COLUMN, GpuVerdict
from .holders import GpuHolder, GpuSlot
from .instances import parts
from .readings import WatchedGpu

COLUMNS = len(CLASSES) + 5
GPUS, MEASURED, ACTIVE, SHARED, MEMORY = range(len(CLASSES), COLUMNS)
"""Behind the watts by class: GPUs held, those with activity measured, the sum of that, those that others hold too, and
bytes in use of the fullest."""

Key = tuple[str, str, float, float]
"""Node and run; of what nobody holds, node and partition."""
_ROUNDING = 1e-9
_SPLIT = (PowerClass.ALLOCATED_UNDERUSED, PowerClass.PRODUCTIVE)
_UNDERUSED, _PRODUCTIVE = (COLUMN[row] for row in _SPLIT)


class Share:
    """What one run, or nobody, takes of one node at one moment."""

    __slots__ = ("idle", "job", "key", "model", "node", "partition", "values")

    def __init__(self, node: str, partition: str, job: Job | None) -> None:
        self.node, self.partition, self.job = node, partition, job
        self.key: Key = (node, partition, -1.0, -1.0) if job is None else (node, job.job_id, job.submit_s, began(job))
        self.values = [0.0] * COLUMNS
        self.model = ""
        self.idle: list[int] = []
        """GPUs that the run was never seen to use."""


def began(job: Job) -> float:
    """Return what tells a job's runs apart."""
    return job.submit_s if job.start_s is None else job.start_s


class NodeShares:
    """The shares of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._jobs: dict[tuple[str, float], Share] = {}
        self._nobody: dict[str, Share] = {}
        self._anonymous = 0
        """GPUs that somebody holds whom nobody names."""

    @property
    def all(self) -> list[Share]:
        """Return the shares, those of jobs first."""
        return [*self._jobs.values(), *self._nobody.values()]

    def add_gpus(self, verdicts: Sequence[GpuVerdict], taken: Mapping[int, GpuHolder],
                 places: Sequence[GpuSlot]) -> None:
        """Add the watts of GPUs to who holds them; ``taken`` are their holders by position."""
        last: Share | None = None
        for position, verdict in enumerate(verdicts):
            holder = taken.get(position)
            job = None if holder is None else holder.job
            if holder is None or job is None:
                self._anonymous += holder is not None
                _add_watts(self._free(verdict.partition).values, verdict, 1.0)
            elif holder.others or holder.shares:
                self._add_shared(holder, verdict, places[position].gpu)
            else:
                if last is None or job is not last.job:
                    last = self._of(job)
                _take(last, verdict, places[position].gpu, 1.0)

    def _add_shared(self, holder: GpuHolder, verdict: GpuVerdict, gpu: WatchedGpu | None) -> None:
        """Divide a GPU among those who hold it, and give nobody what is left."""
        told = () if gpu is None else gpu.reading.instances
        floor = verdict.floor.watts if verdict.floor is not None else None
        found = parts(holder.jobs, told, verdict.watts, floor, holder.shares)
        shares = holder.shares or (None,) * len(found)
        for job, part, share in zip(holder.jobs, found, shares, strict=True):
            _take(self._of(job), verdict, gpu, part, 1.0 / len(found) if share is None else share)
        left = 1.0 - sum(found)
        if left > _ROUNDING:
            _add_watts(self._free(verdict.partition).values, verdict, left)

    def add_host(self, power_class: PowerClass, watts: float, partition: str, cpus: Iterable[tuple[Job, int]]) -> None:
        """Divide the watts of the host; ``cpus`` are held by the jobs of a server without GPUs."""
        weights = [(share, share.values[GPUS]) for share in self._jobs.values()]
        weights += [(self._of(job), float(held)) for job, held in cpus]
        total = sum([weight for _, weight in weights]) + self._anonymous
        column, left = COLUMN[power_class], watts
        for share, weight in weights if total > 0.0 else ():
            part = watts * weight / total
            share.values[column] += part
            left -= part
        if self._anonymous or total <= 0.0:
            self._free(partition).values[column] += left

    def _of(self, job: Job) -> Share:
        share = self._jobs.get(job.key)
        if share is None:
            share = self._jobs[job.key] = Share(self._node, job.partition, job)
        return share

    def _free(self, partition: str) -> Share:
        share = self._nobody.get(partition)
        if share is None:
            share = self._nobody[partition] = Share(self._node, partition, None)
        return share


def _take(share: Share, verdict: GpuVerdict, gpu: WatchedGpu | None, watts: float, part: float = 1.0) -> None:
    """Add a part of a GPU's watts, and of its time, to who holds it."""
    values = share.values
    _add_watts(values, verdict, watts)
    values[GPUS] += part
    if part != 1.0:
        values[SHARED] += part
    if verdict.activity is not None:
        values[MEASURED] += part
        values[ACTIVE] += part * verdict.activity
    share.model = verdict.model or share.model
    if gpu is None:
        share.idle.append(verdict.index)
        return
    if not gpu.trail.worked:
        share.idle.append(verdict.index)
    memory = gpu.reading.memory_used_bytes
    if memory is not None and memory > values[MEMORY]:
        values[MEMORY] = memory


def _add_watts(values: list[float], verdict: GpuVerdict, part: float) -> None:
    watts = verdict.watts
    if watts is None:
        return
    if verdict.state in _SPLIT:
        values[_UNDERUSED] += verdict.wasted_watts * part
        values[_PRODUCTIVE] += (watts - verdict.wasted_watts) * part
    else:
        values[COLUMN[verdict.state]] += watts * part

"""Which GPUs and parts of them jobs hold, as exporters tell it: it is recorded where the scheduler does not say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..storage.gpu_parts import GpuPart
from ..storage.records import Allocation, Job, SchedulerSnapshot
from ..storage.telemetry import GpuReading
from .waste.holders import names_of


def with_parts(snapshot: SchedulerSnapshot, gpus: Iterable[GpuReading]) -> SchedulerSnapshot:
    """Return the snapshot with the parts that running jobs hold: MIG instances, and GPUs that several jobs hold.

    A part for which the scheduler names no GPU gets the one on which an exporter names the job. Nothing is added to
    jobs whose parts the scheduler reports in full. Whole GPUs that no scheduler names, as on Kubernetes, are those
    on which an exporter names the job, if these are as many as it holds and nobody else is named there.
    """
    divided: dict[str, list[GpuReading]] = {}
    for gpu in gpus:
        if gpu.instances or gpu.jobs:
            divided.setdefault(gpu.node, []).append(gpu)
    if not divided:
        return snapshot
    counts = _holders(snapshot.jobs, divided)
    return replace(snapshot, jobs=tuple(_with_parts_of(job, divided, counts) for job in snapshot.jobs))


def _holders(jobs: Iterable[Job], divided: dict[str, list[GpuReading]]) -> dict[str, int]:
    """Return by GPU how many of the jobs are named on it."""
    counts: dict[str, int] = {}
    for job in jobs:
        if job.state.active:
            names = names_of(job)
            for part in job.allocations:
                for gpu in divided.get(part.node, ()):
                    if not names.isdisjoint(gpu.jobs):
                        counts[gpu.uuid] = counts.get(gpu.uuid, 0) + 1
    return counts


def _with_parts_of(job: Job, divided: dict[str, list[GpuReading]], counts: dict[str, int]) -> Job:
    if not job.state.active or not any(part.node in divided for part in job.allocations):
        return job
    names = names_of(job)
    held = tuple(_completed(part, names, divided.get(part.node, ()), counts) for part in job.allocations)
    return job if held == job.allocations else replace(job, allocations=held)


def _completed(held: Allocation, names: set[str], gpus: Sequence[GpuReading], counts: dict[str, int]) -> Allocation:
    job_gpus = [gpu for gpu in gpus if not names.isdisjoint(gpu.jobs)]
    if held.parts:
        loose = [part for part in held.parts if part.index is None and not part.uuid]
        if len(job_gpus) != 1 or not loose:
            return held
        return replace(held, parts=tuple(
            replace(part, index=job_gpus[0].index, uuid=job_gpus[0].uuid) if part in loose else part
            for part in held.parts))
    parts = tuple(part for gpu in job_gpus for part in _parts(gpu, names, counts))
    if parts:
        return replace(held, parts=parts)
    indexes = _indexes(held, job_gpus, gpus) if held.gpu_indexes is None else ()
    return replace(held, gpu_indexes=indexes) if indexes else held


def _indexes(held: Allocation, own_gpus: Sequence[GpuReading], gpus: Sequence[GpuReading]) -> tuple[int, ...]:
    """Return the numbers of the GPUs on which a job is named; () where these are others than it holds."""
    numbers = {gpu.index for gpu in own_gpus}
    # Of GPUs of two vendors each is counted from 0: a number says nothing.
    others = (gpu for gpu in gpus if gpu not in own_gpus)
    alone = len(numbers) == len(own_gpus) == held.gpus and not any(gpu.index in numbers for gpu in others)
    return tuple(sorted(numbers)) if alone else ()


def _parts(gpu: GpuReading, names: set[str], counts: dict[str, int]) -> list[GpuPart]:
    if gpu.instances:
        return [GpuPart("mig", gpu.index, float(instance.number), instance.slices, gpu.uuid)
                for instance in gpu.instances if instance.number.isdecimal() and not names.isdisjoint(instance.jobs)]
    return [GpuPart("shared", gpu.index, 1.0, None, gpu.uuid)] if counts.get(gpu.uuid, 0) > 1 else []

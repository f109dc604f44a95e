"""What shards and MPS hold of a GPU: Slurm tells a job's number of them, and how many a node has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...storage.gpu_parts import GpuPart
from ...storage.records import Allocation, Job, Node


def with_shares(jobs: tuple[Job, ...], nodes: Iterable[Node]) -> tuple[Job, ...]:
    """Return the jobs with the share that each of their parts is of its GPU; every GPU of a node has equally many."""
    if not any(part.parts for job in jobs for part in job.allocations):
        return jobs
    per_gpu = {(node.name, kind): total / node.gpus
               for node in nodes if node.gpus > 0 for kind, total, _ in node.slices}
    return tuple(replace(job, allocations=tuple(_shared(part, per_gpu) for part in job.allocations)) for job in jobs)


def _shared(held: Allocation, per_gpu: Mapping[tuple[str, str], float]) -> Allocation:
    if not held.parts:
        return held
    several = {part.kind for part in held.parts if sum(other.kind == part.kind for other in held.parts) > 1}
    return replace(held, parts=tuple(_share(part, per_gpu.get((held.node, part.kind)), part.kind in several)
                                     for part in held.parts))


def _share(part: GpuPart, most: float | None, several: bool) -> GpuPart:
    """Return a part with its share; of several GPUs that are not taken whole nobody knows how much of each it is."""
    if not most or part.units > most or (several and part.units < most):
        return part
    return replace(part, share=part.units / most)

"""Whose watts of a GPU they are that several jobs hold by instances (MIG): by slices at idle, by activity above it.

What the GPU draws idle is divided by the slices of its instances; what it draws above that, as by Kepler from DCGM, by
how active each instance is, weighed by its slices; where none is active, by slices too. What belongs to instances that
nobody holds is nobody's. Slices without an instance have no part, so that all instances make the GPU.

Of shards, MPS, time slicing and fractions nobody tells who drew what. Where the scheduler records how much of the GPU
each job holds, idle draw is divided by that, what nobody holds of it is nobody's, and the jobs have the rest in that
proportion. Where it does not, or a job is named on no instance, the jobs have equal parts of all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...storage.records import Job
from ...storage.telemetry import GpuInstance


def parts(jobs: Sequence[Job], instances: Sequence[GpuInstance], watts: float | None, idle: float | None,
          shares: Sequence[float | None] = ()) -> list[float]:
    """Return each job's part of the GPU's watts; together 1, or less where some of the GPU is nobody's.

    ``shares`` is what the scheduler records of each job: of the GPU, 0..1.
    """
    equal = [1.0 / len(jobs)] * len(jobs) if None in shares or not shares else _by_share(shares, watts, idle)
    held = [[one for one in instances if names_of(job) & set(one.jobs)] for job in jobs]
    slices = sum(one.slices for one in instances)
    if not instances or not all(held) or not watts or idle is None or slices <= 0:
        return equal
    if len({one.number for some in held for one in some}) < sum(map(len, held)):
        return equal  # two jobs in one instance
    floor = min(idle, watts)
    weights = {one.number: (one.activity or 0.0) * one.slices for one in instances}
    active = sum(weights.values())
    own = {one.number: (floor * one.slices / slices + (watts - floor) * (
        weights[one.number] / active if active > 0 else one.slices / slices)) / watts for one in instances}
    return [sum(own[one.number] for one in some) for some in held]


def _by_share(shares: Sequence[float | None], watts: float | None, idle: float | None) -> list[float]:
    """Return the parts of jobs that hold shares; more than the whole GPU is handed out where jobs take turns."""
    held = [share or 0.0 for share in shares]
    total = sum(held)
    if total >= 1.0 or not watts or idle is None:
        return [share / total for share in held]
    floor = min(max(idle, 0.0), watts)
    return [(floor * share + (watts - floor) * share / total) / watts for share in held]


def names_of(job: Job) -> set[str]:
    """Return how exporters may name a job: by its ids, or by its members."""
    names = {job.job_id, *(name for part in job.allocations for name in part.members)}
    return names if job.raw_id is None else names | {str(job.raw_id)}

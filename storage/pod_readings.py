"""What a job of several pods uses of a server, where an exporter tells of pods and not of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from .records import Job
from .telemetry import JobReading


def by_job(readings: Iterable[JobReading], jobs: Iterable[Job]) -> Mapping[tuple[str, str], JobReading]:
    """Return readings by job and server; of pods (``namespace/name``) those of one job together.

    A job with a pod that was not read is left out: the use of its other pods would look like all of its use.
    """
    found = {(reading.job_id, reading.node): reading for reading in readings}
    places: dict[str, list[str]] = {}
    for name, node in found:
        if "/" in name:
            places.setdefault(name, []).append(node)
    for job in jobs if places else ():
        found |= _together(job, found, places)
    return found


def _together(job: Job, found: Mapping[tuple[str, str], JobReading],
              places: Mapping[str, list[str]]) -> dict[tuple[str, str], JobReading]:
    together: dict[tuple[str, str], JobReading] = {}
    if job.steering is None:
        return together
    for name in (f"{job.steering.namespace}/{pod}" for pod in job.steering.pods):
        if name not in places:
            return {}
        for node in places[name]:
            one, before = found[name, node], together.get((job.job_id, node))
            together[job.job_id, node] = replace(one, job_id=job.job_id) if before is None else replace(
                before, time_s=min(before.time_s, one.time_s), cpu_seconds=_sum(before.cpu_seconds, one.cpu_seconds),
                memory_used_bytes=_sum(before.memory_used_bytes, one.memory_used_bytes))
    return together


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other

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
    reading_of = {(reading.job_id, reading.node): reading for reading in readings}
    places: dict[str, list[str]] = {}
    for name, node in reading_of:
        if "/" in name:
            places.setdefault(name, []).append(node)
    for job in jobs if places else ():
        reading_of |= _together(job, reading_of, places)
    return reading_of


def _together(job: Job, reading_of: Mapping[tuple[str, str], JobReading],
              places: Mapping[str, list[str]]) -> dict[tuple[str, str], JobReading]:
    together: dict[tuple[str, str], JobReading] = {}
    if job.steering is None:
        return together
    for name in (f"{job.steering.namespace}/{pod}" for pod in job.steering.pods):
        if name not in places:
            return {}
        for node in places[name]:
            reading, before = reading_of[name, node], together.get((job.job_id, node))
            together[job.job_id, node] = replace(reading, job_id=job.job_id) if before is None else replace(
                before, time_s=min(before.time_s, reading.time_s),
                cpu_seconds=_sum(before.cpu_seconds, reading.cpu_seconds),
                memory_used_bytes=_sum(before.memory_used_bytes, reading.memory_used_bytes))
    return together


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second

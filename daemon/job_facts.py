"""Publishes running jobs one by one, as few as are asked for: those that waste most power."""

from __future__ import annotations

from typing import Any

from ..storage.records import SchedulerSnapshot
from .waste import Assessment


def job_facts(found: Assessment, snapshot: SchedulerSnapshot | None, most: int) -> dict[str, Any]:
    """Return power, wasted power and start of the jobs that waste most; nothing of one without a measured GPU."""
    if not most or snapshot is None:
        return {}
    power: dict[str, float] = {}
    wasted: dict[str, float] = {}
    for gpu in found.gpu_verdicts:
        if gpu.job_id and gpu.watts is not None:
            power[gpu.job_id] = power.get(gpu.job_id, 0.0) + gpu.watts
            wasted[gpu.job_id] = wasted.get(gpu.job_id, 0.0) + gpu.wasted_watts
    jobs = {job.job_id: job for job in snapshot.jobs if job.state.active and job.job_id in power}
    chosen = sorted(jobs.values(), key=lambda job: (-wasted[job.job_id], job.job_id))[:most]
    labels = {job.job_id: (job.job_id, job.partition, job.user, job.account) for job in chosen}
    return {"job_power_watts": {labels[job.job_id]: power[job.job_id] for job in chosen},
            "job_wasted_power_watts": {labels[job.job_id]: wasted[job.job_id] for job in chosen},
            "job_start_timestamp_seconds": {labels[job.job_id]: job.start_s for job in chosen}}

"""Publishes jobs: those that waste most power one by one, all others by partition and flavour, and users' queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from ..exporters.metrics.declared import FLAVOURS, QUEUES
from ..storage.finished import Finished
from ..storage.power_classes import PowerClass
from ..storage.records import JobState, SchedulerSnapshot
from .waste import Assessment, GpuVerdict

Holder = TypeVar("Holder", bound=Hashable)


def power_and_waste(gpus: Iterable[tuple[Holder, GpuVerdict]]) -> tuple[dict[Holder, float], dict[Holder, float]]:
    """Return measured watts by holder, and wasted ones as far as they are known.

    Of a holder with a GPU whose work is not measured the waste may be known in part; that it wastes nothing is not
    known, and then it has no figure.
    """
    power: dict[Holder, float] = {}
    wasted: dict[Holder, float] = {}
    dark: set[Holder] = set()
    for holder, gpu in gpus:
        if gpu.watts is not None:
            power[holder] = power.get(holder, 0.0) + gpu.watts
        if gpu.state is PowerClass.UNMEASURED:
            dark.add(holder)
        else:
            wasted[holder] = wasted.get(holder, 0.0) + gpu.wasted_watts
    return power, {holder: watts for holder, watts in wasted.items() if watts or holder not in dark}


def job_facts(assessment: Assessment, snapshot: SchedulerSnapshot | None, most: int) -> dict[str, object]:
    """Return power, wasted power and start of the jobs that waste most; nothing of one without a measured GPU."""
    if not most or snapshot is None:
        return {}
    power, wasted = power_and_waste((gpu.job_id, gpu) for gpu in assessment.gpu_verdicts if gpu.job_id)
    jobs = {job.job_id: job for job in snapshot.jobs if job.state.active and job.job_id in power}
    chosen = sorted(jobs.values(), key=lambda job: (-wasted.get(job.job_id, 0.0), job.job_id))[:most]
    labels = {job.job_id: (job.job_id, job.partition, job.user, job.account, job.flavour or "") for job in chosen}
    return {"job_power_watts": {labels[job.job_id]: power[job.job_id] for job in chosen},
            "job_wasted_power_watts": {labels[job.job_id]: wasted[job.job_id] for job in chosen
                                       if job.job_id in wasted},
            "job_start_timestamp_seconds": {labels[job.job_id]: job.start_s for job in chosen}}


def queues(snapshot: SchedulerSnapshot) -> dict[str, object]:
    """Return jobs by partition, flavour and state, and the longest queues of users."""
    counts: Counter[tuple[str, str, str]] = Counter()
    waiting, gpus = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for job in snapshot.jobs:
        state = "queued" if job.state is JobState.PENDING else "running" if job.state.active else ""
        if state:
            counts[job.partition, job.flavour or "", state] += job.tasks
        if state == "queued":
            waiting[job.user, job.partition] += job.tasks
            gpus[job.user, job.partition] += job.tasks * job.request.gpus
    longest = sorted(waiting, key=lambda queue: (-waiting[queue], queue))[:QUEUES]
    return {"jobs": {key: float(count) for key, count in counts.most_common(2 * FLAVOURS)},
            "user_queued_jobs": {queue: float(waiting[queue]) for queue in longest},
            "user_queued_gpus": {queue: float(gpus[queue]) for queue in longest}}


def fared(windows: Mapping[str, Sequence[Finished]]) -> dict[str, object]:
    """Return how the jobs of the last day and week fared."""
    columns = {"finished_jobs": "jobs", "job_wait_mean_seconds": "wait_mean_s", "job_run_mean_seconds": "run_mean_s",
               "job_completion_mean_seconds": "completion_mean_s", "job_slowdown_mean_ratio": "slowdown_mean",
               "job_makespan_seconds": "makespan_s"}
    return {metric: {(window.partition, window.flavour, name): float(getattr(window, column))
                     for name, finished in windows.items() for window in finished}
            for metric, column in columns.items()}


def flavour_facts(assessment: Assessment, snapshot: SchedulerSnapshot | None) -> dict[str, object]:
    """Return power and wasted power of the GPUs that jobs hold, by partition and flavour, as far as it is measured."""
    flavours = {job.job_id: job.flavour for job in snapshot.jobs if job.state.active} if snapshot is not None else {}
    power, wasted = power_and_waste(((gpu.partition, flavour), gpu) for gpu in assessment.gpu_verdicts
                                    if (flavour := flavours.get(gpu.job_id)) is not None)
    return {"flavour_power_watts": power, "flavour_wasted_power_watts": wasted}

"""Publishes jobs: those that waste most power one by one, all others by partition and flavour, and users' queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from ..exporters.metrics.declared import FLAVOURS, QUEUES
from ..storage.finished import Finished
from ..storage.power_classes import PowerClass
from ..storage.records import Job, JobState, SchedulerSnapshot
from .waste import Assessment, GpuVerdict, run_of

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
    power, wasted = power_and_waste((gpu.run, gpu) for gpu in assessment.gpu_verdicts if gpu.run is not None)
    jobs = [job for job in snapshot.jobs if job.state.active and run_of(job) in power]
    chosen = sorted(jobs, key=lambda job: (-wasted.get(run_of(job), 0.0), job.job_id, job.submit_s))[:most]
    facts: dict[str, dict[tuple[str, ...], float | None]] = {
        "job_power_watts": {}, "job_wasted_power_watts": {}, "job_start_timestamp_seconds": {}}
    for job in chosen:
        # Two clusters may have jobs that labels do not tell apart: their watts are one series.
        labels, run = (job.job_id, job.partition, job.user, job.account, job.flavour or ""), run_of(job)
        for name, watts in (("job_power_watts", power.get(run)), ("job_wasted_power_watts", wasted.get(run))):
            if watts is not None:
                facts[name][labels] = (facts[name].get(labels) or 0.0) + watts
        facts["job_start_timestamp_seconds"].setdefault(labels, job.start_s)
    return dict(facts)


def counted_in(job: Job) -> str:
    """Return the partition in which a job counts: of several that it may run in the first, so that sums stay exact."""
    return job.partition.split(",")[0]


def queues(snapshot: SchedulerSnapshot) -> dict[str, object]:
    """Return jobs by partition, flavour and state, and the longest queues of users."""
    counts: Counter[tuple[str, str, str]] = Counter()
    waiting, gpus = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for job in snapshot.jobs:
        state = "queued" if job.state is JobState.PENDING else "running" if job.state.active else ""
        if state:
            counts[counted_in(job), job.flavour or "", state] += job.tasks
        if state == "queued":
            waiting[job.user, counted_in(job)] += job.tasks
            gpus[job.user, counted_in(job)] += job.tasks * job.request.gpus
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
    jobs = snapshot.jobs if snapshot is not None else ()
    flavours = {run_of(job): job.flavour for job in jobs if job.state.active}
    power, wasted = power_and_waste(((gpu.partition, flavour), gpu) for gpu in assessment.gpu_verdicts
                                    if gpu.run is not None and (flavour := flavours.get(gpu.run)) is not None)
    return {"flavour_power_watts": power, "flavour_wasted_power_watts": wasted}

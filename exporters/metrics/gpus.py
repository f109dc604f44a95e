"""What the GPUs and the jobs on them are doing."""

from __future__ import annotations

from dataclasses import dataclass

from ...storage.power_classes import GPU_CLASSES, GPU_CODES, NODE_STATES, PowerClass
from ...storage.records import StrandedCause
from ...storage.waiting import WaitReason
from .declared import FLAVOURS, NODES, PARTITIONS, QUEUES, WAITS, Distributions, Series, counter, gauge, histogram


@dataclass(frozen=True)
class GpuMetrics:
    """States of GPUs, queues, waits and what jobs leave."""

    gpus: Series = gauge(
        "GPUs by state (the power class of the GPU). Allocation from the scheduler, activity from DCGM.",
        "partition", "state", cap=PARTITIONS * len(PowerClass), known=GPU_CLASSES)
    allocated_gpus: Series = gauge(
        "GPUs that jobs hold, whether they are measured or not; those out of service left out. From the scheduler.",
        "partition", cap=PARTITIONS)
    node_gpus: Series = gauge(
        "GPUs of a node by state. Allocation from the scheduler; one sample per state for every node.",
        "node", "state", cap=NODES * len(NODE_STATES), known=NODE_STATES)
    gpu_state: Series = gauge(
        "State of a GPU as a number: " + ", ".join(f"{code} {state}" for state, code in GPU_CODES.items()) + ". "
        "Allocation from the scheduler, activity from DCGM. Two GPUs of a node with one number go by their UUIDs.",
        "node", "gpu", cap=NODES * 8)
    stranded_gpus: Series = gauge(
        "Free GPUs that no eligible pending job can use, by the constraint that binds first. From the scheduler.",
        "partition", "cause", cap=PARTITIONS * len(StrandedCause), known=StrandedCause)
    pending_jobs: Series = gauge(
        "Jobs that wait, by reason (resources, priority, quota, held, ...; none where the scheduler names none); each "
        "task of an array counts, in the first of several partitions that it may run in.", "partition", "reason",
        cap=PARTITIONS * len(WaitReason))
    job_wait_seconds: Distributions = histogram(
        "Real waits of jobs in seconds, from when they could start until they first did, by partition, account and "
        "GPUs requested; of those that started since the daemon did. Accounts beyond the first 40 are (other).",
        "partition", "account", "gpus", cap=WAITS)
    jobs: Series = gauge(
        "Jobs by what they do now: queued or running, each task of an array. From the scheduler.",
        "partition", "flavour", "state", cap=2 * FLAVOURS)
    user_queued_jobs: Series = gauge(
        "Jobs that a user has in the queue, each task of an array; the 50 longest queues.", "user", "partition",
        cap=QUEUES)
    user_queued_gpus: Series = gauge(
        "GPUs that a user's jobs in the queue request; the 50 longest queues.", "user", "partition", cap=QUEUES)
    finished_jobs: Series = gauge(
        "Jobs that ran and ended within the last day (1d) or week (7d), those that were requeued left out; from the "
        "recorded history, as all means over them.", "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_wait_mean_seconds: Series = gauge(
        "Mean wait of the jobs that ended within the window in seconds, from when they could start until they did.",
        "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_run_mean_seconds: Series = gauge(
        "Mean run time of the jobs that ended within the window in seconds.", "partition", "flavour", "window",
        cap=2 * FLAVOURS)
    job_completion_mean_seconds: Series = gauge(
        "Mean completion time of the jobs that ended within the window in seconds, from when they could start to their "
        "end.",
        "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_slowdown_mean_ratio: Series = gauge(
        "Mean bounded slowdown of the jobs that ended within the window: completion over run time, both of at least "
        "10 s; 1 is no wait.",
        "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_makespan_seconds: Series = gauge(
        "Makespan of the jobs that ended within the window in seconds: from the first of their submissions within it "
        "to the last end.",
        "partition", "flavour", "window", cap=2 * FLAVOURS)
    fragmentation_ratio: Series = gauge(
        "Share of free GPUs that the usual demand of the last seven days cannot use (FGD, ATC'23).",
        "partition", cap=PARTITIONS)
    utilization_ratio: Series = gauge(
        "Share of GPU time that jobs held over the window, Eq. (4) of the GIST AI-X paper; basis limit counts the "
        "requested time limit of jobs that have ended, and exceeds 1 where others run on their GPUs since; actual the "
        "time really used. From the scheduler.",
        "partition", "basis", cap=PARTITIONS * 2)
    paper_inefficient_power_watts: Series = gauge(
        "Rated power x (1 - utilisation) in watts; upper bound, not a measurement, and below 0 where utilisation by "
        "limit exceeds 1.",
        "partition", "basis", cap=PARTITIONS * 2)
    unmeasured_gpus: Series = gauge(
        "GPUs without fresh power, or allocated without activity, from DCGM; they are in no wasted figure.",
        "partition", cap=PARTITIONS)
    unmeasured_hosts: Series = gauge(
        "Empty nodes with GPUs whose draw beside these nobody measures or estimates; it is in no wasted figure.",
        "partition", cap=PARTITIONS)
    unmeasured_busy_hosts: Series = gauge(
        "Busy nodes with GPUs that nobody uses whose draw beside their GPUs nobody measures or estimates; their unused "
        "part is in no figure.", "partition", cap=PARTITIONS)
    outside_scheduler_since_timestamp_seconds: Series = gauge(
        "Since when a GPU has been busy although the scheduler says that nobody holds it, in seconds since the epoch.",
        "node", "gpu", cap=NODES * 8)
    gpu_error_info: Series = gauge(
        "GPUs whose driver has reported an error since it was loaded, with NVIDIA's number of the last one; always 1. "
        "From DCGM.", "node", "gpu", "xid", cap=NODES)
    unmeasured_seconds_total: Series = counter(
        "GPU time for which nothing was measured, in seconds: gaps longer than the sampling allows.",
        "partition", cap=PARTITIONS)

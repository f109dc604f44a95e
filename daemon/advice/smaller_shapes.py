"""Which smaller shape of a waiting job would start now: each is tried at the gate that decides on starts, none guessed.

A shape is tried as if it were submitted now, last in line: one that starts then starts from the old place, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...storage.recommendations import Placement
from ...storage.records import Job, JobState, Request, SchedulerSnapshot
from ...storage.waiting import WaitReason
from ..durations import span
from ..replay.admission.gate import UNKNOWN, Gate, Hold
from ..replay.engine import Policy
from ..replay.state import ClusterState
from .feasible_starts import feasible_starts, why_held
from .request_options import gpu_options, host_options, limit_option

SHORTEST_LIMIT_S = 600.0
LEAST_CPUS, LEAST_MEMORY = 2, 2**31
"""Requests below which half of it is no help."""
NEW = "~smaller"
"""Suffix of the id under which a shape is tried."""
MOST_RUNS, WORK = 12, 4000
"""Times that the whole queue is walked for one job, and waiting jobs that are looked at in all of them together."""
TOO_MANY = "too many jobs wait to try every shape; this one has room, but may delay who comes first"


@dataclass(frozen=True, slots=True)
class SmallerRequest:
    """A smaller request, and what the scheduler would do with it now."""

    change: str
    """What is smaller, in words."""
    options: str
    """How it is requested in place of what the job requests: options of ``sbatch``, or words on its pods."""
    verdict: str
    """``starts``, ``waits``, or ``unknown`` where a fact is missing that decides."""
    reason: str
    """Why it would not start, or what is not known; '' of one that would."""
    placement: Placement | None = None
    """Where it would start."""


Candidates = Iterator[tuple[str, str, Job]]
"""What is smaller in words, the options, and the job."""


@dataclass(slots=True)
class ShapeTrial:
    """The base that shapes are tried on: a snapshot without the job itself, the policy, and what its starts leave."""

    others: SchedulerSnapshot
    now_s: float
    policy: Policy
    left: Gate
    """The gate after the start of all waiting jobs that may start."""
    runs: int
    """Times that the queue may yet be walked."""

    def verdict(self, change: str, options: str, job: Job) -> SmallerRequest:
        """Return what would become of a request now."""
        barred = self.left.bars(job)
        first = barred if barred is not None else self.left.copy().admit(job, None)
        if isinstance(first, Hold):
            return _held(change, options, first, "nothing of that size is free either")
        if not self.runs:
            return SmallerRequest(change, options, "unknown", TOO_MANY)
        self.runs -= 1
        state = ClusterState.from_snapshot(replace(self.others, jobs=(*self.others.jobs, job)), self.now_s)
        feasible = feasible_starts(state, self.policy)
        row = next(row for row, record in enumerate(state.records) if record.job_id == job.job_id)
        return SmallerRequest(change, options, "starts", "", feasible.starts[row]) if row in feasible.starts else \
            _held(change, options, why_held(feasible, row, job), "it would delay jobs that come first")


def smaller_shapes(snapshot: SchedulerSnapshot, now_s: float, job: Job, policy: Policy, left: Gate) \
        -> tuple[SmallerRequest, ...]:
    """Return of each kind of shape the largest that would start now, or else what became of the smallest.

    Components of heterogeneous jobs are not tried: () is returned, as for a job that is as small as can be, and for one
    whose partitions take no new jobs.
    """
    draining = {partition.name for partition in snapshot.partitions if partition.draining}
    partition = ",".join(name for name in job.partition.split(",") if name not in draining)
    if job.group or (draining and not partition):
        return ()
    others = tuple(other for other in snapshot.jobs if other.key != job.key)
    waiting = sum(other.state is JobState.PENDING for other in others)
    runs = max(1, min(MOST_RUNS, WORK // (waiting + 1)))
    trial = ShapeTrial(replace(snapshot, jobs=others), now_s, policy, left, runs)
    new = _last_in_line(replace(job, partition=partition), snapshot, now_s)
    kinds = (_fewer_gpus(new), _spread(new), _less_beside(new), _shorter(new))
    return tuple(verdict for kind in kinds if (verdict := _largest(trial, kind)) is not None)


def _largest(trial: ShapeTrial, kind: Candidates) -> SmallerRequest | None:
    verdict = None
    for change, options, job in kind:
        verdict = trial.verdict(change, options, job)
        if verdict.verdict != "waits":
            break
    return verdict


def _held(change: str, options: str, hold: Hold, otherwise: str) -> SmallerRequest:
    return SmallerRequest(change, options, "unknown" if hold.cause == UNKNOWN else "waits", hold.reason or otherwise)


def _last_in_line(job: Job, snapshot: SchedulerSnapshot, now_s: float) -> Job:
    """Return a job as if it were submitted now, with the lowest priority of all that wait."""
    known = [other.priority
             for other in snapshot.jobs if other.state is JobState.PENDING and other.priority is not None]
    return replace(job, job_id=f"{job.job_id}{NEW}", submit_s=now_s, eligible_s=None, state=JobState.PENDING, tasks=1,
                   reason=WaitReason.NONE, reason_text="", expected_start_s=None, scheduled_nodes=(),
                   priority=min(known, default=None), raw_id=None)


def _fewer_gpus(job: Job) -> Candidates:
    gpus = job.request.gpus // 2
    while gpus:
        fewer = _resized(job.request, gpus)
        yield f"{fewer.gpus} of its {job.request.gpus} GPUs", gpu_options(job, fewer), replace(job, request=fewer)
        gpus //= 2


def _resized(request: Request, gpus: int) -> Request:
    """Return a request for fewer GPUs, with CPUs and memory in the same relation, on as few nodes as they need.

    Where each node gives as many as the others, there may be fewer still: so many that all nodes give the same.
    """
    each = request.gpus_per_node
    nodes = max(1, math.ceil(gpus / each)) if each else min(request.nodes, gpus)
    gpus = gpus // nodes * nodes if each else gpus
    share = gpus / request.gpus
    old, on_node = request.details, share * request.nodes / nodes
    details = replace(old, tasks=max(1, math.ceil(old.tasks * share)),
                      most_nodes=min(old.most_nodes, nodes) if old.most_nodes else 0,
                      cpus_per_node=math.ceil(old.cpus_per_node * on_node),
                      memory_per_node_bytes=math.ceil(old.memory_per_node_bytes * on_node))
    return replace(request, gpus=gpus, nodes=nodes, gpus_per_node=None if each is None else gpus // nodes,
                   cpus=math.ceil(request.cpus * share), memory_bytes=math.ceil(request.memory_bytes * share),
                   details=details)


def _spread(job: Job) -> Candidates:
    """Yield the same GPUs on twice and four times as many nodes, of a job that asks for whole parts of few nodes."""
    request = job.request
    each = request.gpus_per_node or request.gpus
    for parts in (2, 4):
        if each % parts == 0 and each > 1 and request.gpus and not request.required_nodes:
            nodes = max(1, request.gpus // each) * parts
            details = replace(request.details, most_nodes=0, tasks_per_node=0, cpus_per_node=0, memory_per_node_bytes=0)
            wider = replace(request, nodes=nodes, gpus_per_node=each // parts, details=details)
            yield f"its {request.gpus} GPUs on {nodes} nodes", gpu_options(job, wider), replace(job, request=wider)


def _less_beside(job: Job) -> Candidates:
    """Yield the same GPUs with half and a quarter of the CPUs and memory."""
    request, details = job.request, job.request.details
    for parts in (2, 4):
        cpus, memory = request.cpus // parts, request.memory_bytes // parts
        if request.cpus >= LEAST_CPUS * parts or request.memory_bytes >= LEAST_MEMORY * parts:
            fewer = replace(details, cpus_per_gpu=details.cpus_per_gpu // parts,
                            cpus_per_node=details.cpus_per_node // parts,
                            memory_per_gpu_bytes=details.memory_per_gpu_bytes // parts,
                            memory_per_node_bytes=details.memory_per_node_bytes // parts,
                            memory_per_cpu_bytes=details.memory_per_cpu_bytes)
            part = "half" if parts == 2 else "a quarter of"
            yield f"{part} its CPUs and memory", host_options(job, cpus, memory), \
                replace(job, request=replace(request, cpus=cpus, memory_bytes=memory, details=fewer))


def _shorter(job: Job) -> Candidates:
    """Yield shorter limits: a job that ends before the next one is due may pass those that come first."""
    for parts in (2, 4, 8):
        if job.limit_s is not None and job.limit_s / parts >= SHORTEST_LIMIT_S:
            minutes = math.floor(job.limit_s / parts / 60)
            yield f"a limit of {span(60.0 * minutes)}", limit_option(job, minutes), \
                replace(job, limit_s=60.0 * minutes, least_limit_s=None)

"""Jobs that hold idle GPUs, since when, and which jobs ending them would let start.

It is a list for a canceller of the site's own: nothing is ended here. Which jobs would start is decided by the gate of
advised starts, once with the job and once without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....exporters.metrics.declared import ADVICE
from ....storage.power_classes import PowerClass
from ....storage.reclaim import Reclaimable, Started
from ....storage.records import Allocation, Job, JobState, Node, SchedulerSnapshot
from ....storage.rules import SchedulerRules
from ...durations import ago
from ...policies import named
from ...replay.admission.limits import licence_choices
from ...replay.engine import Policy
from ...replay.state import ClusterState
from ...settings.recommenders import ReclaimSettings
from ...waste import GpuVerdict, gpus_by_run, run_of
from ..feasible_starts import feasible_starts
from ..recommender import Recommendations, RecommenderContext, RecommenderKind, register

if TYPE_CHECKING:
    from ....exporters.metrics.declared import Labelled, Series

MOST_WORKED_OUT = 10
"""Jobs for which it is worked out which others they keep waiting, most idle GPUs first: each walks the whole queue."""
STALE_S = 120.0
"""An older assessment does not show who holds idle GPUs now: who has begun to work meanwhile must not be listed."""


class ReclaimRecommender:
    """Lists jobs by their idle GPUs, the most first."""

    def __init__(self, settings: ReclaimSettings) -> None:
        self._settings = settings

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return the jobs that hold idle GPUs; none where the assessment is too old."""
        assessment = context.assessment
        if assessment is None or context.now_s - assessment.time_s > STALE_S:
            return Recommendations(context.now_s)
        idle = gpus_by_run(gpu for gpu in assessment.gpu_verdicts if gpu.state is PowerClass.ALLOCATED_IDLE
                           and gpu.since_s is not None and context.now_s - gpu.since_s >= self._settings.window)
        jobs = {job.key: job for job in context.snapshot.jobs if job.state is JobState.RUNNING and run_of(job) in idle}
        rows = [_row(job, idle[run_of(job)], context.now_s) for job in jobs.values()]
        rows.sort(key=lambda row: (-row.gpus_idle, row.since_s, row.job_id))
        advised = tuple(self._with_starts(rows, jobs, context))
        return Recommendations(context.now_s, advised, _metrics(advised))

    def _with_starts(self, rows: Sequence[Reclaimable], jobs: Mapping[tuple[str, float], Job],
                     context: RecommenderContext) -> Iterator[Reclaimable]:
        policy = _policy(context) if rows else None
        before = None if policy is None else _starting(context.snapshot, context.now_s, policy)
        for number, row in enumerate(rows):
            if policy is None or before is None or number >= MOST_WORKED_OUT:
                yield row
                continue
            after = _starting(without(context.snapshot, jobs[row.job_id, row.submit_s]), context.now_s, policy)
            yield replace(row, starts=tuple(after[key] for key in after.keys() - before.keys()))


def _policy(context: RecommenderContext) -> Policy | None:
    """Return the first heuristic that advised: its code is compiled, and agents advise on real snapshots only."""
    names = context.advice.policies if context.advice is not None else ()
    name = next((model for model in names if "@" not in model), None)
    return None if name is None else named(name)


def _starting(snapshot: SchedulerSnapshot, now_s: float, policy: Policy) -> dict[tuple[str, float], Started]:
    """Return the jobs that would start now."""
    state = ClusterState.from_snapshot(snapshot, now_s)
    feasible = feasible_starts(state, policy)
    return {job.key: Started(job.job_id, job.user, sum(feasible.starts[row].gpus))
            for row, job in enumerate(state.records) if row in feasible.starts}


def without(snapshot: SchedulerSnapshot, job: Job) -> SchedulerSnapshot:
    """Return a cluster as it would be had a job just ended."""
    parts = {part.node: part for part in job.allocations}
    others = tuple(other for other in snapshot.jobs if other.key != job.key)
    owned = _still_owned(job, others)
    nodes = tuple(_freed(node, parts[node.name], job, node.name in owned) if node.name in parts else node
                  for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes, jobs=others, rules=_with_licences(snapshot.rules, job))


def _still_owned(job: Job, others: Iterable[Job]) -> set[str]:
    """Return the nodes that stay closed to other users once a job has ended, as far as others' jobs tell."""
    left = [other for other in others if other.state.active and other.user == job.user]
    return {part.node for other in left for part in other.allocations
            if other.request.details.exclusive_user or not job.request.details.exclusive_user}


def _freed(node: Node, part: Allocation, job: Job, owned: bool) -> Node:
    indexes = node.gpu_indexes_allocated
    left = None if indexes is None or part.gpu_indexes is None else tuple(
        index for index in indexes if index not in part.gpu_indexes)
    held = _slices_of(job, part)
    return replace(node, gpus_allocated=max(0, node.gpus_allocated - part.gpus), gpu_indexes_allocated=left,
                   cpus_allocated=max(0, node.cpus_allocated - part.cpus),
                   memory_allocated_bytes=max(0, node.memory_allocated_bytes - part.memory_bytes),
                   slices=tuple((name, total, max(0, taken - held.get(name, 0))) for name, total, taken in node.slices),
                   owner="" if node.owner == job.user and not owned else node.owner)


def _slices_of(job: Job, part: Allocation) -> dict[str, int]:
    """Return the parts of GPUs that a job holds on one node, by its pods there."""
    pods = sum(max(1, len(each.members)) for each in job.allocations)
    return {name: count * max(1, len(part.members)) // pods for name, count in job.request.details.slices}


def _with_licences(rules: SchedulerRules, job: Job) -> SchedulerRules:
    """Return the rules with a job's licences free; nobody tells which of several alternatives it holds."""
    choices = licence_choices(job.request.details.licenses)
    if rules.licenses is None or len(choices) != 1:
        return rules
    held = Counter[str]()
    for name, number in choices[0]:
        held[name] += number
    return replace(rules, licenses=tuple(replace(each, used=max(0, each.used - held[each.name]))
                                         for each in rules.licenses))


def _row(job: Job, idle: list[GpuVerdict], now_s: float) -> Reclaimable:
    held, parts = sum(part.gpus for part in job.allocations), job.allocations
    watts = [gpu.watts for gpu in idle if gpu.watts is not None]
    return Reclaimable(
        job.job_id, job.submit_s, job.start_s or 0.0, job.partition, job.user, job.account, job.name, now_s,
        max(gpu.since_s or 0.0 for gpu in idle), len(idle), held, len(idle) >= held > 0, job.owner_kind.value,
        sum(watts) if len(watts) == len(idle) else None, tuple(part.node for part in parts),
        sum(part.cpus for part in parts), sum(part.memory_bytes for part in parts), None)


def _metrics(rows: tuple[Reclaimable, ...]) -> dict[str, Series]:
    gpus: dict[str, float] = {}
    for row in rows:
        gpus[row.partition] = gpus.get(row.partition, 0.0) + row.gpus_idle
    since: Labelled = {(row.partition, row.job_id, row.user, str(row.gpus_idle)): row.since_s for row in rows[:ADVICE]}
    return {"reclaimable_gpus": gpus, "reclaimable_since_timestamp_seconds": since}


def _cells(row: Mapping[str, Any]) -> Mapping[str, object]:
    starts = row["starts"]
    return {**row, "idle": f"{row['gpus_idle']} of {row['gpus_held']}", "since": ago(row["issued_s"] - row["since_s"]),
            "starts": None if starts is None else ", ".join(f"{start['job_id']} ({start['gpus']})" for start in starts)
            or "nobody"}


register(RecommenderKind("reclaim", Reclaimable, lambda settings, history: ReclaimRecommender(settings), {
    "job_id": "job", "user": "user", "partition": "partition", "idle": "idle GPUs", "since": "for",
    "idle_watts": "W", "starts": "would start (GPUs)"}, _cells, "no job holds idle GPUs"))

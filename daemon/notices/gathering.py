"""What rules look at: running and lately ended jobs with what is recorded of them and what their GPUs do now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...storage.notice_reading import Run
from ...storage.power_classes import WASTED, PowerClass
from ...storage.reading import HistoryReader
from ...storage.records import Job, SchedulerSnapshot
from ..efficiency.findings import RunFacts
from ..efficiency.rows import job_row
from ..pricing import Costing
from ..waste import Assessment, GpuVerdict, gpus_by_run, run_of

STALE_S = 120.0
"""An assessment that is older says nothing of the present."""


@dataclass(slots=True)
class _Gpus:
    idle: dict[str, float] = field(default_factory=dict)
    hung: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, verdicts: Iterable[GpuVerdict]) -> _Gpus:
        """Return those that are idle or hung now, with since when."""
        held = cls()
        for gpu in verdicts:
            name = gpu.uuid or f"{gpu.node}:{gpu.index}"  # two drivers, or exporters, of a node may count alike
            if gpu.since_s is not None and gpu.state is PowerClass.ALLOCATED_IDLE:
                held.idle[name] = gpu.since_s
            elif gpu.since_s is not None and gpu.state is PowerClass.ALLOCATED_HUNG:
                held.hung[name] = gpu.since_s
        return held


def facts(snapshot: SchedulerSnapshot, assessment: Assessment | None, history: HistoryReader, costing: Costing,
          now_s: float) -> tuple[RunFacts, ...]:
    """Return what is known of every job that runs or has lately ended; StoreError when nothing can be read."""
    jobs = [job for job in snapshot.jobs if job.start_s is not None and (job.state.active or job.state.finished)]
    runs: dict[Run, Job] = {(job.job_id, job.submit_s, job.start_s or 0.0): job for job in jobs}
    rows, uses = history.energy_of(set(runs)), history.uses_of(set(runs))
    fresh = assessment is not None and now_s - assessment.time_s <= STALE_S
    verdicts = gpus_by_run(assessment.gpu_verdicts) if assessment is not None and fresh else {}
    largest = _largest(snapshot)
    facts = []
    for run, job in runs.items():
        row, now = rows.get(run), _Gpus.of(verdicts.get(run_of(job), ()))
        most_gpus, most_cpus = _of(job, largest)
        known = RunFacts(job, None if row is None else job_row(row, costing, WASTED), now_s, idle=now.idle,
                         hung=now.hung, node_gpus=most_gpus, node_cpus=most_cpus)
        facts.append(known.using(uses.get(run)))
    return tuple(facts)


def _largest(snapshot: SchedulerSnapshot) -> dict[str, tuple[int, int]]:
    """Return GPUs and CPUs of each node, by its name."""
    return {node.name: (node.gpus, node.cpus) for node in snapshot.nodes}


def _of(job: Job, nodes: Mapping[str, tuple[int, int]]) -> tuple[int | None, int | None]:
    """Return GPUs and CPUs of the largest node that a job holds a part of; None where they are not known."""
    held = [nodes[part.node] for part in job.allocations if part.node in nodes]
    return (_most(gpus for gpus, _ in held), _most(cpus for _, cpus in held))


def _most(values: Iterable[int]) -> int | None:
    return max(values, default=0) or None

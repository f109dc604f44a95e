"""A Slurm on which nothing is changed: it is read as it is, and what would have been changed is shown as if it were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...storage.follow import Attribute
from .sight import QueuedJob
from .slurm import Scheduler, checked


class DryScheduler:
    """Reads another scheduler and remembers changes in its place."""

    def __init__(self, real: Scheduler) -> None:
        self._real = real
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._nice: dict[str, int] = {}

    def partitions(self) -> frozenset[str]:
        """Return the names of all partitions."""
        return self._real.partitions()

    def jobs(self, job_ids: Iterable[str]) -> dict[str, QueuedJob]:
        """Return the jobs with what would have been changed; one that somebody changed meanwhile as it is."""
        return {job_id: self._changed(job) for job_id, job in self._real.jobs(job_ids).items()}

    def _changed(self, job: QueuedJob) -> QueuedJob:
        if not job.pending:
            return job
        nodes = job.nodes or self._nodes.get(job.job_id, ())
        return replace(job, nodes=nodes, nice=job.nice + self._nice.get(job.job_id, 0))

    def change(self, job_id: str, attribute: Attribute, value: str) -> str | None:
        """Remember a change of a job that waits; nothing of anybody's is overtaken by it, so None is returned."""
        checked(attribute, value)
        job = self._real.jobs([job_id]).get(job_id)
        if job is None or not job.pending:
            return None
        if attribute == "required_nodes":
            self._nodes[job_id] = tuple(value.split(",")) if value else ()
        else:
            self._nice[job_id] = int(value) - job.nice
        return None

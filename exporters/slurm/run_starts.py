"""Starts of runs: Slurm shows the moment at which a job is put back into the queue as the start of what still ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...storage.records import Job, JobState


class RunStarts:
    """Remembers when runs began, for the looks at which Slurm shows something else.

    From a requeue until the job's nodes are free Slurm shows the job with one restart more, the time of the requeue or
    of the next start as its start, and its former submission. Taken for a start, that time was a run that never was:
    it never ended, and energy was booked to it.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, float], Job] = {}
        """Jobs that hold resources, as they were last shown in a run of their own."""

    def completed(self, jobs: Iterable[Job], now_s: float) -> tuple[Job, ...]:
        """Return the jobs; of one that ends after it was put back the start of the former run, None where not known."""
        completed, known = [], {}
        for job in jobs:
            if job.state.active:
                before = self._known.get(job.key)
                if _put_back(job, before, now_s):
                    job = replace(job, start_s=before.start_s if before else None)
                else:
                    before = job
                if before is not None:
                    known[job.key] = before
            completed.append(job)
        self._known = known
        return tuple(completed)


def _put_back(job: Job, before: Job | None, now_s: float) -> bool:
    """Tell whether a job ends because it was put back into the queue.

    Of one that has run before and is seen first as it ends nobody knows.
    """
    if job.state is not JobState.COMPLETING or job.start_s is None:
        return False
    return job.start_s > now_s or job.restarts > (before.restarts if before else 0)

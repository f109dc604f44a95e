"""Runs that were resized: the accounts begin a new record where a running job changes its size.

The record before ends then and has the state RESIZING. The next one has the time of the change as its submission, and
the start of the run. Taken as they are, the second was another job, and the submission that the controller shows never
ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...storage.records import Job
from ...storage.resizes import submitted_after_start, submitted_at_start

MOST = 10_000
"""Records that are remembered: the accounts report the former ones of a long run only within their window of time."""


class ResizedRuns:
    """Joins the records of resized runs, and remembers the former ones."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, float], Job] = {}
        """The first known record of a run, by job and start."""

    def joined(self, records: Iterable[Job]) -> tuple[Job, ...]:
        """Return the runs, a resized one once: with its first submission, and the size that it had last.

        The CPU time of a resized run is unmeasured: the steps that went on over the change end with a record.
        """
        listed = tuple(records)
        for record in listed:
            if _was_resized(record):
                self._remember(record)
        return tuple(self._with_submission(record) for record in listed if not _was_resized(record))

    def lacks(self, record: Job) -> bool:
        """Tell whether a run was resized and its former records are not known."""
        return _seems_resized(record) and _run(record) not in self._first

    def _remember(self, record: Job) -> None:
        known = self._first.get(_run(record))
        if known is None or record.submit_s < known.submit_s:
            self._first[_run(record)] = record
        if len(self._first) > MOST:
            del self._first[next(iter(self._first))]

    def _with_submission(self, record: Job) -> Job:
        first = self._first.get(_run(record)) if submitted_at_start(record) else None
        if first is None:
            return record
        return replace(record, submit_s=first.submit_s, eligible_s=first.eligible_s, cpu_seconds=None)


def _was_resized(record: Job) -> bool:
    """Tell whether a record of the accounts ends though its job goes on; one that goes on itself has no end."""
    return record.state.active and record.end_s is not None and record.start_s is not None


def _seems_resized(record: Job) -> bool:
    """Tell whether a record shows by itself that it began with a change of size.

    A run that was resized within the second of its start has that second as its submission, as many others have: it
    holds fewer GPUs than it requests.
    """
    held = sum(part.gpus for part in record.allocations)
    return submitted_after_start(record) or (submitted_at_start(record) and 0 < held < record.request.gpus)


def _run(record: Job) -> tuple[str, float]:
    return record.job_id, record.start_s or 0.0

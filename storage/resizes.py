"""Submissions of resized runs: accounts may give the record of a run after a change of size a submission of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from . import schema
from .records import Job
from .sources import of_one_source
from .values import TableRow, chunks, words


def with_submission(connection: Connection, jobs: Sequence[Job]) -> Sequence[Job]:
    """Return runs of accounts, those that seem to be submitted after their start with the submission that is known."""
    later = {words(job.job_id) for job in jobs if submitted_at_start(job)}
    if not later:
        return jobs
    table, runs = schema.jobs.c, schema.runs.c
    query = select(table.job_id, runs.start_s, table.partition, table.submit_s, table.source).join_from(
        schema.jobs, schema.runs, runs.job == table.id).order_by(table.submit_s)
    known: dict[tuple[str, float], list[TableRow]] = {}
    for some in chunks(later):
        for row in connection.execute(query.where(table.job_id.in_(some), table.submit_s < runs.start_s + 1.0)):
            known.setdefault((row.job_id, row.start_s), []).append(row)  # the earliest submission comes first
    return [_completed(job, known) for job in jobs]


def _completed(job: Job, known: Mapping[tuple[str, float], Sequence[TableRow]]) -> Job:
    rows = known.get((words(job.job_id), job.start_s or 0.0), ()) if submitted_at_start(job) else ()
    row = next((row for row in rows if of_one_source(row, job)), None)
    if row is None or row.submit_s == job.submit_s:
        return job
    # Another cluster may start a job of the same id within the same second.
    same = submitted_after_start(job) or row.partition == words(job.partition)
    return replace(job, submit_s=row.submit_s, eligible_s=None) if same else job


def submitted_after_start(job: Job) -> bool:
    """Tell whether a run of the accounts has a change of its size as its submission: it started before."""
    return job.start_s is not None and job.start_s < job.submit_s


def submitted_at_start(job: Job) -> bool:
    """Tell whether a run of the accounts may have a change of its size as its submission: it did not start later."""
    return job.start_s is not None and job.start_s <= job.submit_s

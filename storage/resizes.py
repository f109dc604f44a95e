"""Submissions of resized runs: accounts may give the record of a run after a change of size a submission of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from . import schema
from .records import Job
from .values import chunks, words


def with_submission(connection: Connection, jobs: Sequence[Job]) -> Sequence[Job]:
    """Return runs of accounts, those that seem to be submitted after their start with the submission that is known."""
    later = {words(job.job_id) for job in jobs if submitted_after_start(job)}
    if not later:
        return jobs
    table, runs = schema.jobs.c, schema.runs.c
    query = select(table.job_id, runs.start_s, table.submit_s).join_from(schema.jobs, schema.runs, runs.job == table.id)
    known: dict[tuple[str, float], float] = {}
    for some in chunks(later):
        for row in connection.execute(query.where(table.job_id.in_(some), table.submit_s <= runs.start_s)):
            known[row.job_id, row.start_s] = row.submit_s
    return [_completed(job, known) for job in jobs]


def _completed(job: Job, known: dict[tuple[str, float], float]) -> Job:
    submit_s = known.get((words(job.job_id), job.start_s or 0.0)) if submitted_after_start(job) else None
    return job if submit_s is None else replace(job, submit_s=submit_s, eligible_s=None)


def submitted_after_start(job: Job) -> bool:
    """Tell whether a run of the accounts has a change of its size as its submission: it started before."""
    return job.start_s is not None and job.start_s < job.submit_s

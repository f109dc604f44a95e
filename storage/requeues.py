"""Ends former submissions: a scheduler that submits a job anew when it is put back never shows the former one again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, select, update

from . import schema
from .database import upsert
from .records import Job, JobState
from .sources import of_one_source
from .values import TableRow, chunks, words


def end_former(connection: Connection, jobs: Sequence[Job], time_s: float, shared_ids: Iterable[str] = ()) -> None:
    """End the open submissions of jobs that were put back, at the time of the later submission.

    ``shared_ids`` are job ids that several jobs have at ``time_s``: nothing tells which of them was put back.
    """
    unclear = set(shared_ids)
    again = {words(job.job_id): job for job in jobs if job.restarts > 0 and job.job_id not in unclear}
    table = schema.jobs
    for some in chunks(again):
        open_rows = connection.execute(select(table).where(table.c.job_id.in_(some), table.c.open)).all()
        former = [(row, again[row.job_id]) for row in open_rows if _put_back(row, again[row.job_id])]
        if former:
            _end(connection, [{"known": row.id, "at": max(row.start_s or 0.0, job.submit_s),
                               "seen": max(row.changed_s, time_s)} for row, job in former])


def _put_back(former: TableRow, job: Job) -> bool:
    """Tell whether a job is a former submission that was put back, and not one of another cluster."""
    partitions = set(former.partition.split(",")).intersection(words(job.partition).split(","))
    return bool(job.submit_s > former.submit_s and job.restarts >= former.restarts and partitions
                and words(job.user) == former.user and of_one_source(former, job))


def _end(connection: Connection, ends: Sequence[dict[str, object]]) -> None:
    """Write the ends; accounting may report better ones later."""
    table, runs = schema.jobs, schema.runs
    state = JobState.PREEMPTED.value
    connection.execute(update(table).where(table.c.id == bindparam("known")).values(
        state=state, end_s=bindparam("at"), changed_s=bindparam("seen"), open=False, reason="", reason_text=""), ends)
    connection.execute(update(runs).where(runs.c.job == bindparam("known"), runs.c.end_s.is_(None)).values(
        state=state, end_s=bindparam("at")), ends)
    upsert(connection, schema.job_changes, [
        {"job": end["known"], "time_s": end["at"], "state": state, "reason": "", "reason_text": ""} for end in ends])

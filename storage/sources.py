"""Which source lists a job: recorded where several schedulers are read, as two of them may use one id."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select

from . import schema
from .records import Job
from .values import TableRow, chunks, words


def sources_of(connection: Connection, job_ids: Iterable[str]) -> dict[tuple[str, float], str]:
    """Return the source of each submission of some job ids that was recorded with one."""
    table = schema.jobs.c
    found: dict[tuple[str, float], str] = {}
    for some in chunks(set(map(words, job_ids))):
        rows = connection.execute(select(table.job_id, table.submit_s, table.source).where(
            table.job_id.in_(some), table.source.is_not(None)))
        found |= {(row.job_id, row.submit_s): row.source for row in rows}
    return found


def any_recorded(connection: Connection) -> bool:
    """Tell whether a job was recorded with its source."""
    table = schema.jobs.c
    return connection.execute(select(table.id).where(table.source.is_not(None)).limit(1)).first() is not None


def of_one_source(row: TableRow, job: Job) -> bool:
    """Tell whether a recorded job and a job may be of one scheduler: they are not known to be of two."""
    return not row.source or not job.source or row.source == words(job.source)

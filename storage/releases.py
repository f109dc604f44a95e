"""Nodes that a run gave back while it went on: a run that shrinks holds them no longer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, and_, bindparam, case, select, update

from . import schema
from .records import Job, JobState
from .values import chunks, words

_PARTS = schema.allocations
_SHOWN = (JobState.RUNNING, JobState.SUSPENDED)
"""States in which a scheduler shows all that a job holds: of one that completes, nodes vanish one by one."""
UNTIL_S = case((_PARTS.c.until_s < schema.runs.c.end_s, _PARTS.c.until_s),
               (schema.runs.c.end_s.is_(None), _PARTS.c.until_s), else_=schema.runs.c.end_s)
"""When a run ceased to hold a node: when it gave the node back, else at its end."""


def note(connection: Connection, jobs: Iterable[Job], time_s: float) -> None:
    """Record which nodes running jobs hold no longer, or again, at a time, as a scheduler showed them then."""
    held = {(words(job.job_id), job.submit_s, job.start_s): {words(part.node) for part in job.allocations}
            for job in jobs if job.state in _SHOWN and job.allocations}
    changed = []
    for ids in chunks({job_id for job_id, _, _ in held}):
        query = select(schema.jobs.c.job_id, schema.jobs.c.submit_s, schema.runs.c.start_s, _PARTS.c.run, _PARTS.c.node,
                       _PARTS.c.until_s)
        rows = connection.execute(query.select_from(_PARTS).join(schema.runs, schema.runs.c.id == _PARTS.c.run).join(
            schema.jobs, schema.jobs.c.id == schema.runs.c.job).where(
            schema.jobs.c.job_id.in_(ids)))
        shown = [(row, row.node in nodes) for row in rows
                 if (nodes := held.get((row.job_id, row.submit_s, row.start_s))) is not None]
        changed += [{"of": row.run, "at": row.node, "since": None if held_now else max(row.start_s, time_s)}
                    for row, held_now in shown if held_now is not (row.until_s is None)]
    if changed:
        connection.execute(update(_PARTS).where(and_(_PARTS.c.run == bindparam("of"), _PARTS.c.node == bindparam("at")))
                           .values(until_s=bindparam("since")), changed)


def bound(connection: Connection, jobs: Sequence[int], until_s: float) -> None:
    """Let nodes that jobs gave back by a clock that was ahead be free from ``until_s`` on."""
    runs = select(schema.runs.c.id).where(schema.runs.c.job.in_(jobs))
    connection.execute(update(_PARTS).where(_PARTS.c.run.in_(runs), _PARTS.c.until_s > until_s).values(until_s=until_s))


def released(connection: Connection, job: int) -> dict[float, dict[str, float]]:
    """Return by start of each run of a job when it gave which nodes back."""
    query = select(schema.runs.c.start_s, _PARTS.c.node, _PARTS.c.until_s).join(
        schema.runs, schema.runs.c.id == _PARTS.c.run).where(schema.runs.c.job == job, _PARTS.c.until_s.is_not(None))
    found: dict[float, dict[str, float]] = {}
    for start_s, node, until_s in connection.execute(query):
        found.setdefault(start_s, {})[node] = until_s
    return found

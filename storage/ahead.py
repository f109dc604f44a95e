"""Sets right what a clock that was ahead has recorded: what is still to come bounds nothing that is seen now.

A machine whose hardware clock holds local time is hours ahead until its time is synchronised. What was recorded
meanwhile would be newer than all that is seen until the clock has caught up. It is moved to just before the snapshot
that finds it; nothing is dropped. Times that the scheduler reported stay its own.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    exists,
    func,
    not_,
    or_,
    select,
    true,
    update,
)

from . import releases, schema
from .records import Job, JobState
from .values import chunks, words

log = logging.getLogger(__name__)

AHEAD_S = 5.0
"""What is less in the future still bounds: a smaller step back makes no snapshot older than the one before it."""
MOST_S = 86400.0
"""What is more in the future stays: a hardware clock that has lost its time is years behind, and the records right."""
_LEAST_S = 0.001
"""Between two times of the same thing."""


def set_right(connection: Connection, shown: Sequence[Job], time_s: float, now_s: float) -> None:
    """Move what was recorded as later than ``now_s`` to before ``time_s``, when the scheduler showed these jobs."""
    nodes, settings = schema.node_changes, schema.scheduler_configurations
    rows = (_changes(connection, nodes, (nodes.c.name,), time_s, now_s)
            + _changes(connection, settings, (), time_s, now_s) + _jobs(connection, shown, time_s, now_s))
    if rows:
        log.warning("the clock was ahead as some of the history was recorded; that is set right", extra={"rows": rows})
    if connection.scalar(select(nodes.c.id).where(nodes.c.time_s > now_s + MOST_S).limit(1)) is not None:
        log.warning("the history goes on for more than a day after now, and what is older than it is not recorded: "
                    "set the clock right, and restart the daemon")


def _to_come(clock: Column[Any], now_s: float) -> ColumnElement[bool]:
    return and_(clock > now_s + AHEAD_S, clock <= now_s + MOST_S)


def _changes(connection: Connection, table: Table, of: Sequence[Column[Any]], time_s: float, now_s: float) -> int:
    last_s = connection.scalar(select(func.max(table.c.time_s)).where(_to_come(table.c.time_s, now_s)))
    return 0 if last_s is None else _move(connection, table, of, true(), true(), (time_s, last_s))


def _jobs(connection: Connection, shown: Sequence[Job], time_s: float, now_s: float) -> int:
    """Set right jobs that are not over, or shown: nothing more comes of others."""
    jobs, changes = schema.jobs.c, schema.job_changes
    ahead = select(jobs.id, jobs.changed_s).where(_to_come(jobs.changed_s, now_s))
    changed_s_of = {row.id: row.changed_s for row in connection.execute(ahead.where(jobs.open))}
    for names in chunks({words(job.job_id) for job in shown}):
        changed_s_of |= {row.id: row.changed_s for row in connection.execute(ahead.where(jobs.job_id.in_(names)))}
    for ids in chunks(changed_s_of):
        connection.execute(update(schema.jobs).where(jobs.id.in_(ids)).values(changed_s=time_s))
        _end_runs(connection, ids, shown, time_s)
        releases.bound(connection, ids, time_s)
        _move(connection, changes, (changes.c.job,), changes.c.job.in_(ids), not_(_timed_by_scheduler()),
              (time_s, max(changed_s_of.values())))
    return len(changed_s_of)


def _end_runs(connection: Connection, ids: Sequence[int], shown: Sequence[Job], time_s: float) -> None:
    """Let runs go on that nobody saw end and that are shown; others have ended by now."""
    jobs, runs = schema.jobs.c, schema.runs.c
    ended = connection.execute(
        select(runs.id, runs.start_s, jobs.job_id, jobs.submit_s).join(schema.jobs, jobs.id == runs.job)
        .where(runs.job.in_(ids), runs.state == JobState.UNKNOWN.value, runs.end_s > time_s)).all()
    going = {(words(job.job_id), job.submit_s, job.start_s) for job in shown if job.state.active}
    rows = [{"run": row.id} | ({"end": None, "as": JobState.RUNNING.value}
                               if (row.job_id, row.submit_s, row.start_s) in going else
                               {"end": max(row.start_s, time_s), "as": JobState.UNKNOWN.value}) for row in ended]
    if rows:
        connection.execute(update(schema.runs).where(runs.id == bindparam("run"))
                           .values(end_s=bindparam("end"), state=bindparam("as")), rows)


def _timed_by_scheduler() -> ColumnElement[bool]:
    """Return whether the time of a job's change is one that the scheduler reported, not the recorder's own."""
    jobs, runs, change = schema.jobs.c, schema.runs.c, schema.job_changes.c
    ended = and_(runs.end_s == change.time_s, runs.state != JobState.UNKNOWN.value)
    return or_(
        exists().where(jobs.id == change.job, or_(jobs.submit_s == change.time_s, jobs.end_s == change.time_s)),
        exists().where(runs.job == change.job, or_(runs.start_s == change.time_s, ended)))


def _move(connection: Connection, table: Table, of: Sequence[Column[Any]], within: ColumnElement[bool],
          movable: ColumnElement[bool], between_s: tuple[float, float]) -> int:
    """Move changes of one time and another to before the first: as far apart as they were, after those before them."""
    (until_s, last_s), clock = between_s, table.c.time_s
    rows = connection.execute(select(clock, *of).distinct().where(
        within, movable, clock > until_s, clock <= last_s).order_by(clock)).all()
    rest = select(func.max(clock), *of).where(within, clock <= until_s)
    newest = {tuple(whose): time_s for time_s, *whose in connection.execute(rest.group_by(*of) if of else rest)}
    moves = []
    for was_s, *whose in rows:
        before_s = newest.get(tuple(whose))
        time_s = max(was_s - (last_s - until_s) - _LEAST_S, (-math.inf if before_s is None else before_s) + _LEAST_S)
        newest[tuple(whose)] = time_s
        moves.append({"was": was_s, "now": time_s} | {f"of_{column.name}": it
                                                      for column, it in zip(of, whose, strict=True)})
    if moves:
        same = [column == bindparam(f"of_{column.name}") for column in of]
        connection.execute(update(table).where(clock == bindparam("was"), *same).values(time_s=bindparam("now")), moves)
    return len(moves)

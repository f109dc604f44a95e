"""Keeps the history small: fine windows become hourly, old rows go, a little at a time so that writers get a turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, and_, func, select

from . import ageing, schema
from .ageing import Step, drops, remove

_DAY_S = 86400.0
_ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept, in seconds."""

    rollups_s: float = 14 * _DAY_S
    """5-minute rollups, before they become hourly."""
    hourly_rollups_s: float = 400 * _DAY_S
    waste_s: float = 35 * _DAY_S
    """5-minute waste, before it becomes hourly."""
    hourly_waste_s: float = 5 * 365 * _DAY_S
    jobs_s: float = 5 * 365 * _DAY_S
    recommendations_s: float = 400 * _DAY_S
    """Advice on jobs that never started; that on runs is kept with them."""
    speeds_s: float = 400 * _DAY_S
    uses_s: float = 400 * _DAY_S
    notices_s: float = 400 * _DAY_S


def steps(connection: Connection, now_s: float, keep: Retention) -> Iterator[Step]:
    """Yield what there is to do, each step to be run in a transaction of its own."""
    yield from ageing.steps(connection, now_s - keep.rollups_s, now_s - keep.waste_s)
    for windows, kept_s in ((schema.gpu_windows, keep.hourly_rollups_s), (schema.rollups, keep.hourly_rollups_s),
                            (schema.waste_windows, keep.hourly_waste_s), (schema.waste, keep.hourly_waste_s)):
        yield from drops(connection, windows, now_s - kept_s)
    jobs, nodes = schema.jobs.c, schema.node_changes
    yield from _prunes(connection, schema.jobs, and_(
        func.coalesce(jobs.end_s, jobs.changed_s) < now_s - keep.jobs_s, jobs.changed_s < now_s - keep.jobs_s))
    yield from _prunes(connection, schema.run_energy, schema.run_energy.c.last_s < now_s - keep.jobs_s)
    yield from drops(connection, schema.run_windows, now_s - keep.rollups_s)
    yield from drops(connection, schema.energy_prices, now_s - keep.hourly_waste_s)
    for days in (schema.energy_days, schema.node_days):
        yield from drops(connection, days, now_s - keep.hourly_waste_s, clock="day_s")
    yield from _advice(connection, now_s, keep)
    # Decisions stay for good: there are few, and the last one on each agent is in force.
    yield from _prunes(connection, schema.abstentions, schema.abstentions.c.last_s < now_s - keep.recommendations_s)
    yield remove(schema.standings, schema.standings.c.since_s < now_s - keep.recommendations_s)
    yield from _prunes(connection, schema.speeds, schema.speeds.c.last_s < now_s - keep.speeds_s)
    yield from _prunes(connection, schema.uses, schema.uses.c.updated_s < now_s - keep.uses_s)
    yield from _prunes(connection, schema.run_causes, schema.run_causes.c.updated_s < now_s - keep.jobs_s)
    yield from _prunes(connection, schema.notices, schema.notices.c.updated_s < now_s - keep.notices_s)
    later = nodes.alias()
    # The state that held at the cutoff stays: replay starts from it.
    yield from _prunes(connection, nodes, select(later.c.id).where(
        later.c.name == nodes.c.name, later.c.time_s > nodes.c.time_s,
        later.c.time_s <= now_s - keep.jobs_s).exists())


def _advice(connection: Connection, now_s: float, keep: Retention) -> Iterator[Step]:
    """Yield what of advice goes: changes with the fine windows, and advice that came while its job started already."""
    table, jobs = schema.recommendations, schema.jobs.c
    yield from _prunes(connection, table, table.c.last_issued_s < now_s - keep.recommendations_s)
    yield from _prunes(connection, table, (table.c.last_issued_s < now_s - _DAY_S) & select(jobs.id).where(
        jobs.job_id == table.c.job_id, jobs.submit_s == table.c.submit_s, jobs.start_s.is_not(None)).exists())
    yield from drops(connection, schema.advice_changes, now_s - keep.rollups_s, clock="time_s")


def _prunes(connection: Connection, table: Table, old: ColumnElement[bool]) -> Iterator[Step]:
    ids = connection.execute(select(table.c.id).where(old)).scalars().all()
    for first in range(0, len(ids), _ROWS_AT_ONCE):
        yield remove(table, table.c.id.in_(ids[first:first + _ROWS_AT_ONCE]))

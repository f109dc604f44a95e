"""Keeps the history small: fine windows become hourly, old rows go, a little at a time so that writers get a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, case, delete, func, select

from . import schema
from .database import upsert

_HOUR_S = 3600.0
_DAY_S = 86400.0
_ROWS_AT_ONCE = 1000

Step = Callable[[Connection], int]
"""One small transaction; returns how many rows it removed."""


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
    speeds_s: float = 400 * _DAY_S
    uses_s: float = 400 * _DAY_S


def steps(connection: Connection, now_s: float, keep: Retention) -> Iterator[Step]:
    """Yield what there is to do, each step to be run in a transaction of its own."""
    for table, fine_s in ((schema.rollups, keep.rollups_s), (schema.waste, keep.waste_s)):
        # Only whole hours, or one hour would be merged twice over.
        for hour in _hours(connection, table, (now_s - fine_s) // _HOUR_S * _HOUR_S):
            yield _merge(table, hour)
    yield from _drops(connection, schema.rollups, now_s - keep.hourly_rollups_s)
    yield from _drops(connection, schema.waste, now_s - keep.hourly_waste_s)
    jobs, advice, nodes = schema.jobs.c, schema.recommendations.c, schema.node_changes
    yield from _prunes(connection, schema.jobs, and_(
        func.coalesce(jobs.end_s, jobs.changed_s) < now_s - keep.jobs_s, jobs.changed_s < now_s - keep.jobs_s))
    yield from _prunes(connection, schema.recommendations, advice.last_issued_s < now_s - keep.recommendations_s)
    # Decisions stay for good: there are few, and the last one on each agent is in force.
    yield from _prunes(connection, schema.abstentions, schema.abstentions.c.last_s < now_s - keep.recommendations_s)
    yield _remove(schema.standings, schema.standings.c.since_s < now_s - keep.recommendations_s)
    yield from _prunes(connection, schema.speeds, schema.speeds.c.last_s < now_s - keep.speeds_s)
    yield from _prunes(connection, schema.uses, schema.uses.c.updated_s < now_s - keep.uses_s)
    later = nodes.alias()
    # The state that held at the cutoff stays: replay starts from it.
    yield from _prunes(connection, nodes, select(later.c.id).where(
        later.c.name == nodes.c.name, later.c.time_s > nodes.c.time_s,
        later.c.time_s <= now_s - keep.jobs_s).exists())


def _hours(connection: Connection, table: Table, before_s: float) -> list[float]:
    hour = func.floor(table.c.start_s / _HOUR_S) * _HOUR_S
    found = connection.execute(select(hour).where(table.c.seconds < _HOUR_S, table.c.start_s < before_s)
                               .distinct().order_by(hour))
    return [float(start) for start in found.scalars()]


def _merge(table: Table, hour_s: float) -> Step:
    within = and_(table.c.start_s >= hour_s, table.c.start_s < hour_s + _HOUR_S, table.c.seconds <= _HOUR_S)

    def merge(connection: Connection) -> int:
        keys, sums = _MERGES[table.name]
        rows = connection.execute(select(*keys, *sums).where(within).group_by(*keys)).mappings().all()
        removed = connection.execute(delete(table).where(within)).rowcount
        upsert(connection, table, [{"start_s": hour_s, "seconds": _HOUR_S, **row} for row in rows])
        return removed - len(rows)

    return merge


def _mean(column: ColumnElement[float]) -> ColumnElement[float]:
    """Return the mean weighted by measured time; NULL where nothing was measured."""
    weight = case((column.is_not(None), schema.rollups.c.measured_ms), else_=0)
    return (func.sum(column * weight) / func.nullif(func.sum(weight), 0)).label(column.key)


def _whole_sum(column: ColumnElement[int]) -> ColumnElement[int]:
    # PostgreSQL sums BIGINT to NUMERIC.
    return func.sum(column).cast(column.type).label(column.key)


_R, _W = schema.rollups.c, schema.waste.c
_MERGES: dict[str, tuple[Sequence[ColumnElement[Any]], Sequence[ColumnElement[Any]]]] = {
    "rollups": ([_R.board], [*map(_whole_sum, (_R.measured_ms, _R.allocated_ms, _R.energy_mj)),
                             *map(_mean, (_R.activity_mean, _R.power_mean_watts)),
                             func.max(_R.activity_max).label("activity_max"),
                             func.max(_R.power_max_watts).label("power_max_watts")]),
    "waste": ([_W.partition, _W.node, _W.power_class], [_whole_sum(_W.energy_mj)]),
}
"""What tells rows of an hour apart, and how the rest is merged."""


def _drops(connection: Connection, table: Table, before_s: float) -> Iterator[Step]:
    """Yield one deletion per hour of windows that are too old."""
    hours = connection.execute(select(func.floor(table.c.start_s / _HOUR_S) * _HOUR_S).where(
        table.c.start_s < before_s).distinct()).scalars().all()
    for hour in hours:
        yield _remove(table, and_(table.c.start_s >= hour, table.c.start_s < min(float(hour) + _HOUR_S, before_s)))


def _prunes(connection: Connection, table: Table, old: ColumnElement[bool]) -> Iterator[Step]:
    ids = connection.execute(select(table.c.id).where(old)).scalars().all()
    for first in range(0, len(ids), _ROWS_AT_ONCE):
        yield _remove(table, table.c.id.in_(ids[first:first + _ROWS_AT_ONCE]))


def _remove(table: Table, old: ColumnElement[bool]) -> Step:
    return lambda connection: connection.execute(delete(table).where(old)).rowcount

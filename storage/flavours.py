"""The flavours of recorded jobs: given to past jobs a few at a time, and counted with the limits they come with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select, update

from . import schema
from .values import words

AT_ONCE = 5_000
"""Jobs of the past whose flavour is recorded in one transaction."""

FlavourOf = Callable[[str, int, float | None, str], str]
"""Returns the flavour of a job by its partition, GPUs, limit in seconds and type of GPUs."""


@dataclass(frozen=True, slots=True)
class FlavourCount:
    """Recorded jobs of one flavour in one partition that requested the same time limit."""

    partition: str
    flavour: str
    gpus: int
    """Of the largest of them."""
    limit_s: float | None
    jobs: int


def missing(connection: Connection, flavour_of: FlavourOf, most: int = AT_ONCE) -> list[dict[str, object]]:
    """Return the flavours of some past jobs that have none recorded, the newest first, as rows to store."""
    table = schema.jobs.c
    rows = connection.execute(select(table.id, table.partition, table.gpus, table.limit_s, table.request).where(
        table.flavour.is_(None)).order_by(table.id.desc()).limit(most))
    return [{"known": row.id, "found": words(flavour_of(row.partition, row.gpus, row.limit_s, _model(row.request)))}
            for row in rows]


def store(connection: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Store flavours; a job whose flavour the scheduler's own page gave meanwhile keeps that one."""
    table = schema.jobs
    connection.execute(update(table).where(table.c.id == bindparam("known"), table.c.flavour.is_(None)).values(
        flavour=bindparam("found")), rows)


def counts(connection: Connection, since_s: float) -> Sequence[FlavourCount]:
    """Return jobs submitted since a moment by partition, flavour and limit."""
    table = schema.jobs.c
    query = select(table.partition, table.flavour, func.max(table.gpus).label("gpus"), table.limit_s,
                   func.count().label("jobs")).where(
        table.submit_s >= since_s, table.gpus > 0, table.flavour.is_not(None)).group_by(
        table.partition, table.flavour, table.limit_s).order_by(table.partition, table.flavour, table.limit_s)
    return [FlavourCount(row.partition, row.flavour, row.gpus, row.limit_s, row.jobs)
            for row in connection.execute(query)]


def _model(request: Mapping[str, object]) -> str:
    return str(request.get("gpu_model", ""))

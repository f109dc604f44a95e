"""Loads jobs as columns, by the driver itself: a million rows of ORM objects would take twenty times as long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, func, select

from . import database, schema
from .values import Query

_NUMBERS = ("submit_s", "eligible_s", "start_s", "end_s", "limit_s", "gpus", "nodes", "cpus", "memory_bytes")
_WORDS = ("partition", "user", "name", "state", "image")
_ROWS_AT_ONCE = 500
"""Fewer tuples than wake the garbage collector, which would cost a third of the time."""


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Jobs as a structure of arrays, ordered by submit time; ties keep the order of recording.

    Times are seconds and memory bytes (float64, NaN is unmeasured); counts are int64. ``partition``, ``user``,
    ``name``, ``state`` and ``image`` are int32 codes into ``vocabularies`` under the same name.
    """

    job_id: NDArray[np.object_]
    submit_s: NDArray[np.float64]
    eligible_s: NDArray[np.float64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    limit_s: NDArray[np.float64]
    gpus: NDArray[np.int64]
    nodes: NDArray[np.int64]
    cpus: NDArray[np.int64]
    memory_bytes: NDArray[np.float64]
    partition: NDArray[np.int32]
    user: NDArray[np.int32]
    name: NDArray[np.int32]
    state: NDArray[np.int32]
    image: NDArray[np.int32]
    vocabularies: dict[str, tuple[str, ...]]

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_s)


def load(engine: Engine, since_s: float | None, until_s: float | None, last: int | None = None,
         report: database.ProgressCallback | None = None) -> JobColumns:
    """Return the jobs submitted in [since, until), or the ``last`` of them.

    ``report`` gets how many of how many are read, which are then counted beforehand.
    """
    ids: list[str] = []
    numbers: list[NDArray[np.float64]] = []
    codes: list[NDArray[np.int32]] = []
    vocabularies = [Codes() for _ in _WORDS]
    query = _query(since_s, until_s, last)
    total = 0 if report is None else counted(engine, query)
    for rows in streamed(engine, query):
        columns = list(zip(*rows, strict=True))
        ids.extend(columns[0])
        # NULL becomes NaN.
        numbers.append(np.array(columns[1:1 + len(_NUMBERS)], dtype=np.float64))
        codes.append(np.stack([known.of(column)
                               for column, known in zip(columns[1 + len(_NUMBERS):], vocabularies, strict=True)]))
        if report is not None:
            report(len(ids), max(total, len(ids)))  # some are recorded after the count
    return _assemble(ids, numbers, codes, vocabularies)


def _query(since_s: float | None, until_s: float | None, last: int | None) -> Query:
    columns = schema.jobs.c
    query = select(columns.job_id, *(columns[name] for name in _NUMBERS + _WORDS))
    if since_s is not None:
        query = query.where(columns.submit_s >= since_s)
    if until_s is not None:
        query = query.where(columns.submit_s < until_s)
    if last is not None:
        query = query.order_by(columns.submit_s.desc()).limit(last)
    return query


def counted(engine: Engine, query: Query) -> int:
    """Return how many rows a query has."""
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(query.subquery())).scalar_one())


def streamed(engine: Engine, query: Query) -> Iterator[Sequence[Sequence[object]]]:
    """Yield the rows of a query, some hundred at a time, as the driver gives them."""
    statement = str(query.compile(dialect=engine.dialect, compile_kwargs={"literal_binds": True}))
    # Streaming: PostgreSQL would otherwise send a million rows before the first.
    with engine.connect().execution_options(stream_results=True) as connection:
        result = connection.exec_driver_sql(statement)
        if engine.dialect.name != "sqlite":
            yield from result.partitions(_ROWS_AT_ONCE)
            return
        # SQLite streams anyway, and its own tuples cost a third of SQLAlchemy's rows.
        cursor: Any = result.cursor
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield rows


class Codes(dict[str, int]):
    """Numbers words in the order in which they first come."""

    def __missing__(self, word: str) -> int:
        code = self[word] = len(self)
        return code

    def of(self, column: Sequence[str]) -> NDArray[np.int32]:
        """Return the numbers of some words; new ones get the next."""
        return np.fromiter(map(self.__getitem__, column), dtype=np.int32, count=len(column))


def _assemble(ids: list[str], numbers: list[NDArray[np.float64]], codes: list[NDArray[np.int32]],
              vocabularies: list[Codes]) -> JobColumns:
    measures = np.concatenate(numbers, axis=1) if numbers else np.empty((len(_NUMBERS), 0))
    words = np.concatenate(codes, axis=1) if codes else np.empty((len(_WORDS), 0), dtype=np.int32)
    # Mostly recorded in order already; a slice then costs nothing.
    recorded_in_order = bool(np.all(np.diff(measures[0]) >= 0))
    order: Any = slice(None) if recorded_in_order else np.argsort(measures[0], kind="stable")
    columns: dict[str, Any] = {name: column[order] for name, column in zip(_NUMBERS, measures, strict=True)}
    columns |= {name: columns[name].astype(np.int64) for name in ("gpus", "nodes", "cpus")}
    columns |= {name: column[order] for name, column in zip(_WORDS, words, strict=True)}
    named = {name: tuple(known) for name, known in zip(_WORDS, vocabularies, strict=True)}
    return JobColumns(job_id=np.array(ids, dtype=object)[order], vocabularies=named, **columns)

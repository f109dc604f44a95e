"""Brings the past into the history: runs that accounting knows, part by part, each part once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from sqlalchemy import Connection, select

from . import database, jobs, schema
from .reading import HistoryReader
from .records import Job
from .values import chunks, words

RUNS_AT_ONCE = 500
"""In one transaction: a daemon that records beside must not wait."""


class Importer(HistoryReader):
    """Writes finished runs beside a running daemon, and remembers which parts of a source are in.

    A part is marked with its last runs; one that was cut off is read again, and what is in already is not doubled.
    """

    @classmethod
    def open(cls, url: str) -> Self:
        """Open beside a running daemon; raises ``SchemaTooNew``, ``SchemaTooOld`` or ``StoreUnavailable``."""
        engine = database.connect(database.parse(url))
        with database.translated(engine.url):
            database.check_schema(engine)
        return cls(engine)

    def parts(self, source: str) -> set[float]:
        """Return the parts of a source that are in."""
        table = schema.imports
        return {row.part for row in self._all(select(table).where(table.c.source == words(source)))}

    def add(self, source: str, part: float, runs: Sequence[Job], *, complete: bool) -> int:
        """Write the runs of a part and return how many jobs were not known; ``complete``: it need not be read again."""
        good = [run for run in runs if jobs.recordable(run)]
        new = 0
        for some in chunks(good, RUNS_AT_ONCE):
            new += self._write(some)
        if complete:
            self._mark(source, part, len(good))
        return new

    def _write(self, runs: Sequence[Job]) -> int:
        with database.translated(self._engine.url), self._writing() as connection, connection.begin():
            new = len({(words(run.job_id), run.submit_s) for run in runs} - _known(connection, runs))
            jobs.store_finished(connection, runs)
        return new

    def _mark(self, source: str, part: float, runs: int) -> None:
        row = {"source": words(source), "part": part, "runs": runs, "done_s": time.time()}
        with database.translated(self._engine.url), self._writing() as connection, connection.begin():
            database.upsert(connection, schema.imports, [row], update=("runs", "done_s"))

    def _writing(self) -> Connection:
        return self._engine.connect().execution_options(writing=True)


def _known(connection: Connection, runs: Sequence[Job]) -> set[tuple[str, float]]:
    table = schema.jobs.c
    rows = connection.execute(select(table.job_id, table.submit_s).where(
        table.job_id.in_({words(run.job_id) for run in runs})))
    return {(row.job_id, row.submit_s) for row in rows}

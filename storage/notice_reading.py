"""The half of the reader that knows notices and their recipients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from sqlalchemy import Connection, select

from . import notices, schema, uses
from .notices import Notice
from .uses import Use
from .values import chunks, words

Run = tuple[str, float, float]


class NoticeReader(ABC):
    """Answers about notices; every method raises ``StoreUnavailable`` when the database cannot be read."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection]:
        """Return a connection to read by."""

    def notices(self, since_s: float, user: str = "", limit: int | None = None) -> tuple[Notice, ...]:
        """Return notices that changed since a moment, the newest first."""
        with self._reading() as connection:
            return notices.read(connection, since_s, user, limit)

    def notices_of(self, runs: set[Run]) -> tuple[Notice, ...]:
        """Return every notice of some runs, however old."""
        with self._reading() as connection:
            return notices.of_runs(connection, runs)

    def opted_out(self) -> dict[str, float]:
        """Return users who opted out, and since when."""
        with self._reading() as connection:
            return notices.opted_out(connection)

    def uses_of(self, runs: set[Run]) -> dict[Run, Use]:
        """Return what runs used of their CPUs and memory, of those of which it is known."""
        table, use_by_run = schema.uses, dict[Run, Use]()
        with self._reading() as connection:
            for some in chunks(sorted({words(run[0]) for run in runs})):
                use_by_run |= {(row.job_id, row.submit_s, row.start_s): uses.use_of(row)
                               for row in connection.execute(select(table).where(table.c.job_id.in_(some)))}
        return {run: use_by_run[run] for run in runs if run in use_by_run}

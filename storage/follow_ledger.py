"""The ledger of ``idlewatt follow``: a database of its own, whose every note is on the disk before it is acted on."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sqlalchemy import Connection, Engine, event

from . import database, follow
from .errors import StoreLocked
from .follow import FollowChange

if TYPE_CHECKING:
    import sqlite3


class FollowLedger:
    """What was changed, with before and after; one process at a time owns it, a guard may look after it."""

    def __init__(self, engine: Engine, lock: database.Lock | None) -> None:
        self._engine, self._lock = engine, lock

    @classmethod
    def own(cls, path: Path) -> Self:
        """Open as the one process that acts; raises ``StoreLocked`` beside another, or ``StoreUnavailable``."""
        engine = _engine(path)
        with database.translated(engine.url):
            lock = database.lock(engine)
            database.upgrade(engine)
        return cls(engine, lock)

    @classmethod
    def guard(cls, path: Path) -> Self:
        """Open beside a process that may or may not live: ``alone`` tells; raises ``StoreUnavailable``."""
        try:
            return cls.own(path)
        except StoreLocked:
            return cls(_engine(path), None)

    @classmethod
    def reader(cls, path: Path) -> Self:
        """Open for reading; raises ``StoreUnavailable`` or ``SchemaTooOld``."""
        engine = database.connect(database.parse(str(path)), read_only=True)
        with database.translated(engine.url):
            database.check_schema(engine)
        return cls(engine, None)

    @property
    def alone(self) -> bool:
        """Tell whether no other process acts."""
        return self._lock is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process in."""
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()

    def intend(self, change: FollowChange) -> int:
        """Note a change before it is made; return its number."""
        with self._transaction() as connection:
            return follow.store(connection, change)

    def move(self, change: FollowChange) -> bool:
        """Note how a change stands now; False where it is over already."""
        with self._transaction() as connection:
            return follow.move(connection, change)

    def open_changes(self) -> tuple[FollowChange, ...]:
        """Return the changes that may still stand."""
        with self._transaction(writing=False) as connection:
            return follow.opened(connection)

    def changes(self, since_s: float, limit: int | None = None) -> tuple[FollowChange, ...]:
        """Return what was intended since a moment, the newest first."""
        with self._transaction(writing=False) as connection:
            return follow.read(connection, since_s, limit)

    def changes_of(self, job_ids: Collection[str]) -> tuple[FollowChange, ...]:
        """Return every change of some jobs, the oldest first."""
        with self._transaction(writing=False) as connection:
            return follow.read_of(connection, job_ids)

    @contextmanager
    def _transaction(self, *, writing: bool = True) -> Iterator[Connection]:
        with (database.translated(self._engine.url),
              self._engine.connect().execution_options(writing=writing) as connection, connection.begin()):
            yield connection


def _engine(path: Path) -> Engine:
    engine = database.connect(database.parse(str(path)))

    @event.listens_for(engine, "connect")
    def durable(connection: sqlite3.Connection, _record: object) -> None:
        # A note that a power failure undoes would leave a pin behind that nobody knows of.
        connection.execute("PRAGMA synchronous = FULL")

    return engine

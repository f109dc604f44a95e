"""The history as another process beside the daemon may use it: a command, the nightly training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from . import database, notices, promotions
from .database import AdvisoryLock, FileLock, Lock
from .errors import StoreLocked, place
from .reading import HistoryReader

_TRAINING_KEY = 0x1D1E_0A78


class Ledger(HistoryReader):
    """Reads all, and records what operators decide only: one short transaction beside the daemon's own."""

    @classmethod
    def open(cls, url: str) -> Self:
        """Open beside a running daemon; raises ``SchemaTooNew``, ``SchemaTooOld`` or ``StoreUnavailable``."""
        engine = database.connect(database.parse(url))
        with database.translated(engine.url):
            database.check_schema(engine)
        return cls(engine)

    def decide(self, *taken: promotions.Promotion) -> None:
        """Record decisions, all or none; a running daemon acts on them at its next round of advice."""
        with self._writing() as connection:
            for promotion in taken:
                promotions.store(connection, promotion)

    @contextmanager
    def training(self) -> Iterator[Callable[[], None]]:
        """Let no other nightly training decide in this database meanwhile; raises ``StoreLocked`` while one does.

        What it yields takes the lock again where it was lost with its session, or raises ``StoreLocked``.
        """
        with database.translated(self._engine.url):
            lock = _training_lock(self._engine)

        def check() -> None:
            with database.translated(self._engine.url):
                lock.check()

        try:
            yield check
        finally:
            lock.release()

    def opt_out(self, user: str, since_s: float) -> None:
        """Record that a user wants no notices; a running daemon obeys it at its next look."""
        with self._writing() as connection:
            notices.opt_out(connection, user, since_s)

    def opt_in(self, user: str) -> bool:
        """Record that a user wants notices again; return whether that is new."""
        with self._writing() as connection:
            return notices.opt_in(connection, user)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with (database.translated(self._engine.url),
              self._engine.connect().execution_options(writing=True) as connection, connection.begin()):
            yield connection


def _training_lock(engine: Engine) -> Lock:
    """Take the lock of trainings that decide; raises ``StoreLocked`` while another one holds it.

    It is one in a database, whichever host and folder of models a training uses. It ends with its process, and on
    PostgreSQL a minute after its host is gone.
    """
    if engine.dialect.name == "postgresql":
        return AdvisoryLock(engine, _TRAINING_KEY, _trains)
    return FileLock(engine.url, ".training.lock", _trains)


def _trains(url: URL, holder: str) -> StoreLocked:
    return StoreLocked(f"another nightly training decides in {place(url)} ({holder}): two at a time would take two "
                       "chances for one; let one host train, or wait until that training ends")

"""The history as another process beside the daemon may use it: a command, the nightly training."""

from __future__ import annotations

from typing import Self

from . import database, promotions
from .reading import HistoryReader


class Ledger(HistoryReader):
    """Reads all, and records decisions on agents only: one short transaction beside the daemon's own."""

    @classmethod
    def open(cls, url: str) -> Self:
        """Open beside a running daemon; raises ``SchemaTooNew``, ``SchemaTooOld`` or ``StoreUnavailable``."""
        engine = database.connect(database.parse(url))
        with database.translated(engine.url):
            database.check_schema(engine)
        return cls(engine)

    def decide(self, promotion: promotions.Promotion) -> None:
        """Record a decision; a running daemon acts on it at its next round of advice."""
        with (database.translated(self._engine.url),
              self._engine.connect().execution_options(writing=True) as connection, connection.begin()):
            promotions.store(connection, promotion)

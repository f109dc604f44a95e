"""Notices that an SQLite file was deleted, moved away or replaced while it is open: writes would go to nowhere."""

from __future__ import annotations

import logging
import os
from threading import Lock

from sqlalchemy import Engine

from . import database
from .errors import StoreUnavailable

log = logging.getLogger(__name__)


class Presence:
    """Whether the file under the database's name is still the one that connections write to."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path = str(engine.url.database) if engine.dialect.name == "sqlite" else None
        self._turn = Lock()
        self.replaced = 0
        """How often another file has taken its place."""
        self._file = self._hold()

    def check(self) -> None:
        """Go on with another file that has taken its place.

        Raises ``StoreUnavailable`` while there is no file, and as ``database.check_schema`` for one of another kind.
        """
        if self._path is None or self._same():
            return
        with self._turn:
            if self._same():
                return
            # What connections still hold is completed, and reaches the file if that was only moved.
            self._engine.dispose()
            if not os.path.exists(self._path):
                raise StoreUnavailable(
                    f"database {self._path} was deleted or moved away while idlewatt records into it; put it back, or "
                    "restart the daemon to begin a new one")
            with database.translated(self._engine.url):
                database.check_schema(self._engine)
            self.close()
            self._file = self._hold()
            self.replaced += 1
        log.warning("another file has taken the place of the database and is recorded into from now on", extra={
            "target": self._path})

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _hold(self) -> int | None:
        # As long as it is held, no other file gets its number. O_PATH: closing any other descriptor would drop
        # SQLite's own locks (POSIX: of the whole process).
        return None if self._path is None else os.open(self._path, os.O_PATH | os.O_CLOEXEC)

    def _same(self) -> bool:
        assert self._path is not None
        if self._file is None:
            return True  # closed
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except OSError:
            return False

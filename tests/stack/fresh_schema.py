"""Give each new SQLite database its schema at once: all migrations, which take 0.2 s, run once in a worker.

What asks of migrations themselves takes the real ones: ``pytestmark = pytest.mark.usefixtures("real_migrations")``.
"""

import contextlib
import functools
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from idlewatt.storage import database

migrate = database.upgrade
"""The real one."""


@functools.cache
def _schema() -> bytes:
    """Return a database that the real migrations made of nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "idlewatt.db"
        engine = database.connect(database.parse(f"sqlite:///{file}"))
        migrate(engine)
        engine.dispose()
        with contextlib.closing(sqlite3.connect(file)) as made:
            made.execute("PRAGMA journal_mode = DELETE")  # no journal beside, which bytes could not hold
            return made.serialize()


def lay(file: Path) -> None:
    """Write a database with the schema and nothing in it; who starts a daemon on it starts no process to make one."""
    if not file.exists():
        file.write_bytes(_schema())


def _fill(engine: Engine) -> None:
    """Copy the schema into a database without tables; whatever is wrong with it the real migrations will tell."""
    with contextlib.suppress(sqlite3.Error, DBAPIError):
        connection = engine.raw_connection()
        try:
            there = connection.driver_connection
            assert isinstance(there, sqlite3.Connection)
            if there.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                with contextlib.closing(sqlite3.connect(":memory:")) as schema:
                    schema.deserialize(_schema())
                    schema.backup(there)
        finally:
            connection.invalidate()
            connection.close()


def upgrade(engine: Engine, *tell: Callable[[int, int], object]) -> None:
    """Bring the schema to this version as the real one does; a new database has it already."""
    if engine.dialect.name == "sqlite":
        _fill(engine)
    migrate(engine, *tell)

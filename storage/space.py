"""Tells how much tables hold, gives the space of deleted rows back to the file system, and tells how far that is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table, func, select, text

from . import schema
from .database import ProgressCallback

if TYPE_CHECKING:
    import sqlite3

    import psycopg

WRITTEN = 3
"""Times that SQLite writes what is left: into a temporary file, from there into its log, from there into the file."""
LOOKS_S = 0.2


@dataclass(frozen=True, slots=True)
class TableStats:
    """How much a table holds; bytes with its indexes, None where the database does not tell."""

    table: str
    rows: int
    bytes: int | None
    oldest_s: float | None
    newest_s: float | None


def table_stats(connection: Connection, table: Table, clock: str) -> TableStats:
    """Return how much a table holds; ``clock`` is the column that tells how old a row is."""
    age = table.c[clock]
    rows, oldest, newest = connection.execute(select(func.count(), func.min(age), func.max(age))
                                              .select_from(table)).one()
    return TableStats(table.name, rows, _bytes(connection, table), oldest, newest)


def _bytes(connection: Connection, table: Table) -> int | None:
    if connection.dialect.name == "postgresql":
        return int(connection.execute(text("SELECT pg_total_relation_size(:name)"), {"name": table.name}).scalar_one())
    # An optional part of SQLite.
    if not connection.execute(text("SELECT sqlite_compileoption_used('ENABLE_DBSTAT_VTAB')")).scalar_one():
        return None
    return int(connection.execute(text(
        "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE AND name IN "
        "(SELECT name FROM sqlite_schema WHERE tbl_name = :name)"), {"name": table.name}).scalar_one())


def rewrite_sqlite(driver: sqlite3.Connection, report: ProgressCallback) -> None:
    """Rewrite a database file without its free pages; ``report`` gets how many of how many bytes are written."""
    with _watched(WRITTEN * _used_bytes(driver), report):
        driver.execute("VACUUM")
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def clear_postgresql(driver: psycopg.Connection[tuple[int]], report: ProgressCallback) -> None:
    """Clear one table after the other; ``report`` gets how many of how many bytes the tables have that are done.

    The driver commits by itself: VACUUM runs in no transaction.
    """
    sizes = {name: row[0] for name in schema.metadata.tables
             for row in driver.execute("SELECT pg_total_relation_size(%s::regclass)", (name,))}
    done = 0
    for name, size in sizes.items():
        driver.execute(f'VACUUM (ANALYZE) "{name}"')  # a name of our own schema
        done += size
        report(done, sum(sizes.values()))


def _used_bytes(driver: sqlite3.Connection) -> int:
    """Return the bytes in use: by page where SQLite can look into its pages, else all that are not free."""
    if driver.execute("SELECT sqlite_compileoption_used('ENABLE_DBSTAT_VTAB')").fetchone()[0]:
        return int(driver.execute("SELECT coalesce(sum(pgsize - unused), 0) FROM dbstat WHERE aggregate = TRUE")
                   .fetchone()[0])
    pages, free, size = (int(driver.execute(f"PRAGMA {name}").fetchone()[0])
                         for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


@contextmanager
def _watched(total: int, report: ProgressCallback) -> Iterator[None]:
    """Report again and again how much this process has written since; a statement says nothing while it runs."""
    over, before = threading.Event(), _written_bytes()

    def look() -> None:
        while not over.wait(LOOKS_S):
            report(min(_written_bytes() - before, total), total)

    watcher = threading.Thread(target=look, name="vacuum", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    report(total, total)


def _written_bytes() -> int:
    """Return the bytes that this process has written so far, by the kernel's count; 0 where it keeps none."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
            if line.startswith("wchar:"):
                return int(line.partition(":")[2])
    return 0

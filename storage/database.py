"""Connections: SQLite tuned for one writer and many readers, PostgreSQL by URL, one daemon per database."""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import itertools
import json
import math
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    Table,
    UniqueConstraint,
    case,
    create_engine,
    event,
    func,
    inspect,
    make_url,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from .errors import SchemaTooNew, SchemaTooOld, StoreError, StoreLocked, StoreUnavailable, explain, place

if TYPE_CHECKING:
    import sqlite3

    from alembic.config import Config
    from sqlalchemy import ColumnElement

_ADVISORY_LOCK = 0x1D1E_0A77
BUSY_TIMEOUT_S = 5.0
_PATIENCE = {"connect_timeout": 2, "keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3,
             "tcp_user_timeout": 10_000}
"""How long libpq waits for a server that is away, where the URL does not say; its own default is hours."""
_SERVER_PATIENCE = "SELECT " + ", ".join(f"set_config('tcp_keepalives_{name}', '{value}', false)" for name, value in (
    ("idle", 30), ("interval", 10), ("count", 3)))
"""After a minute the server drops a session, and its lock, whose host is gone; by itself it would wait for hours."""

_PORT = 5432
"""Of PostgreSQL, where a URL names none."""

_HERE = "localhost"
_LOCAL = {"", _HERE, "localhost.localdomain", "ip6-localhost",
          *(os.path.realpath(folder) for folder in ("/var/run/postgresql", "/tmp"))}  # noqa: S108 - libpq's own
"""Names of this machine everywhere, with the folders of sockets that libpq takes where a URL names no host."""

ProgressCallback = Callable[[int, int], object]
"""Called with how many of how many steps are done."""


def parse(url: str) -> URL:
    """Return the URL with our drivers filled in; a bare path means SQLite."""
    if "://" not in url:
        url = f"sqlite:///{url}"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # any of the rest may be of its password, and the cause shows some
        raise StoreError(f"{url.partition('://')[0]}://... is no database URL; write sqlite:////path or "
                         "postgresql://user@host/name, and a port as a number: user@host:5432") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(f"idlewatt knows sqlite and postgresql, not {parsed.get_backend_name()!r}")
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.database in (None, "", ":memory:"):
        raise StoreError(f"{url!r} names no file, and a history in memory would not outlive the daemon")
    _timeout_s(parsed)
    return parsed


def _timeout_s(url: URL) -> float:
    """Return how long to wait for another writer of an SQLite file; StoreError where the URL says no such time."""
    told = url.query.get("timeout", str(BUSY_TIMEOUT_S))
    try:
        seconds = float(str(told))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise StoreError(f"timeout={told} of the database URL is no number of seconds; write for example timeout=30")
    return seconds


def fingerprint(url: str) -> str:
    """Return a digest that tells databases apart, the same for every way to write a URL, and tells nothing else."""
    parsed = parse(url)
    name = os.path.realpath(place(parsed)) if parsed.get_backend_name() == "sqlite" else _on_server(parsed)
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _on_server(url: URL) -> str:
    """Return which database of which server a URL names, whoever asks it and however."""
    host, port = url.host or url.query.get("host", ""), url.port or url.query.get("port", _PORT)
    return f"{_host(str(host).lower())}:{port}/{url.database or url.username}"


def _host(name: str) -> str:
    """Return one name for all that mean this machine; names are not looked up, which may take long."""
    name = os.path.realpath(name) if name.startswith("/") else name.rstrip(".")
    hostname = socket.gethostname().lower()
    with suppress(ValueError):
        return _HERE if ipaddress.ip_address(name.strip("[]")).is_loopback else name
    return _HERE if name in {hostname, hostname.partition(".")[0], *_LOCAL} or name.endswith(f".{_HERE}") else name


_compact = json.JSONEncoder(separators=(",", ":")).encode
"""Writes JSON without spaces: every list of GPUs and nodes is stored once for each job or more."""


def connect(url: URL, *, read_only: bool = False) -> Engine:
    """Return an engine; nothing is opened yet."""
    if url.get_backend_name() == "postgresql":
        options: dict[str, Any] = {name: value for name, value in _PATIENCE.items() if name not in url.query}
        if read_only:
            options["options"] = "-c default_transaction_read_only=on"
        return create_engine(url, pool_pre_ping=True, connect_args=options, json_serializer=_compact)
    return _sqlite_engine(url, read_only)


def _sqlite_engine(url: URL, read_only: bool) -> Engine:
    options: dict[str, Any] = {"timeout": _timeout_s(url)}
    if read_only:
        url = url.set(database=Path(url.database or "").absolute().as_uri(),
                      query={**url.query, "mode": "ro", "uri": "true"})
    engine = create_engine(url, connect_args=options, json_serializer=_compact)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # The driver would begin transactions late and lazily; we say BEGIN ourselves.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer that starts as a reader could fail half-way with SQLITE_BUSY; it takes its turn at once.
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turn a driver's complaint about the database itself into ``StoreUnavailable``."""
    try:
        yield
    except DBAPIError as error:
        unavailable = explain(error, url)
        if unavailable is None:
            raise
        raise unavailable from error
    except PoolTimeout as error:
        raise StoreUnavailable(f"database {place(url)} does not answer: every connection waits for it") from error


Refusal = Callable[[URL, str], StoreLocked]
"""Makes the error about a lock that somebody else holds, from the database and its holder in words."""


class Lock(Protocol):
    """Keeps a second daemon away from the database as long as this process lives."""

    def check(self) -> None:
        """Take the lock again where it was lost; raise ``StoreLocked`` while another daemon has it."""

    def release(self) -> None:
        """Let another daemon in; a second time, or with the server away, nothing happens."""


class FileLock:
    """An ``flock`` beside the SQLite file: the kernel drops it when the process dies, however it dies."""

    def __init__(self, url: URL, suffix: str = ".lock", refusal: Refusal | None = None) -> None:
        self._url, self._path, self._refusal = url, f"{url.database}{suffix}", refusal or _locked
        self._file: int | None = self._take()

    def _take(self) -> int:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise StoreUnavailable(f"cannot create {self._path}: {error.strerror}; check that the folder exists and "
                                   "that this user may write to it") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            os.close(file)
            raise self._refusal(self._url, f"process {holder or 'unknown'}") from error
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        return file

    def check(self) -> None:
        """Take the lock again when its file was deleted: another daemon would make its own."""
        if self._file is None or not self._there(self._file):
            self.release()
            self._file = self._take()

    def _there(self, file: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let another daemon in."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class AdvisoryLock:
    """A PostgreSQL advisory lock on a connection of its own; the server drops it with the connection."""

    def __init__(self, engine: Engine, key: int = _ADVISORY_LOCK, refusal: Refusal | None = None) -> None:
        self._engine, self._key, self._refusal = engine, key, refusal or _locked
        self._connection: Connection | None = self._take()

    def _take(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            connection.execute(text(_SERVER_PATIENCE))
            taken = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": self._key}).scalar_one()
        except DBAPIError:
            connection.close()
            raise
        if not taken:
            connection.close()
            raise self._refusal(self._engine.url, "a session that holds its advisory lock")
        return connection

    def check(self) -> None:
        """Take the lock again when the server went away and came back."""
        if self._connection is not None:
            try:
                self._connection.execute(text("SELECT 1"))
            except DBAPIError:
                self._discard()
        if self._connection is None:
            self._connection = self._take()

    def release(self) -> None:
        """Let another daemon in at once: the server notices only some time later that a connection was closed."""
        if self._connection is not None:
            with suppress(DBAPIError):
                self._connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": self._key})
            self._discard()

    def _discard(self) -> None:
        if self._connection is not None:
            # Really closed: returned to the pool, the session would keep the lock.
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def lock(engine: Engine) -> Lock:
    """Take the one daemon's lock; raises ``StoreLocked`` when another one holds it."""
    if engine.dialect.name == "postgresql":
        return AdvisoryLock(engine)
    return FileLock(engine.url)


def _locked(url: URL, holder: str) -> StoreLocked:
    return StoreLocked(f"another idlewatt daemon records into {place(url)} ({holder}); stop it first, or give this one "
                       "a database of its own")


def upgrade(engine: Engine, report: ProgressCallback = lambda done, total: None) -> None:
    """Bring the schema to this version, all of it or nothing; raises ``SchemaTooNew``.

    ``report`` gets how many of how many steps are done.
    """
    with engine.connect().execution_options(writing=True) as connection:
        if engine.dialect.name == "sqlite":
            # Alembic copies tables that it alters; their rows must not cascade away meanwhile.
            connection.connection.driver_connection.execute("PRAGMA foreign_keys = OFF")  # type: ignore[union-attr]
        if not _at_head(connection):
            from alembic import command  # 10 MB, which only a schema that is behind needs

            config = _alembic(connection)
            config.attributes["hears"] = _counting(connection, report)
            command.upgrade(config, "head")
        connection.commit()
        # Gone with its pragma; the next connection is prepared afresh.
        connection.invalidate()


def check_schema(engine: Engine) -> None:
    """Raise ``SchemaTooNew`` or ``SchemaTooOld`` unless the schema is of this version."""
    with engine.connect() as connection:
        if not _at_head(connection):
            raise SchemaTooOld(f"the schema of {place(engine.url)} is older than this idlewatt, or missing; start the "
                               "daemon once or run 'idlewatt db upgrade'")


def _counting(connection: Connection, report: ProgressCallback) -> Callable[..., None]:
    """Return what Alembic calls after each step."""
    known, current = _versions(connection)
    steps, done = [version for version in known if current is None or version > current], itertools.count(1)
    report(0, len(steps))

    def hears(**_: object) -> None:
        report(next(done), len(steps))

    return hears


def _alembic(connection: Connection) -> Config:
    from alembic.config import Config  # as above

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _at_head(connection: Connection) -> bool:
    """Tell whether the schema is of this version; without Alembic, which a daemon would carry for its whole life."""
    known, current = _versions(connection)
    if current is not None and current not in known:
        raise SchemaTooNew(f"{place(connection.engine.url)} has schema {current}, which is newer than this idlewatt "
                           f"(it knows up to {known[-1]}); install the newer version")
    return bool(current == known[-1])


def _versions(connection: Connection) -> tuple[list[str], str | None]:
    """Return the versions of the schema that are known here, and that of the database; None when it has none."""
    known = sorted(path.name[1:5] for path in (Path(__file__).parent / "migrations" / "versions").glob("v*.py"))
    recorded = inspect(connection).has_table("alembic_version")
    return known, connection.execute(text("SELECT version_num FROM alembic_version")).scalar() if recorded else None


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *,
           update: Sequence[str] = (), keep_known: Sequence[str] = ()) -> None:
    """Insert rows; where the key exists, set ``update`` and, unless the new value is NULL, ``keep_known``.

    The key is the table's one unique constraint, or its primary key. All rows must have the same columns.
    """
    if not rows:
        return
    connection.execute(_upsert(connection.dialect.name, table, tuple(update), tuple(keep_known)), rows)


@cache
def _upsert(dialect: str, table: Table, update: tuple[str, ...], keep_known: tuple[str, ...]) -> Executable:
    """Return the statement; putting it together takes longer than writing the few rows of a cycle."""
    insert = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    unique = next((item for item in table.constraints if isinstance(item, UniqueConstraint)), table.primary_key)
    new: dict[str, ColumnElement[object]] = {name: insert.excluded[name] for name in update}
    new |= {name: func.coalesce(insert.excluded[name], table.c[name]) for name in keep_known}
    key = [column.name for column in unique.columns]
    return insert.on_conflict_do_update(index_elements=key, set_=new) if new else insert.on_conflict_do_nothing()


def accumulate(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], add: Sequence[str],
               most: Sequence[str] = (), replace: Sequence[str] = ()) -> None:
    """Insert rows; where the key exists, add ``add`` to what is there, keep the larger of ``most``, set ``replace``."""
    if rows:
        connection.execute(_accumulate(connection.dialect.name, table, tuple(add), tuple(most), tuple(replace)), rows)


@cache
def _accumulate(dialect: str, table: Table, add: tuple[str, ...], most: tuple[str, ...], replace: tuple[str, ...]) \
        -> Executable:
    insert = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    unique = next((item for item in table.constraints if isinstance(item, UniqueConstraint)), table.primary_key)
    new: dict[str, ColumnElement[float]] = {name: _added(table.c[name], insert.excluded[name]) for name in add}
    for name in most:
        old, given = table.c[name], insert.excluded[name]
        new[name] = case((old.is_(None) | (given > old), given), else_=old)
    new |= {name: insert.excluded[name] for name in replace}
    return insert.on_conflict_do_update(index_elements=[column.name for column in unique.columns], set_=new)


def _added(old: ColumnElement[float], given: ColumnElement[float]) -> ColumnElement[float]:
    """Return the sum of a row and what is given; of a column that may be NULL, of as much as is known."""
    if not old.nullable:
        return old + given
    return func.coalesce(old + given, old, given)

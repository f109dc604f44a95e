"""A private PostgreSQL server, the real one, on a socket in a folder of its own."""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from idlewatt.storage import database as storage

_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


class Server:
    """A PostgreSQL server of one's own, which may be stopped and started again."""

    def __init__(self, *options: str) -> None:
        # Not pytest's own folder: the server's user must be able to walk there.
        self.root = Path(tempfile.mkdtemp(prefix="idlewatt-pg-"))
        if os.geteuid() == 0:
            shutil.chown(self.root, "postgres")
        self.root.chmod(0o755)
        self._control = [str(_BINARIES[-1].parent / "pg_ctl"), "--pgdata", str(self.root / "data"), "--silent"]
        _run([*self._control, "initdb", "--options", "--auth=trust --encoding=UTF8 --no-sync --username=postgres"])
        self._settings = " ".join(("-c listen_addresses=''", f"-c unix_socket_directories={self.root}", *options))

    @property
    def url(self) -> str:
        """Return the URL of the server's own database."""
        return f"postgresql://postgres@/postgres?host={self.root}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        _run([*self._control, "start", "--wait", "--log", str(self.root / "log"), "--options", self._settings])

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: ``fast`` ends sessions in order, ``immediate`` is a crash."""
        _run([*self._control, "stop", "--mode", mode])

    def remove(self) -> None:
        """Stop it for good."""
        subprocess.run([*_as_server(), *self._control, "stop", "--mode", "immediate"], check=False, cwd="/",
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.root)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Return the URL of a private PostgreSQL server."""
    server = _server()
    server.start()
    try:
        yield server.url
    finally:
        server.remove()


@pytest.fixture
def frail_postgres() -> Iterator[Server]:
    """Return a private PostgreSQL server that a test may stop and start; it runs."""
    server = _server("-c fsync=off")
    server.start()
    try:
        yield server
    finally:
        server.remove()


def _server(*options: str) -> Server:
    if not _BINARIES:
        pytest.skip("no PostgreSQL server binary in /usr/lib/postgresql")
    return Server(*options)


@functools.cache
def migrated(server: str) -> str:
    """Return the name of a database that has the schema, to be copied: migrations take half a second."""
    engine = storage.connect(storage.parse(database(server, "migrated")))
    storage.upgrade(engine)
    engine.dispose()
    return "migrated"


def database(server: str, name: str, template: str = "template1") -> str:
    """Return the URL of a database of this name, which is empty unless the template is not."""
    engine = create_engine(server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    engine.dispose()
    return server.replace("/postgres?", f"/{name}?")


def _run(command: list[str]) -> None:
    subprocess.run([*_as_server(), *command], check=True, cwd="/", stdout=subprocess.DEVNULL)


def _as_server() -> list[str]:
    # The server refuses to run as root.
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []

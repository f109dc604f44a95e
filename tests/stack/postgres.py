"""A private PostgreSQL server, the real one, on a socket in a folder of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Return the URL of a private PostgreSQL server."""
    if not _BINARIES:
        pytest.skip("no PostgreSQL server binary in /usr/lib/postgresql")
    # Not pytest's own folder: the server's user must be able to walk there.
    root = Path(tempfile.mkdtemp(prefix="idlewatt-pg-"))
    if os.geteuid() == 0:
        shutil.chown(root, "postgres")
    root.chmod(0o755)
    control = [str(_BINARIES[-1].parent / "pg_ctl"), "--pgdata", str(root / "data"), "--silent"]
    _run([*control, "initdb", "--options", "--auth=trust --encoding=UTF8 --no-sync --username=postgres"])
    settings = f"-c listen_addresses='' -c unix_socket_directories={root}"
    _run([*control, "start", "--wait", "--log", str(root / "log"), "--options", settings])
    try:
        yield f"postgresql://postgres@/postgres?host={root}"
    finally:
        _run([*control, "stop", "--mode", "immediate"])
        shutil.rmtree(root)


def database(server: str, name: str) -> str:
    """Return the URL of an empty database of this name."""
    engine = create_engine(server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server.replace("/postgres?", f"/{name}?")


def _run(command: list[str]) -> None:
    # The server refuses to run as root.
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*prefix, *command], check=True, cwd="/", stdout=subprocess.DEVNULL)

"""``idlewatt db``: the database of the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ._client import DaemonUnreachable, Since, warn_beside
from ._output import Row, show
from ._progress import progress
from ._renamed import Renamed

if TYPE_CHECKING:
    from ...exporters.slurm.cli import SlurmCommands
    from ...storage.reading import HistoryReader
    from ...storage.space import TableStats

DEFAULT_CONFIG = "/etc/idlewatt/config.yml"

Opened = TypeVar("Opened", bound="HistoryReader")


def _which_database(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option("--database-url", "url", cls=Renamed, former=("--url",), envvar="IDLEWATT_DATABASE_URL",
                           show_envvar=True, help="The database itself instead, e.g. "
                                                  "sqlite:////var/lib/idlewatt/idlewatt.db.")(command)
    return click.option("--config.file", "config_file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG,
                        show_default=True, help="Configuration that names the database.")(command)


def _url(config_file: Path, url: str | None) -> str:
    from .. import config

    if url:
        return _parsed(url)
    try:
        return config.load(config_file).storage.url
    except config.ConfigError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(2) from error


def _parsed(url: str) -> str:
    """Return the URL; refuse an unknown kind of URL as wrong usage, not as an unreachable database."""
    from ...storage.database import parse
    from ...storage.errors import StoreError

    try:
        parse(url)
    except StoreError as error:
        raise click.UsageError(str(error)) from error
    return url


@contextmanager
def _opened(open_it: Callable[[str], Opened], url: str) -> Iterator[Opened]:
    from ...storage.errors import StoreError

    try:
        with open_it(url) as history:
            yield history
    except StoreError as error:
        raise DaemonUnreachable(str(error)) from error


@click.group("db", short_help="Maintain the database.")
def command() -> None:
    """Look after the database: its schema, its size, its free space."""


@command.command("upgrade", short_help="Upgrade the database schema.")
@_which_database
def upgrade(config_file: Path, url: str | None) -> None:
    """Upgrade the database schema to this version; the daemon also does so when it starts.

    \b
    Example:
      idlewatt db upgrade --database-url sqlite:////var/lib/idlewatt/idlewatt.db
    """
    from ...storage.history import History

    location = _url(config_file, url)
    with progress("bringing the schema to this version") as report, \
            _opened(lambda where: History.open(where, report=report), location):
        pass
    click.echo("the schema is up to date")


@command.command("vacuum", short_help="Reclaim the space of deleted rows.")
@_which_database
def vacuum(config_file: Path, url: str | None) -> None:
    """Return the space of deleted rows to the file system; stop the daemon first.

    \b
    Example:
      systemctl stop idlewatt && idlewatt db vacuum && systemctl start idlewatt
    """
    from ...storage.history import History

    with _opened(History.open, _url(config_file, url)) as history:
        before = history.size_bytes()
        with progress("giving free space back") as report:
            history.vacuum(report)
        click.echo(f"{before:,} bytes before, {history.size_bytes():,} now")


@command.command("stats", short_help="Show what the database holds.")
@_which_database
@click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True,
              help="Output format.")
def stats(config_file: Path, url: str | None, style: str) -> None:
    """Show what the database holds; works beside a running daemon.

    \b
    Example:
      idlewatt db stats --format json
    """
    from ...storage.history import History

    database = _url(config_file, url)
    with _opened(History.read_only, database) as history:
        warn_beside(database)
        with progress("counting rows") as report:
            rows = [_row(table) for table in history.stats(report)]
    columns = {"table": "table", "rows": "rows", "bytes": "bytes", "oldest": "oldest", "newest": "newest"}
    show(rows, columns, style)


@command.command("import", short_help="Import past jobs from Slurm's accounting.")
@_which_database
@click.argument("what", metavar="sacct|FILE")
@click.option("--since", type=Since(), default="365d", show_default=True,
              help="From this time on, for sacct: 90d, 2y, 2026-01-01; a file is read whole.")
@click.option("--trusted", is_flag=True,
              help="Accept a table with a single-character delimiter, in which a job's name may forge rows of other "
                   "users.")
def bring_in(config_file: Path, url: str | None, what: str, since: str, *, trusted: bool) -> None:
    """Import past jobs from Slurm's accounting, while the daemon runs; training and reports then use them.

    FILE is the output of sacct elsewhere, as JSON or as a table with a delimiter that was drawn at random. You may
    interrupt the import: the same command resumes it, and nothing is imported twice.

    \b
    Examples:
      idlewatt db import sacct --since 1y
      TZ=UTC sacct --allusers --allocations --json --starttime=2026-01-01 > past.json; idlewatt db import past.json
    """
    from ..moments import moment_of
    from ._importing import bring

    now_s = time.time()
    back_s = max(0.0, now_s - moment_of(since, now_s))
    database = _url(config_file, url)
    warn_beside(database)
    bring(database, what, back_s, _commands(config_file), trusted=trusted)


def _commands(config_file: Path) -> SlurmCommands:
    """Return the paths of Slurm's commands, from the configuration if it sets them."""
    from ...exporters.slurm.cli import SlurmCommands
    from .. import config
    from ._importing import SACCT_TIMEOUT_S

    commands = SlurmCommands(kind="slurm_cli")
    if config_file.exists():
        try:
            sources = config.load(config_file).sources
        except config.ConfigError as error:
            raise click.UsageError(str(error)) from error
        commands = next((source for source in sources if isinstance(source, SlurmCommands)), commands)
    return commands.model_copy(update={"timeout": max(commands.timeout, SACCT_TIMEOUT_S)})


def _row(table: TableStats) -> Row:
    return {"table": table.table, "rows": table.rows, "bytes": table.bytes, "oldest": _day(table.oldest_s),
            "newest": _day(table.newest_s)}


def _day(time_s: float | None) -> str | None:
    from datetime import UTC, datetime

    return None if time_s is None else datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M")

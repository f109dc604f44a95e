"""``idlewatt db import``: past jobs from Slurm's accounting, which the daemon did not record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._client import DaemonUnreachable
from ._output import plain
from ._progress import progress

if TYPE_CHECKING:
    from ...exporters.slurm.cli import SlurmCommands
    from ...storage.imports import Importer
    from ..accounting import Brought, HistoryChunk

SACCT_TIMEOUT_S = 300.0
"""Timeout of sacct for one day of accounting, s."""


@contextmanager
def opened(url: str) -> Iterator[Importer]:
    """Open the database beside a running daemon; Unreachable if it cannot be written."""
    from ...storage.errors import StoreError
    from ...storage.imports import Importer

    try:
        with Importer.open(url) as importer:
            yield importer
    except StoreError as error:
        raise DaemonUnreachable(str(error)) from error


def bring(url: str, what: str, since_s: float, commands: SlurmCommands, *, trusted: bool) -> None:
    """Import past jobs, with a progress bar on a terminal; an interrupted import resumes."""
    from ...exporters.slurm.fields import BadRecord
    from ...exporters.source import SourceError
    from .. import accounting

    brought = accounting.Brought()
    with opened(url) as importer, progress(f"reading {plain(what)}") as report:
        try:
            source, parts = _source(importer, what, since_s, commands, trusted=trusted)
            for brought in accounting.import_chunks(importer, source, parts):
                report(brought.done, brought.total)
        except KeyboardInterrupt as interrupt:
            click.echo(f"interrupted: {_said(brought)}; the same command goes on from there", err=True)
            raise click.exceptions.Exit(130) from interrupt
        except FileNotFoundError as error:
            raise click.UsageError(f"{what}: {error.strerror}") from error
        except OSError as error:
            raise click.ClickException(f"{what}: {error.strerror}") from error
        except (BadRecord, SourceError) as error:
            hint = "; --trusted takes it as it is" if type(error).__name__ == "Untrusted" else ""
            raise click.ClickException(f"{what}: {plain(str(error))}{hint}") from error
    click.echo(_said(brought))
    for example in brought.examples:
        click.echo(f"  {plain(example)}", err=True)


def _source(importer: Importer, what: str, since_s: float, commands: SlurmCommands, *, trusted: bool) \
        -> tuple[str, Iterator[HistoryChunk]]:
    """Return the name of the source in the database, and its parts."""
    from ...exporters.slurm.cli import SlurmCli
    from ..accounting import from_file, from_sacct, name_of

    now_s = time.time()
    if what != "sacct":
        name = name_of(Path(what))
        return name, from_file(Path(what), importer.parts(name), now_s, trusted=trusted)
    name = f"sacct {commands.slurm_conf}" if commands.slurm_conf else "sacct"
    return name, from_sacct(SlurmCli(commands).finished, now_s - since_s, now_s, importer.parts(name))


def _said(brought: Brought) -> str:
    share = 100 * brought.done / brought.total if brought.total else 0
    skipped = f", {brought.skipped:,} rows cannot be read" if brought.skipped else ""
    return f"{share:.0f} % read: {brought.runs:,} runs of which {brought.jobs:,} jobs are new{skipped}"

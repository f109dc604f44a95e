"""How far a reproduction has come, on the terminal; on stderr, for stdout names what is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def progress() -> Progress:
    """Return a progress display with a bar and the time to go for every part."""
    return Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True))


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Say at Ctrl-C that nothing is lost; KeyboardInterrupt goes on its way."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted: nothing is reported yet; the same command goes on with the training", err=True)
        raise

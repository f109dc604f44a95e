"""How far a reproduction has come, on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def progress() -> Progress:
    """Return one with a bar and the time to go for every part; on stderr, for stdout names what is written."""
    return Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True))

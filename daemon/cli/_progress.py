"""How far a command has come and how long it will go on: on a terminal's standard error, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, Task
    from rich.text import Text

ProgressCallback = Callable[[float, float | None], None]
"""Hears how much is done, and of how much."""
PATIENCE_S = 1.0
"""What is over sooner shows nothing."""


@contextmanager
def progress(what: str) -> Iterator[ProgressCallback]:
    """Show the share that is done and the time to go; yield what is told of it."""
    if not _on_terminal():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = _line(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
                TextColumn("{task.fields[words]}"), TimeRemainingColumn())
    task = bar.add_task(what, total=None, words="")
    with _shown(bar):
        yield lambda done, total: bar.update(task, completed=done, total=total, words="to go")


@contextmanager
def waiting(what: str, expected_s: float, how: str = "about") -> Iterator[None]:
    """Show how long something has taken, and how long it usually takes: what cannot be counted on the way.

    ``how`` stands before the time to go: ``at most`` where the time is a limit.
    """
    if not _on_terminal():
        yield
        return
    from rich.progress import ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text as Words

    class ToGo(ProgressColumn):
        """What is left of the usual time."""

        def render(self, task: Task) -> Text:
            return Words(left(expected_s, task.elapsed or 0.0, how))

    bar = _line(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), ToGo())
    bar.add_task(what, total=None)
    with _shown(bar):
        yield


def _on_terminal() -> bool:
    return sys.stderr.isatty()


def left(expected_s: float, elapsed_s: float, how: str) -> str:
    """Return in words how long something will go on that usually takes so long."""
    rest_s = expected_s - elapsed_s
    if rest_s <= 0:
        return "longer than usual"
    return f"{how} {rest_s / 60:.0f} min to go" if rest_s >= 90 else f"{how} {max(1, round(rest_s))} s to go"  # noqa: PLR2004


def _line(*columns: object) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)  # type: ignore[arg-type]


@contextmanager
def _shown(bar: Progress) -> Iterator[None]:
    """Show it once people would begin to wonder, and take it away in the end."""
    late = Timer(PATIENCE_S, bar.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        if bar.live.is_started:
            bar.stop()

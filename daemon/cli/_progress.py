"""Progress and remaining time of a command, on standard error if it is a terminal."""

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
"""Receives the amount of finished work and the total amount."""
PATIENCE_S = 1.0
"""Time after which progress is shown, s."""


@contextmanager
def progress(what: str) -> Iterator[ProgressCallback]:
    """Show the finished share and the remaining time; yield the progress callback."""
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
    """Show the elapsed and the usual time of work whose progress cannot be counted.

    ``how`` is printed before the remaining time: ``at most`` if the time is a limit.
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
    """Return the remaining time of work with a usual duration, in words."""
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
    """Show the progress after ``PATIENCE_S``, and remove it at the end."""
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

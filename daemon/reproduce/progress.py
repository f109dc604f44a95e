"""Progress of a reproduction on standard error; standard output lists the written files."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from typing import TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def progress() -> Progress:
    """Return a progress display with a bar and the remaining time for every part."""
    return Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True))


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Print at Ctrl-C that the same command resumes the work; re-raise KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted: no report is written yet; the same command continues the training", err=True)
        raise


@contextlib.contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Yield a pool of worker processes, because threads would wait for the interpreter lock; stop it on exit."""
    others = set(multiprocessing.active_children())
    # A process that was forked after torch started its threads would hang; the parent alone hears Ctrl-C.
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), signal.signal,
                               (signal.SIGINT, signal.SIG_IGN))
    try:
        yield pool
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def completed(name: str, tasks: Sequence[Task], stored: Callable[[Task], Outcome | None],
              work: Callable[[Task], Outcome], pool: Executor) -> Iterator[tuple[Task, Outcome]]:
    """Yield the result of each task; results of an earlier run come first."""
    known = [(task, stored(task)) for task in tasks]
    yield from ((task, outcome) for task, outcome in known if outcome is not None)
    open_tasks = [task for task, outcome in known if outcome is None]
    with progress() as bar:
        whole = bar.add_task(name, total=len(tasks), completed=len(tasks) - len(open_tasks))
        waiting = {pool.submit(work, task): task for task in open_tasks}
        for future in as_completed(waiting):
            bar.update(whole, advance=1)
            yield waiting[future], future.result()

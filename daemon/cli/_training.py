"""Shared parts of ``idlewatt train`` and ``idlewatt evaluate``, imported after their options are read."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import click

from ...storage.errors import MASK, without_password
from ..agents.histories import Material, recorded
from ..agents.kinds import Progress
from ..learning.evidence import Comparison
from ..learning.promotion import heard
from ..learning.training import TrainingJob
from ..learning.verdict import PolicyFigures, Verdict
from ..recorded_speeds import unplaced
from ..recorded_watts import site_watts
from ..replay.cluster import ClusterError
from ..simulator_error import Fidelity, check
from ._check import watts_error
from ._costs import StatedPrice
from ._history import JobSource, described
from ._output import as_json, plain, show
from ._progress import progress

_COLUMNS = {"policy": "policy", "utilization": "U", "makespan_days": "makespan d", "jct_mean_s": "JCT s",
            "compared": "of scheduler's own", "wait_mean_s": "wait s", "wait_p99_s": "p99 wait s",
            "energy": "kWh at the wall", "cost": "cost", "energy_down": "empty nodes down"}
_JOULES_PER_KWH = 3.6e6
RECORDED = 3
"""Number of reads of a recorded history: speeds, watts, jobs."""
HIDDEN = MASK
"""Replaces a password in output."""
_NO_PATH = re.compile(r"(history|site|flat|\d+x\d+(:[\w.-]+)?(,.*)?)$")
"""A history, speeds or a cluster by these words stay them beside a folder that is called so."""


def read(where: JobSource, order: TrainingJob) -> Material:
    """Return the history of a training order; a click exception names its fault."""
    click.echo(f"reading {plain(order.source)}", err=True)
    if not where.recorded:
        cluster, prepared = where.read(order.cluster)
        left_out = [f"{count} rows are left out: {reason}" for reason, count in prepared.left_out.items()]
        material = Material(order.source, cluster, prepared.workload,
                            (*prepared.notes, *left_out, *unplaced(prepared.unplaced), *prepared.speeds.notes),
                            prepared.speeds, prepared.power)
        return material if order.until_s is None else material.until(order.until_s)
    since_s, until_s = order.since_s or 0.0, order.until_s or 0.0
    try:
        with where.history() as reader, progress("reading") as heard:
            speeds = where.known_speeds(reader, until_s)
            heard(1, RECORDED)
            watts = site_watts(reader, until_s)
            heard(2, RECORDED)
            material = recorded(reader, since_s, until_s, order.source, speeds, watts)
            heard(3, RECORDED)
        material = replace(material, notes=(f"speeds are {speeds.summary}", f"watts are {watts.summary}",
                                            *material.notes,
                                            *speeds.notes))
        if order.cluster is None:
            return material
        cluster = described(order.cluster)
        return replace(material, cluster=cluster, power=watts.on(cluster), scheduling=None, reserved=())
    except ClusterError as error:
        raise click.ClickException(str(error)) from error


def now_of(where: JobSource) -> float:
    """Return the present time of a history, s; that of a simulated cluster may be ahead of this machine's clock."""
    now_s = time.time()
    with where.history() as reader:
        later = reader.jobs(now_s, float("inf"), limit=1)
    return later[0].submit_s + 1 if later else now_s


def shown(source: Any) -> Any:
    """Return the name of a history, a cluster or speeds for records, with absolute paths and without a password."""
    if source and "://" in source:
        return without_password(source)
    return str(Path(source).resolve()) if source and not _NO_PATH.match(source) and Path(source).exists() else source


def fidelity(where: JobSource, order: TrainingJob, since_s: float) -> Fidelity | None:
    """Return how well the incumbent's replay reproduces the history; None if there is no measure of it."""
    if not where.recorded or order.cluster is not None or order.until_s is None:
        return None
    with where.history() as reader, progress("replaying what happened") as heard:
        errors = check(reader, since_s, order.until_s, order.incumbent, where.known_speeds(reader, order.until_s),
                       heard)
    tell([f"watts are {errors.watts}{watts_error(errors)}"])
    return errors


def tell(notes: Iterable[str]) -> None:
    """Print the notes on a history, with control characters removed from names."""
    for note in notes:
        click.echo(f"note: {plain(note)}", err=True)


@contextmanager
def interruptible() -> Iterator[Event]:
    """Turn the first Ctrl-C or SIGTERM into an event, so that saves complete; the second one ends at once."""
    event = Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def watched(agent: str, incumbent: str) -> Iterator[Callable[[Progress], None]]:
    """Show the progress and the score of a training: a bar on a terminal, ten lines elsewhere."""
    if not sys.stderr.isatty():
        yield _ProgressLines(agent, incumbent)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{agent}: getting ready", total=1.0)
        yield lambda progress: bar.update(task, completed=progress.done, description=_said(agent, incumbent, progress))


class _ProgressLines:
    """Prints a line for every tenth of the budget."""

    def __init__(self, agent: str, incumbent: str) -> None:
        self._agent, self._incumbent, self._tenths = agent, incumbent, -1

    def __call__(self, progress: Progress) -> None:
        if int(10 * progress.done) > self._tenths:
            self._tenths = int(10 * progress.done)
            click.echo(f"{progress.done:4.0%}  {_said(self._agent, self._incumbent, progress)}", err=True)


def _said(agent: str, incumbent: str, progress: Progress) -> str:
    if progress.score is None:
        return f"{agent}: getting ready"
    return f"{agent}: {progress.score:.3f} of {incumbent}"


@contextmanager
def judging() -> Iterator[None]:
    """Show how many replays of an evaluation are done."""
    with progress("judging") as hears, heard(hears):
        yield


def show_verdict(verdict: Verdict, style: str, price: StatedPrice | None = None) -> None:
    """Print the results of all policies on the held-out history, and the verdict; ``price`` adds costs of energy."""
    price = price or StatedPrice()
    rows = [_row(row, verdict) | ({"cost": price.said(row.energy_joules)} if price.words else {})
            for row in verdict.rows]
    if style == "json":
        answer = {"model": verdict.model, "decision": verdict.decision.value, **verdict.figures()}
        click.echo(as_json(answer))
        return
    if price.words:
        click.echo(price.words, err=True)
    shown = {key: heading for key, heading in _COLUMNS.items() if key != "cost" or price.words}
    columns = shown if style == "table" else {key: key for row in rows[:1] for key in row}
    title = (f"{verdict.days:.1f} held-out days with {verdict.jobs} jobs, seed {verdict.seed}; the scheduler's own "
             f"policy is {verdict.incumbent}, the best heuristic {verdict.best}")
    if verdict.objective:
        title += f"; it is after {verdict.objective}"
    for speeds in verdict.speeds:
        click.echo(plain(str(speeds)), err=True)
    show(rows, columns, style, title=title, empty="nobody was replayed")
    for name, why in verdict.unfit.items():
        click.echo(f"{name} is no candidate: {plain(why)}", err=style != "table")
    click.echo(f"verdict: {verdict.decision}: {plain(verdict.reason)}", err=style != "table")


def _row(row: PolicyFigures, verdict: Verdict) -> dict[str, object]:
    ratio = row.jct_ratio
    return {"policy": row.policy, "jobs": row.jobs, "jct_mean_s": row.jct_mean_s, "jct_p99_s": row.jct_p99_s,
            "compared": "-" if row.policy == verdict.incumbent else ratio.said, "jct_ratio": ratio.estimate,
            "jct_ratio_low": ratio.low, "jct_ratio_high": ratio.high, "wait_mean_s": row.wait_mean_s,
            "wait_p99_s": row.wait_p99_s, "slowdown_mean": row.slowdown_mean,
            "energy": _kwh(row.energy_joules, row.energy_ratio), "energy_kwh": row.energy_joules / _JOULES_PER_KWH,
            "energy_down": _kwh(row.energy_down_joules, row.energy_down_ratio),
            "energy_down_kwh": row.energy_down_joules / _JOULES_PER_KWH, "utilization": row.utilization,
            "utilization_ratio": row.utilization_ratio.estimate, "makespan_days": row.makespan_s / 86400.0,
            "seed": verdict.seed}


def _kwh(joules: float, ratio: Comparison) -> str:
    """Return energy in kWh as text, with a mark if it differs significantly from the incumbent's."""
    verdict = "" if ratio.words in ("the same", "not enough yet") else f", {ratio.words}"
    return f"{joules / _JOULES_PER_KWH:,.0f}{verdict}"

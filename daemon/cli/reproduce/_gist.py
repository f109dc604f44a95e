"""What ``idlewatt reproduce gist`` does once its options are read; imported only then, for it needs torch."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ...agents.gist_mdrl.paper import claims
from ...agents.gist_mdrl.paper.trial import Result, Trial, carry_out_all
from ...agents.report import write_report


def reproduce(trials: Sequence[Trial], out: Path, *, workers: int, tensorboard: bool) -> Mapping[str, Path]:
    """Carry out the trials and write the report; Ctrl-C reports what is done and then goes on its way."""
    results: dict[Trial, Result] = {}
    with contextlib.ExitStack() as afterwards:
        try:
            _watch(trials, results, out / "runs", workers, tensorboard)
        except KeyboardInterrupt:
            click.echo(f"interrupted: reporting the {len(results)} of {len(trials)} agents that are trained; "
                       "the same command goes on with the others", err=True)
            afterwards.callback(_interrupt)
        click.echo("enumerating all job sequences", err=True)
        exact = claims.exact_values()
        return write_report(out, claims.TITLE, claims.preface(results), list(claims.sections(results, exact)))


def _interrupt() -> None:
    raise KeyboardInterrupt


def _watch(trials: Sequence[Trial], results: dict[Trial, Result], folder: Path, workers: int,
           tensorboard: bool) -> None:
    """Fill ``results`` as trials come in, with a progress bar on the terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=len(trials))
        for trial, result in carry_out_all(trials, folder, workers=workers, tensorboard=tensorboard):
            results[trial] = result
            progress.update(task, advance=1, description=f"{trial.name}: U {result.utilization:.3f}")

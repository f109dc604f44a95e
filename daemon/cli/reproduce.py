"""``idlewatt reproduce``: published numbers beside ours."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._output import show
from .replay import Seconds

if TYPE_CHECKING:
    from ..replay.published.result import Row

_COLUMNS = {"name": "result", "setting": "setting", "published": "published", "ours": "ours",
            "difference": "difference", "note": "note"}


@click.group("reproduce")
def command() -> None:
    """Show published results beside what our rewritten simulators give for them."""


@command.command("published")
@click.option("--traces", envvar="IDLEWATT_TRACES", required=True,
              type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged traces (or IDLEWATT_TRACES).")
@click.option("--format", "style", type=click.Choice(["markdown", "table", "json", "csv"]), default="markdown",
              show_default=True, help="For a README, for people, or for programs.")
@click.option("--into", type=click.Path(exists=True, dir_okay=False, writable=True, path_type=Path),
              help="Replace the text between <!-- published --> and <!-- /published --> of this file.")
def published(traces: Path, style: str, into: Path | None) -> None:
    """Replay HeliosArtifact, Muri, Pollux's arena and FGD on their traces (about a minute).

    \b
    Examples:
      idlewatt reproduce published --traces traces
      idlewatt reproduce published --traces traces --into README.md
    """
    from ..replay import published as simulators

    try:
        rows = list(_watched(simulators.rows(traces)))
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename}: a trace is missing; --traces names the folder of all of them") \
            from error
    if into is not None:
        _replace(into, "published", markdown(rows))
    elif style == "markdown":
        click.echo(markdown(rows))
    else:
        show([_record(row) for row in rows], _COLUMNS, style)


@command.command("gist")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("gist-report"), show_default=True,
              help="Folder for report.html, report.md and the trained agents.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=10, show_default=True,
              help="Agents of each kind and partition.")
@click.option("--apart", type=click.IntRange(0, 1000), default=3, show_default=True,
              help="Agents for each option that is measured apart; 0 leaves them out.")
@click.option("--episodes", type=click.IntRange(1), default=1000, show_default=True, help="Training episodes.")
@click.option("--tests", type=click.IntRange(1), default=100, show_default=True, help="Test episodes.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, help="Agents trained at a time.")
@click.option("--device", type=click.Choice(["cpu", "cuda", "auto"]), default="cpu", show_default=True,
              help="Where to train; auto is CUDA where there is one. Networks so small gain nothing from it.")
@click.option("--tensorboard", is_flag=True, help="Write the curves of each training for TensorBoard, too.")
def gist(out: Path, seeds: int, apart: int, episodes: int, tests: int, workers: int, device: str,
         tensorboard: bool) -> None:
    """Train the agents of the GIST AI-X paper and write its claims beside what came of them.

    About five minutes on two cores. Ctrl-C reports what is done so far; the same command then goes on.

    \b
    Examples:
      idlewatt reproduce gist
      idlewatt reproduce gist --seeds 2 --apart 0 --episodes 300 --out quick
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise click.ClickException("training needs torch: pip install 'idlewatt[train]'") from error
    from ..agents.gist_mdrl.paper.trial import all_trials
    from ..agents.gist_mdrl.train import device_named
    from ._gist import reproduce

    try:
        trials = all_trials(seeds, apart, episodes, tests, device_named(device))
    except RuntimeError as error:
        raise click.BadParameter(str(error), param_hint="--device") from error
    try:
        written = reproduce(trials, out, workers=workers, tensorboard=tensorboard)
    except OSError as error:
        raise click.ClickException(f"cannot write the report: {error}") from error
    for path in written.values():
        click.echo(path)


@command.command("scorer")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("scorer-report"),
              show_default=True, help="Folder for report.html, report.md and the trained models.")
@click.option("--seeds", type=click.IntRange(1, 100), default=5, show_default=True, help="Models to train.")
@click.option("--budget", type=Seconds(), default="10m", show_default=True, help="Time to train each of them.")
@click.option("--drawn", type=click.IntRange(1, 1000), default=10, show_default=True,
              help="Traces of each made-up site.")
@click.option("--traces", envvar="IDLEWATT_TRACES", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged real traces (or IDLEWATT_TRACES); without it they are left out.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, help="Traces replayed at a time.")
def scorer(out: Path, seeds: int, budget: float, drawn: int, traces: Path | None, workers: int) -> None:
    """Train our own agent on made-up sites of 8 nodes and try it on sites of 4 to 128, and on real traces.

    About an hour on two cores. Ctrl-C ends it; the same command then goes on.

    \b
    Examples:
      idlewatt reproduce scorer --traces traces
      idlewatt reproduce scorer --seeds 1 --budget 1m --drawn 2 --out quick
    """
    from ..agents.kinds import TrainingError
    from ._scorer import Plan, reproduce

    try:
        written = reproduce(Plan(out, seeds, budget, drawn, traces, workers))
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename}: a trace is missing; --traces names the folder of all of them") \
            from error
    except (TrainingError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for path in written.values():
        click.echo(path)


@command.command("dl2")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("dl2-report"),
              show_default=True, help="Folder for report.html, report.md and the trained agents.")
@click.option("--workers", "most", type=click.IntRange(1, 32), multiple=True, default=(8, 16), show_default=True,
              help="Most workers of a job; several are reported apart. Speeds beyond 10 are extrapolated.")
@click.option("--rounds", type=click.IntRange(0, 100_000), default=150, show_default=True, help="Of training.")
@click.option("--seed", type=click.IntRange(0, 9000), default=1, show_default=True, help="Of training.")
@click.option("--speeds", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="The authors' config_speed.txt, where you have it, instead of our fit of it.")
@click.option("--traces", envvar="IDLEWATT_TRACES", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged traces (or IDLEWATT_TRACES), for Pollux's arena; else that is left out.")
def dl2(out: Path, most: tuple[int, ...], rounds: int, seed: int, speeds: Path | None, traces: Path | None) -> None:
    """Rebuild DL2's simulation, train an agent for it and show it beside DRF, Optimus, chance and others.

    About four minutes on two cores, and four more for Pollux's arena.

    \b
    Examples:
      idlewatt reproduce dl2 --traces traces
      idlewatt reproduce dl2 --workers 8 --rounds 15 --out quick
    """
    from ..replay.speed import SpeedError
    from ._dl2 import reproduce

    try:
        written = reproduce(out, most, rounds, seed, speeds, traces)
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename}: a trace is missing; --traces names the folder of all of them") \
            from error
    except (SpeedError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for path in written.values():
        click.echo(path)


def markdown(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [f"| {' | '.join(_COLUMNS.values())} |", "|---|---|---:|---:|---:|---|"]
    lines += [f"| {row.name} | {row.setting} | {_exact(row.published)} | {_exact(row.ours)} "
              f"| {round(row.difference, 6) + 0.0:+.4%} | {row.note} |" for row in rows]
    return "\n".join(lines)


def _exact(value: float) -> str:
    """Return a number with as many digits as such tables print."""
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _record(row: Row) -> dict[str, Any]:
    return {**dataclasses.asdict(row), "difference": row.difference}


def _watched(rows: Iterator[Row]) -> Iterator[Row]:
    """Tell on the terminal what is being replayed, for the whole takes a minute."""
    for row in rows:
        click.echo(f"\r{row.name}, {row.setting}".ljust(100), err=True, nl=False)
        yield row
    click.echo("\r" + " " * 100 + "\r", err=True, nl=False)


def _replace(path: Path, mark: str, text: str) -> None:
    """Put the text between the marks of a file."""
    between = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
    before = path.read_text(encoding="utf-8")
    if not between.search(before):
        raise click.ClickException(f"{path} has no lines <!-- {mark} --> and <!-- /{mark} --> to write between")
    path.write_text(between.sub(lambda found: f"{found[1]}{text}\n{found[2]}", before), encoding="utf-8")

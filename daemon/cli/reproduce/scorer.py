"""``idlewatt reproduce scorer``: our own agent on made-up and real sites."""

from __future__ import annotations

from pathlib import Path

import click

from ..replay import Seconds


@click.command("scorer")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("scorer-report"),
              show_default=True, help="Folder for report.html, report.md and the trained models.")
@click.option("--seeds", type=click.IntRange(1, 100), default=5, show_default=True, help="Models to train.")
@click.option("--budget", type=Seconds(), default="10m", show_default=True,
              help="Time to train each of them, at most.")
@click.option("--drawn", type=click.IntRange(1, 1000), default=4, show_default=True,
              help="Traces of each made-up site of 128 nodes; half the nodes, twice the traces.")
@click.option("--traces", envvar="IDLEWATT_TRACES", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged real traces (or IDLEWATT_TRACES); without it they are left out.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, help="Traces replayed at a time.")
def command(out: Path, seeds: int, budget: float, drawn: int, traces: Path | None, workers: int) -> None:
    """Train our own agent on made-up sites of 8 nodes and try it on sites of 4 to 128, and on real traces.

    About an hour on two cores. Ctrl-C ends it; the same command then goes on.

    \b
    Examples:
      idlewatt reproduce scorer --traces traces
      idlewatt reproduce scorer --seeds 1 --budget 1m --drawn 1 --out quick
    """
    from ...agents.checkpoint import CheckpointError
    from ...agents.kinds import TrainingError
    from ._scorer import Plan, reproduce

    try:
        written = reproduce(Plan(out, seeds, budget, drawn, traces, workers))
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename}: a trace is missing; --traces names the folder of all of them") \
            from error
    except (TrainingError, CheckpointError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for path in written.values():
        click.echo(path)

"""``idlewatt reproduce topdrl``: TopDRL's predecessor, and a contended bench of real sizes, lengths and speeds."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("topdrl")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("topdrl-report"),
              show_default=True, help="Folder for report.html, report.md and the trained agents.")
@click.option("--seeds", type=click.IntRange(1, 100), default=3, show_default=True,
              help="Trainings of the size-free form.")
@click.option("--rounds", type=click.IntRange(0, 100_000), default=160, show_default=True, help="Of each of them.")
@click.option("--literal-rounds", type=click.IntRange(0, 100_000), default=60, show_default=True,
              help="Of the literal network's training.")
@click.option("--episodes", type=click.IntRange(1, 1000), default=5, show_default=True,
              help="Held-out ones of each of four sizes of cluster and two mixes of jobs.")
@click.option("--traces", envvar="IDLEWATT_TRACES", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged traces (or IDLEWATT_TRACES), for jobs as they came; else left out.")
def command(out: Path, seeds: int, rounds: int, literal_rounds: int, episodes: int, traces: Path | None) -> None:
    """Rebuild TopDRL on its predecessor's environment and on a contended one, beside all baselines and a bound.

    About ten minutes on two cores. Ctrl-C ends it; the same command then goes on with the training.

    \b
    Examples:
      idlewatt reproduce topdrl --traces traces
      idlewatt reproduce topdrl --seeds 1 --rounds 20 --literal-rounds 0 --episodes 1 --out quick
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise click.ClickException("training needs torch: pip install 'idlewatt[train]'") from error
    from ....storage.traces import TraceError
    from ...agents.checkpoint import CheckpointError
    from ...agents.kinds import TrainingError
    from ._topdrl import Plan, reproduce

    try:
        written = reproduce(Plan(out, seeds, rounds, literal_rounds, episodes, traces))
    except TraceError as error:
        raise click.ClickException(f"{error}; --traces names the folder of all packaged traces") from error
    except (TrainingError, CheckpointError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for path in written.values():
        click.echo(path)

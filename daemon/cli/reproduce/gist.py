"""``idlewatt reproduce gist``: the GIST AI-X paper's agents and claims."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("gist")
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
def command(out: Path, seeds: int, apart: int, episodes: int, tests: int, workers: int, device: str,
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
    from ...agents.gist_mdrl.paper.trial import all_trials
    from ...agents.gist_mdrl.train import device_named
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

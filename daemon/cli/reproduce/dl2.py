"""``idlewatt reproduce dl2``: DL2's simulation and Pollux's arena."""

from __future__ import annotations

import tarfile
from pathlib import Path

import click


@click.command("dl2")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("dl2-report"),
              show_default=True, help="Folder for report.html, report.md and the trained agents.")
@click.option("--workers", "most", type=click.IntRange(1, 32), multiple=True, default=(8, 16), show_default=True,
              help="Most workers of a job; several are reported apart. Speeds beyond 10 are extrapolated.")
@click.option("--rounds", type=click.IntRange(0, 100_000), default=240, show_default=True,
              help="Of training the size-free agent.")
@click.option("--plans", type=click.IntRange(0, 100_000), default=512, show_default=True,
              help="That the size-free agent tries in each slot.")
@click.option("--updates", type=click.IntRange(0, 1_000_000), default=6000, show_default=True,
              help="Of each training of DL2's own agent, for the first --workers; 0 leaves it out.")
@click.option("--seed", type=click.IntRange(0, 9000), default=1, show_default=True, help="Of training.")
@click.option("--speeds", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="The authors' config_speed.txt, where you have it, instead of our fit of it.")
@click.option("--traces", envvar="IDLEWATT_TRACES", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged traces (or IDLEWATT_TRACES), for Pollux's arena; else that is left out.")
def command(out: Path, most: tuple[int, ...], rounds: int, plans: int, updates: int, seed: int, speeds: Path | None,
            traces: Path | None) -> None:
    """Rebuild DL2's simulation, train its agent and ours for it, and show them beside DRF, Optimus, chance and others.

    DL2's own agent needs torch: pip install 'idlewatt[train]'. Its trainings, in --out, go on where an interrupted run
    left them.

    \b
    Examples:
      idlewatt reproduce dl2 --traces traces
      idlewatt reproduce dl2 --workers 8 --rounds 15 --plans 16 --updates 0 --out quick
    """
    from ...agents.checkpoint import CheckpointError
    from ...agents.dl2.arena import ZeroProgressError
    from ...agents.kinds import TrainingError
    from ...replay.speed import SpeedError
    from ._dl2 import Effort, reproduce

    try:
        written = reproduce(out, most, Effort(rounds, plans, updates, seed), speeds, traces)
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename}: a trace is missing; --traces names the folder of all of them") \
            from error
    except ImportError as error:
        raise click.ClickException(f"{error}; DL2's own agent is trained with torch: pip install 'idlewatt[train]', or "
                                   "leave it out with --updates 0") from error
    except (tarfile.TarError, EOFError) as error:
        raise click.ClickException(f"{traces}: the archive of Pollux's artifact cannot be read: {error}") from error
    except (SpeedError, TrainingError, CheckpointError, ZeroProgressError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for path in written.values():
        click.echo(path)

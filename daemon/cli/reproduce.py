"""``idlewatt reproduce``: compares published results with their reproduction."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from ..reproduce import PAPERS
from ._renamed import Renamed


@click.command("reproduce", short_help="Reproduce a paper's published results.")
@click.argument("name", type=click.Choice(PAPERS))
@click.option("--traces", envvar="IDLEWATT_TRACES", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged traces (or IDLEWATT_TRACES); reports leave out what needs them otherwise.")
@click.option("--dir", "out", cls=Renamed, former=("--out",), type=click.Path(file_okay=False, path_type=Path),
              metavar="DIR", help="Folder for the report and the trained agents.  [default: NAME-report]")
@click.option("--quick", is_flag=True, help="Train and test only a little: takes minutes, and does not give the "
                                            "reported figures.")
@click.option("--seed", type=click.IntRange(0, 9000), help="Random seed of the first training; other trainings follow.")
@click.option("--real", "real", type=click.Path(dir_okay=False, path_type=Path), metavar="CONFIG",
              help="For gist: run its experiment of Fig. 6 on a real Slurm, as docs/research.md describes.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
              help="Change one setting of the paper, see daemon/reproduce/NAME/setting.py; may be repeated.")
def command(name: str, traces: Path | None, out: Path | None, quick: bool, seed: int | None,
            real: Path | None, changes: tuple[str, ...]) -> None:
    """Reproduce what the paper NAME published, train its agents, and write its claims beside the results here.

    Ctrl-C ends it; where trainings are kept, the same command then resumes them. Training needs torch, plots need
    matplotlib: pip install 'idlewatt[train,reproduce]'.

    \b
    Examples:
      idlewatt reproduce gist
      idlewatt reproduce topdrl --traces traces --quick --dir quick
      idlewatt reproduce gist --real slurm.yml
      idlewatt reproduce maifs --traces traces --seed 2 --set ablations=true
    """
    if real is not None:
        _experiment(name, real, out or Path(f"{name}-report"))
        return
    seeded = changes if seed is None else (f"seed={seed}", *changes)
    for path in _reproduced(name, traces, out or Path(f"{name}-report"), quick, seeded).values():
        click.echo(path)


def _experiment(name: str, config: Path, out: Path) -> None:
    """Run the paper's experiment on a real Slurm."""
    from ...storage.errors import StoreError
    from ..reproduce.failures import ReproductionError
    from ..strict_yaml import ConfigError

    if name != "gist":
        raise click.UsageError("--real goes with gist alone")
    try:
        run = importlib.import_module("..reproduce.gist.real.run", __package__).run
        for path in run(config, out).values():
            click.echo(path)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    except ImportError as error:
        raise click.ClickException(f"{error}; training needs torch: pip install 'idlewatt[train]'") from error
    except (ReproductionError, StoreError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _reproduced(name: str, traces: Path | None, out: Path, quick: bool, changes: Sequence[str]) -> Mapping[str, Path]:
    """Run a reproduction; return the paths of the written files."""
    from ...storage.traces import TraceError
    from ..agents.checkpoint import CheckpointError
    from ..agents.kinds import TrainingError
    from ..replay.speed import SpeedError
    from ..reproduce.failures import ReproductionError, SettingError
    from ..reproduce.settings import changed, parsed

    paper = f"..reproduce.{name}"
    try:
        settings = importlib.import_module(f"{paper}.setting", __package__)
        setting = changed(settings.QUICK if quick else settings.FULL, parsed(changes))
        run = importlib.import_module(f"{paper}.run", __package__).run
        written: Mapping[str, Path] = run(setting, out, traces)
    except SettingError as error:
        raise click.UsageError(str(error)) from error
    except ImportError as error:
        raise click.ClickException(f"{error}; training needs torch: pip install 'idlewatt[train]', and plots need "
                                   "matplotlib: pip install 'idlewatt[reproduce]'") from error
    except TraceError as error:
        raise click.ClickException(f"{error}; --traces names the folder of all packaged traces") from error
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename}: a trace is missing; --traces names the folder of all of them") \
            from error
    except (ReproductionError, TrainingError, CheckpointError, SpeedError, OSError) as error:
        raise click.ClickException(str(error)) from error
    return written

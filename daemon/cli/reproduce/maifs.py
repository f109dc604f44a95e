"""``idlewatt reproduce maifs``: integrated placement and fungible allocation on days of Philly and Helios."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("maifs")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("maifs-report"),
              show_default=True, help="Folder for report.html, report.md and the trained agents.")
@click.option("--traces", envvar="IDLEWATT_TRACES", required=True,
              type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged traces (or IDLEWATT_TRACES).")
@click.option("--rounds", type=click.IntRange(0, 100_000), default=40, show_default=True,
              help="Of training.")
@click.option("--seed", type=click.IntRange(0, 9000), default=1, show_default=True, help="Of training.")
@click.option("--windows", "most", type=click.IntRange(1, 100), default=40, show_default=True,
              help="Held-out windows that each setting is judged on, at most.")
@click.option("--ablations", is_flag=True, help="Train agents without attention, graph, fungible allocation or joint "
              "decision, too, each as long; else these parts are only taken away from the trained agent.")
def command(out: Path, traces: Path, rounds: int, seed: int, most: int, ablations: bool) -> None:
    """Train an agent as MAIFS' abstract describes it and show it beside Synergy, Tiresias, Optimus, DL2 and chance.

    About a quarter of an hour, most of it training; with --ablations an hour. DL2's agent needs torch:
    pip install 'idlewatt[train]'.

    \b
    Examples:
      idlewatt reproduce maifs --traces traces
      idlewatt reproduce maifs --traces traces --rounds 2 --windows 2 --out quick
    """
    from ....storage.traces import TraceError
    from ...agents.kinds import TrainingError
    from ...agents.maifs.arena import ZeroProgressError
    from ._maifs import Plan, reproduce

    try:
        written = reproduce(Plan(out, traces, rounds, seed, most, ablations))
    except ImportError as error:
        raise click.ClickException(f"{error}; DL2's agent is trained with torch: pip install 'idlewatt[train]'") \
            from error
    except (TraceError, TrainingError, ZeroProgressError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for path in written.values():
        click.echo(path)

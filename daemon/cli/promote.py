"""``idlewatt promote``: make a trained model active."""

from __future__ import annotations

from pathlib import Path

import click

from ._store import decide, found, store, uses_models


@click.command("promote", short_help="Make a model active.")
@click.argument("model")
@click.option("--reason", default="", help="Why, for the record; required for a model that has not passed promotion.")
@uses_models
def command(model: str, reason: str, config_file: Path, folder: Path | None) -> None:
    """Make MODEL (kind@version, or a kind for its newest) active; the model that is active now continues in the shadow.

    A running daemon uses it from its next round of advice on, and asks the heuristic where the model abstains.

    \b
    Examples:
      idlewatt promote scorer@20261121-030000
      idlewatt promote scorer --reason "tried for a week in shadow"
    """
    from ...storage.promotions import Decision

    known = found(store(config_file, folder), model)
    if known.fault or known.card is None:
        raise click.ClickException(f"{known.name} must not be used: {known.fault}")
    earned = known.card.metrics.get("earned") == 1
    if not earned and not reason:
        raise click.UsageError(f"{known.name} has not earned it on history that it did not know; `idlewatt evaluate "
                               f"{known.name}` shows what it does. Say --reason why it shall be active anyway.")
    decide(config_file, known.name, Decision.PROMOTE, reason or "it has earned it on held-out history")
    click.echo(f"{known.name} is active")

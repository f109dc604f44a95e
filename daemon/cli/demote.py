"""``idlewatt demote``: deactivate a trained model."""

from __future__ import annotations

from pathlib import Path

import click

from ._store import decide, decided, found, store, uses_models


@click.command("demote", short_help="Deactivate a model.")
@click.argument("model")
@click.option("--reason", default="an operator decided so", show_default=True, help="Why, for the record.")
@uses_models
def command(model: str, reason: str, config_file: Path, folder: Path | None) -> None:
    """Deactivate MODEL: the heuristic advises again, and the model continues in the shadow.

    \b
    Example:
      idlewatt demote scorer --reason "large jobs wait too long"
    """
    from ...storage.promotions import Decision

    heuristic = "@" not in model and model in decided(config_file)
    name = model if heuristic else found(store(config_file, folder), model).name
    decide(config_file, name, Decision.DEMOTE, reason)
    click.echo(f"{name} is demoted")

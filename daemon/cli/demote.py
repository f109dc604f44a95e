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

    MODEL is kind@version, or a kind for its active model, or for its newest where none is active.

    \b
    Example:
      idlewatt demote scorer --reason "large jobs wait too long"
    """
    from ...storage.promotions import Decision

    name = _meant(model, config_file, folder)
    decide(config_file, name, Decision.DEMOTE, reason)
    click.echo(f"{name} is demoted")


def _meant(model: str, config_file: Path, folder: Path | None) -> str:
    """Return the name of what is to be demoted: a heuristic, the active model of a kind, or what the store finds."""
    from ...storage.promotions import active_model
    from ..agents.kinds import ALIASES

    if "@" not in model:
        in_force = decided(config_file)
        if model in in_force:
            return model
        active = active_model(in_force) or ""
        if active.startswith(f"{ALIASES.get(model, model)}@"):
            return active
    return found(store(config_file, folder), model).name

"""What a training needs of this machine; found missing later, what was interrupted would be gone."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..agents.kinds import AgentKind


def check_extras(options: dict[str, Any], resume: bool) -> None:
    """Raise a ClickException for an extra that is not installed."""
    if options["tensorboard"] and not (find_spec("torch") and find_spec("tensorboard")):
        raise click.ClickException("TensorBoard is not installed: pip install 'idlewatt[train]'")
    if options["engine"] == "ray" and not resume and not find_spec("ray"):
        raise click.ClickException("--engine ray needs Ray: pip install 'idlewatt[ray]'")


def check_interrupted(interrupted: Sequence[AgentKind], options: dict[str, Any]) -> None:
    """Raise an error where this machine cannot go on with kinds that would then be noted as through."""
    check_extras(options, resume=False)
    for kind in interrupted:
        check_machine(kind, options["device"])


def check_machine(kind: AgentKind, device: str) -> None:
    """Raise a TrainingError where a kind cannot be trained on this machine: without torch, or without its device."""
    from ..agents.kinds import TrainingError

    if not kind.torch:
        return
    if not find_spec("torch"):
        raise TrainingError(f"{kind.name} is trained with torch: pip install 'idlewatt[train]'")
    if device == "cuda" and not import_module("torch").cuda.is_available():
        raise TrainingError("torch finds no CUDA device here; train on the cpu, which is as fast for networks so small")

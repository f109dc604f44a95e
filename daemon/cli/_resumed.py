"""What ``idlewatt train --resume`` goes on with: the order that was interrupted, and which options may differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ..learning.aims import AimError, parsed
from ..learning.training import TrainingDirectory, TrainingJob
from ._training import HIDDEN, shown


def given(name: str) -> bool:
    """Return whether the command line says an option, so that it is no default."""
    return click.get_current_context().get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def resumed(training_directory: TrainingDirectory, options: dict[str, Any]) -> TrainingJob:
    """Return the interrupted training order; a UsageError if the options differ from it."""
    order = training_directory.interrupted()
    for name in ("source", "cluster", "until_s", "incumbent", "seed", "seeds", "speeds"):
        wanted = shown(options[name]) if name in ("source", "cluster", "speeds") else options[name]
        if given(name) and wanted != getattr(order, name):
            raise click.UsageError(f"the interrupted training has {name.removesuffix('_s')} {getattr(order, name)!r}, "
                                   f"not {options[name]!r}; leave it away, or leave --resume away")
    if HIDDEN in order.source and not given("source"):
        raise click.UsageError(f"name the database once more, with its password: --from {order.source}")
    _same_objective(order, options["objective"])
    return replace(order, budget_s=options["budget_s"] if given("budget_s") else order.budget_s,
                   device=options["device"], steps=options["steps"] if options["steps"] is not None else order.steps)


def _same_objective(order: TrainingJob, requested: str | None) -> None:
    if requested is None:
        return
    try:
        weights = parsed(requested, order.objective.longest_wait_s).weights
    except AimError as error:
        raise click.BadParameter(str(error), param_hint="--objective") from error
    if weights != order.objective.weights:
        raise click.UsageError(f"the interrupted training is after {order.objective.aim}; leave --objective away, or "
                               "leave --resume away")

"""What ``idlewatt train --resume`` goes on with: the order that was interrupted, and which options may differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import click

from ..learning.aims import AimError, parsed
from ..learning.models import ModelStore
from ..learning.sequel import Sequel
from ..learning.training import TrainingDirectory, TrainingJob
from ..moments import moment_of
from ._store import found
from ._training import HIDDEN, shown

_FIXED = ("source", "cluster", "until_s", "incumbent", "seed", "seeds", "speeds", "trace_format")
"""Options that a resumed training has as it began."""


def given(name: str) -> bool:
    """Return whether the command line says an option, so that it is no default."""
    return click.get_current_context().get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def resumed(training_directory: TrainingDirectory, options: dict[str, Any]) -> TrainingJob:
    """Return the interrupted training order; a UsageError if the options differ from it."""
    order = training_directory.interrupted()
    _same(_FIXED, asdict(order), options)
    _same_since(order, options["since"])
    _same_objective(order, options["objective"])
    return replace(order, budget_s=options["budget_s"] if given("budget_s") else order.budget_s,
                   device=options["device"] if given("device") else order.device,
                   steps=options["steps"] if options["steps"] is not None else order.steps)


def noted(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that every kind is trained with, without a password."""
    return {name: _shown(name, options) for name in (*_FIXED, "since", "objective", "steps", "engine", "device")}


def resumed_all(sequel: Sequel, options: dict[str, Any]) -> dict[str, Any]:
    """Resume the training of every kind; return the options of kinds that have not begun: those that the first had.

    A UsageError if the command line says otherwise; budget, steps, engine and device may differ.
    """
    sequel.resume(anew=given("budget_s"))
    _same((*_FIXED, "since", "objective"), sequel.options, options)
    anew = {**options, **{name: value for name, value in sequel.options.items() if not given(name)}}
    sequel.options = noted(anew)
    return anew


def _same(names: Iterable[str], begun: Mapping[str, Any], options: dict[str, Any]) -> None:
    """Raise a UsageError if the command line says another value than the interrupted training began with."""
    for name in names:
        if given(name) and name in begun and _shown(name, options) != begun[name]:
            option = name.removesuffix("_s").replace("_", "-")
            raise click.UsageError(f"the interrupted training has {option} {begun[name]!r}, "
                                   f"not {options[name]!r}; leave it away, or leave --resume away")
    if HIDDEN in begun.get("source", "") and not given("source"):
        raise click.UsageError(f"name the database once more, with its password: --from {begun['source']}")


def _shown(name: str, options: dict[str, Any]) -> Any:
    return shown(options[name]) if name in ("source", "cluster", "speeds") else options[name]


def begun_from(order: TrainingJob, models: ModelStore, requested: str | None) -> str | None:
    """Return the model that an interrupted training started from; a UsageError if another one is requested."""
    if order.start is None and (order.lineage or order.known_until_s is not None):
        if requested is None:
            raise click.UsageError("the interrupted training started from a model that an older version did not note; "
                                   "name it: --start MODEL, or leave --resume away")
        return requested
    if requested is not None and found(models, requested).name != order.start:
        raise click.UsageError(f"the interrupted training started from {order.start or 'no model'}, not {requested!r}; "
                               "leave --start away, or leave --resume away")
    return order.start


def _same_since(order: TrainingJob, requested: str | None) -> None:
    if requested is None or order.since_s is None or order.until_s is None:
        return
    if moment_of(requested, order.until_s) != order.since_s:
        raise click.UsageError(f"the interrupted training has since {order.since_s!r}, not {requested!r}; leave it "
                               "away, or leave --resume away")


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

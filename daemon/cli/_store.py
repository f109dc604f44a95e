"""Shared parts of the commands on trained models: the model store and the decisions on models."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from ._client import DaemonUnreachable, warn_beside
from ._history import DEFAULT_CONFIG

if TYPE_CHECKING:
    from ...storage.ledger import Ledger
    from ...storage.promotions import Decision, Promotion
    from ..config import Settings
    from ..learning.models import ModelStore, StoredModel


def uses_models(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the place of the models."""
    options = (
        click.option("--config.file", "config_file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG,
                     show_default=True, help="Configuration of the daemon, which names the models and the database."),
        click.option("--models", "folder", envvar="IDLEWATT_MODELS", show_envvar=True,
                     type=click.Path(file_okay=False, path_type=Path),
                     help="Folder of the models instead.  [without a daemon: ~/.local/state/idlewatt/models]"),
    )
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def settings(config_file: Path) -> Settings:
    """Return the daemon's configuration, or all defaults without a configuration file."""
    from .. import config
    from ..settings.storage import StorageSettings

    if config_file == DEFAULT_CONFIG and not config_file.exists():
        return config.Settings(storage=StorageSettings(models=_own_folder()))
    try:
        return config.load(config_file)
    except config.ConfigError as error:
        raise click.UsageError(str(error)) from error


def store(config_file: Path, folder: Path | None) -> ModelStore:
    """Return the model store that the options name."""
    from ..learning.models import ModelStore

    return ModelStore(folder or settings(config_file).storage.models_folder)


def found(models: ModelStore, name: str) -> StoredModel:
    """Return a model by ``kind@version`` or by its kind alone; a click exception if there is none."""
    from ..learning.models import ModelError

    try:
        return models.find(name)
    except ModelError as error:
        raise click.UsageError(str(error)) from error


def decided(config_file: Path) -> Mapping[str, Promotion]:
    """Return the decision in force on each model; Unreachable if the daemon's database cannot be read."""
    from ...storage.promotions import states

    return states(decisions(config_file))


def decisions(config_file: Path) -> Sequence[Promotion]:
    """Return all decisions in order of time; Unreachable if the daemon's database cannot be read."""
    from ...storage.errors import StoreError
    from ...storage.history import History

    url = settings(config_file).storage.url
    try:
        with History.read_only(url) as reader:
            warn_beside(url)
            return tuple(reader.decisions())
    except StoreError as error:
        raise DaemonUnreachable(str(error)) from error


@contextmanager
def ledger(config_file: Path) -> Iterator[tuple[Ledger, float]]:
    """Open the record of decisions, and yield the time of the next one; Unreachable if it cannot be written."""
    from ...storage.errors import StoreError
    from ...storage.ledger import Ledger

    url = settings(config_file).storage.url
    try:
        with Ledger.open(url) as opened:
            warn_beside(url)
            # A simulated cluster may be ahead of our clock, and the last word must come last.
            yield opened, max([time.time(), *(decision.time_s for decision in opened.decisions())])
    except StoreError as error:
        raise DaemonUnreachable(str(error)) from error


def decide(config_file: Path, model: str, decision: Decision, reason: str,
           more: Mapping[str, object] = MappingProxyType({})) -> None:
    """Record an operator's decision on a model, with the model's latest results and the facts in ``more``."""
    from ...storage.promotions import Promotion, states

    with ledger(config_file) as (opened, now_s):
        before = states(opened.decisions()).get(model)
        figures = before.figures if before else {}
        opened.decide(Promotion(now_s, model, decision, "operator", reason, {**figures, **more}))


def _own_folder() -> Path:
    base = os.environ.get("STATE_DIRECTORY", "").split(":")[0] or os.environ.get("XDG_STATE_HOME")
    return Path(base or Path.home() / ".local/state") / "idlewatt" / "models"

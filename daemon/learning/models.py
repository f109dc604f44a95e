"""The trained models on disk: a folder per kind, in it a folder per version, in it weights and card. No database.

A model is called ``kind@version`` everywhere. What is damaged, from a newer idlewatt or of no kind known here is listed
as such, with the reason, and never loaded.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ...storage.records import ModelCard
from ...storage.whole_files import remove_abandoned, sync
from ..agents.checkpoint import CARD, CheckpointError, seal, verify
from ..agents.kinds import ALIASES, FAILURES, TrainedPolicy, kinds, names
from ..replay.site_speeds import FLAT_SPEEDS, SiteSpeeds
from ..replay.speed import SpeedError
from ..replay.speed_file import read

SPEEDS = "speeds.yaml"
"""Beside the weights of a model: the speeds that it was trained with, unless they were flat."""
_NAME = re.compile(r"[a-z][\w-]*@\w[\w.-]*")
_DRAFT_OF_MODEL = re.compile(r"\.(best\.)?\d+")
_DRAFT_OF_FILE = re.compile(r"\.[\w.-]+\.(json|safetensors|yaml)\.\d+")
_HIDDEN = "."
"""Begins the names of folders that are no models: drafts, and what a training keeps of itself."""


class ModelError(Exception):
    """A model that is not there or must not be used; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model in the store."""

    name: str
    """``kind@version``."""
    folder: Path
    card: ModelCard | None
    """None when it cannot be read."""
    fault: str = ""
    """Why it must not be used; empty when its files are whole and its kind is known."""


class ModelStore:
    """Keeps models in a folder; several processes may look on while one writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def models(self) -> tuple[StoredModel, ...]:
        """Return all models, the newest version first: versions are times."""
        stored = [self._stored(version) for kind in _folders(self.folder) for version in _folders(kind)]
        return tuple(sorted(stored, key=lambda model: model.folder.name, reverse=True))

    def find(self, name: str) -> StoredModel:
        """Return the model ``kind@version``, or the newest whole one of ``kind``; ModelError when there is none."""
        name = ALIASES.get(name, name)
        if "@" not in name:
            faultless = (model for model in self.models() if model.name.startswith(f"{name}@") and not model.fault)
            stored = next(faultless, None)
        else:
            kind, _, version = name.partition("@")
            folder = self.folder / kind / version
            stored = self._stored(folder) if _NAME.fullmatch(name) and folder.is_dir() else None
        if stored is None:
            raise ModelError(f"there is no model {name!r} in {self.folder}; `idlewatt models` lists what there is")
        return stored

    def load(self, name: str) -> TrainedPolicy:
        """Return a model, ready to decide; ModelError when there is none of this name, or it must not be used."""
        model = self.find(name)
        if model.fault or model.card is None:
            raise ModelError(f"{model.name} must not be used: {model.fault}")
        without = _without_speeds(model.folder, model.card)
        if without:
            raise ModelError(f"{model.name} must not be used: {without}")
        kind = kinds().get(model.card.kind)
        if kind is None:
            raise ModelError(f"{model.name} must not be used: {model.card.kind!r} is no kind that decides live")
        try:
            return kind.load(model.folder)
        except CheckpointError as error:
            raise ModelError(f"{model.name} must not be used: {error}") from error
        except FAILURES as error:  # nothing that a file holds may cost more than the model itself
            raise ModelError(f"{model.name} must not be used: {model.folder}: it cannot be loaded "
                             f"({type(error).__name__}: {error}); train it anew") from error

    def keep(self, draft: Path, card: ModelCard) -> StoredModel:
        """Take in a copy of a freshly trained model, whole or not at all, and give it its version.

        From then on its weights tell which history it learned from, as its card does (``seal``).
        """
        kind = self.folder / card.kind
        kind.mkdir(parents=True, exist_ok=True)
        copy = kind / f"{_HIDDEN}{os.getpid()}"
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(draft, copy)
            version = _version(card.trained_s, {folder.name for folder in _folders(kind)})
            seal(copy, replace(card, version=version))
            for path in (*copy.rglob("*"), copy):
                sync(path)
            model = self._stored(copy.rename(kind / version))
            for path in (kind, self.folder):
                sync(path)
            return model
        except (OSError, CheckpointError):  # a full disk must not stay full of what was not taken in
            shutil.rmtree(copy, ignore_errors=True)
            raise

    def prune(self, keep: int, spared: Collection[str] = ()) -> tuple[str, ...]:
        """Remove all but the newest ``keep`` models of each kind; ``spared`` ones stay. Return the removed names.

        Behind a link may lie another kind's models, which are spared by their own names: what is linked stays.
        """
        removed: list[str] = []
        for kind in (folder for folder in _folders(self.folder) if not folder.is_symlink()):
            old = [model for model in self.models()
                   if model.folder.parent == kind and not model.folder.is_symlink()][keep:]
            for model in old:
                if model.name not in spared:
                    shutil.rmtree(model.folder)
                    removed.append(model.name)
        return tuple(removed)

    def remove_drafts(self) -> str:
        """Remove what ended processes have left half made, and return in words how much that was; '' for nothing.

        Call it with the lock of trainings held, without which nobody makes the draft of a model. Drafts of files are
        made without it, by daemons and commands; those of a process that still runs stay.
        """
        removed = 0
        for place, folders, files in os.walk(self.folder):
            removed += sum(remove_abandoned(Path(place, name)) for name in files if _DRAFT_OF_FILE.fullmatch(name))
            for name in filter(_DRAFT_OF_MODEL.fullmatch, tuple(folders)):
                folders.remove(name)
                shutil.rmtree(Path(place, name), ignore_errors=True)
                removed += not Path(place, name).exists()
        drafts = "1 draft that an ended process had" if removed == 1 else f"{removed} drafts that ended processes had"
        return f"{drafts} left among the models {'was' if removed == 1 else 'were'} removed" if removed else ""

    def training_directory(self, kind: str) -> Path:
        """Return where a training of this kind keeps itself until it is done."""
        return self.folder / f"{_HIDDEN}training" / kind

    def _stored(self, folder: Path) -> StoredModel:
        name = f"{folder.parent.name}@{folder.name}"
        try:
            card = verify(folder)
        except CheckpointError as error:
            return StoredModel(name, folder, None, str(error))
        if card.model != name:
            return StoredModel(name, folder, card,
                               f"{folder / CARD}: the card of {card.model}: moved or copied by hand")
        if card.kind not in names():
            return StoredModel(name, folder, card,
                               f"no kind of agent is called {card.kind!r} in this version of idlewatt")
        return StoredModel(name, folder, card)


def speeds_of(folder: Path) -> SiteSpeeds:
    """Return the speeds that a model was trained with, flat where it has none; ModelError for damaged ones."""
    path = folder / SPEEDS
    try:
        return read(path) if path.exists() else FLAT_SPEEDS
    except (SpeedError, OSError) as error:
        raise ModelError(str(error)) from error


def _without_speeds(folder: Path, card: ModelCard) -> str:
    """Return why a model's speeds are not those that its card tells; '' when they are."""
    try:
        identity = speeds_of(folder).identity
    except ModelError as error:
        return str(error)
    if identity == card.speeds:
        return ""
    return (f"it was trained with speeds ({card.speeds or 'flat'}), and {folder / SPEEDS} holds "
            f"{identity or 'none'}: restore the file, or train anew")


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, drafts left out; none when it cannot be read or is not there yet."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(_HIDDEN))
    except OSError:
        return []


def _version(trained_s: float, taken: Collection[str]) -> str:
    """Return a version that nobody has: when it was trained, to the second, in UTC."""
    first = datetime.fromtimestamp(trained_s, UTC).strftime("%Y%m%d-%H%M%S")
    return next(name for name in (first, *(f"{first}.{number}" for number in range(2, 1000))) if name not in taken)

"""The database that a folder of models belongs to: the first one that trains into it.

Two databases that shared a folder would count each other's trials and end them, and each would remove the models that
only the other one knows. The second one is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from ...storage.database import parse
from ...storage.errors import place
from ...storage.ledger import Ledger
from ...storage.whole_files import write
from ..agents.kinds import TrainingError
from .begun_trials import read_note

OWNER = ".training/database.json"


@dataclass(frozen=True, slots=True)
class ModelsOwner:
    """A database as it stands beside the models."""

    identity: str
    """Its backups share it; '' of a database into which nobody has recorded."""
    place: str
    """Where it was when it last trained, for a person."""


_OWNER = TypeAdapter(tuple[ModelsOwner, ...])


class ForeignModels(TrainingError):
    """A folder of models belongs to another database."""


def claim(models: Path, ledger: Ledger, url: str) -> None:
    """Note that a folder of models belongs to the database of a ledger; ``ForeignModels`` where another one has it.

    Call it with the lock of trainings held. ModelError where the note is damaged, OSError where it cannot be written.
    """
    ours = ModelsOwner(ledger.identity(), place(parse(url)))
    if not ours.identity:
        return  # without records there is nothing to train on or to try
    path = models / OWNER
    owner = next(iter(read_note(path, _OWNER, "which database the models belong to",
                                "remove it where one database alone uses this folder")), ours)
    if owner.identity != ours.identity:
        raise ForeignModels(
            f"the models in {models} belong to the database {owner.place}, and this one is {ours.place}: in one folder "
            "each would end the other's trials and remove its models. Give each database a folder of its own "
            f"(storage.models), or remove {path} where this one has taken the place of the other for good")
    if owner != ours or not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, _OWNER.dump_json((ours,)))

"""Trainings of every kind in turn, so that they go on with the kind that was interrupted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...storage.whole_files import write
from ..agents.checkpoint import LARGEST_CARD_BYTES, CheckpointError, plain_content
from ..agents.kinds import TrainingError
from .models import ModelStore
from .training import ORDER, TrainingDirectory

ALL = "all.json"
"""Beside the folders of trainings: which kinds are through, and what those that follow are trained with."""


@dataclass
class Sequel:
    """Every kind in turn; what was interrupted before stays as it is until the first kind begins."""

    store: ModelStore
    names: Sequence[str]
    share_s: float
    """What each kind has of the budget, s."""
    options: Mapping[str, object]
    """What each kind is trained with, without a password."""
    done: list[str] = field(default_factory=list)
    """The kinds that are through."""
    _resumed: bool = False
    _begun: bool = False

    def begin(self) -> None:
        """Note what is trained, the first time; unless it is resumed, forget what was interrupted of each kind."""
        if self._begun:
            return
        if not self._resumed:
            for name in self.names:
                TrainingDirectory(self.store, name).clear()
        self._begun = True
        self._write()

    def resume(self, *, anew: bool) -> None:
        """Go on with what was interrupted, with its budget unless that is given ``anew``.

        What an older version did not note stays as it is given. ``TrainingError`` when nothing was interrupted.
        """
        self.done, begun_s, options = self._read()
        self.share_s = self.share_s if anew or begun_s is None else begun_s
        self.options = self.options if options is None else options
        self._resumed = True

    def interrupted(self, kind: str) -> bool:
        """Tell whether a training of this kind was begun, is resumed and has not ended."""
        return self._resumed and (self.store.training_directory(kind) / ORDER).exists()

    def note(self, kind: str) -> None:
        """Remember that a kind is through."""
        self.done.append(kind)
        if self._begun:
            self._write()

    def clear(self) -> None:
        """Forget all of it, if anything of it has begun."""
        if self._begun:
            self.store.training_directory(ALL).unlink(missing_ok=True)

    def _read(self) -> tuple[list[str], float | None, Mapping[str, object] | None]:
        path = self.store.training_directory(ALL)
        try:
            state = json.loads(plain_content(path, LARGEST_CARD_BYTES))
            if isinstance(state, list):  # as written before 0.3, without the budget
                return [str(name) for name in state], None, None
            options = dict(state["options"]) if "options" in state else None
            return [str(name) for name in state["done"]], float(state["share_s"]), options
        except FileNotFoundError:
            raise TrainingError("there is no interrupted training to go on with; leave --resume away") from None
        except (OSError, CheckpointError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise TrainingError(f"{path}: damaged: {error}; remove it, or leave --resume away") from error

    def _write(self) -> None:
        path = self.store.training_directory(ALL)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, json.dumps({"done": self.done, "share_s": self.share_s, "options": dict(self.options)}).encode())

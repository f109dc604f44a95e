"""The agents that recorded decisions name: loaded once, and asked only where their word can be taken."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from ...storage.promotions import Decision, Promotion, in_charge
from ..agents.checkpoint import CARD, WEIGHTS
from ..learning.models import ModelError, ModelStore, speeds_of
from .inference import ServedModel
from .warm_up import WarmUp

log = logging.getLogger(__name__)

MOST_SHADOWS = 3
"""Agents that are asked beside the one in charge, those decided on last: each costs as much as a policy."""


class ModelLoader:
    """Keeps the agents that are in charge and in shadow; what has changed on disk is loaded anew."""

    def __init__(self, folder: Path) -> None:
        self._store = ModelStore(folder)
        self._loaded: dict[str, tuple[object, ServedModel]] = {}
        self._warm_ups: dict[str, WarmUp] = {}

    def served_models(self, in_force: Mapping[str, Promotion]) -> tuple[ServedModel, ...]:
        """Return who is to be asked, the one in charge first; an agent whose code is being compiled is not yet."""
        named = wanted(in_force)
        self._loaded = {model: kept for model, kept in self._loaded.items() if model in named}
        for model in self._warm_ups.keys() - named.keys():
            self._warm_ups.pop(model).end()
        return tuple(self._served_model(model, leads) for model, leads in named.items() if self._compiled(model))

    def end(self) -> None:
        """End compiling, whatever it does."""
        for warm_up in self._warm_ups.values():
            warm_up.end()

    def _compiled(self, model: str) -> bool:
        if model not in self._warm_ups:
            self._warm_ups[model] = WarmUp((model,), self._store.folder)
        return self._warm_ups[model].over()

    def _served_model(self, model: str, leads: bool) -> ServedModel:
        state, kept = _files(self._store.folder, model), self._loaded.get(model)
        if kept is None or kept[0] != (state, leads):
            kept = self._loaded[model] = ((state, leads), self._load(model, leads))
        return kept[1]

    def _load(self, model: str, leads: bool) -> ServedModel:
        try:
            agent, speeds = self._store.load(model), speeds_of(self._store.find(model).folder)
            apart = bool((speeds.table.spread != 1).any())
            return ServedModel(model, leads, agent, topology=speeds.topology if apart else {},
                               speeds=speeds)
        except ModelError as error:
            log.error("an agent cannot be used", extra={"model": model, "error": str(error)})
            return ServedModel(model, leads, None, str(error))


def wanted(in_force: Mapping[str, Promotion]) -> dict[str, bool]:
    """Return the agents to be asked and whether each is in charge, that one first."""
    in_force = {model: last for model, last in in_force.items() if "@" in model}  # a heuristic is no file
    leader = in_charge(in_force)
    listened = [model for model, last in in_force.items() if last.decision in (Decision.SHADOW, Decision.DEMOTE)]
    listened.sort(key=lambda model: in_force[model].time_s)
    return ({leader: True} if leader else {}) | dict.fromkeys(listened[-MOST_SHADOWS:], False)


def _files(folder: Path, model: str) -> object:
    """Return what changes when the files of an agent do; None when they are not there."""
    kind, _, version = model.partition("@")
    try:
        return [(found.st_mtime_ns, found.st_size, found.st_ino)
                for found in ((folder / kind / version / name).stat() for name in (WEIGHTS, CARD))]
    except OSError:
        return None

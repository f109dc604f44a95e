"""Idle floors: what a GPU draws doing nothing, bare or with a context resident, and how we know.

Learned first (per GPU, then per model), else configured, else from the catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from ...storage.records import IdleFloor
from ...storage.telemetry import GpuReading
from ..settings.waste import ModelSettings, WasteSettings
from . import catalogue

Kind = Literal["bare", "context"]
Key = tuple[str, str]
"""A GPU's uuid or a model's name, and the kind of floor."""

FULL = 20_000
"""Samples after which old ones are halved, so that a floor follows a new driver within days."""
RECOMPUTE_EVERY = 20
MOST_KEYS = 100_000
"""A telemetry source that invents GPUs must not fill the memory."""
MOST_MODELS = 1_000


class _LowQuantile:
    """A low quantile of watts from counts per whole watt: exact to 1 W, as small as the range of idle draw."""

    __slots__ = ("_floor", "counts", "samples", "updated_s", "watts")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.samples = 0
        self.watts = 0.0
        self.updated_s: float | None = None
        self._floor: IdleFloor | None = None

    @property
    def floor(self) -> IdleFloor:
        """Return what is known so far: made once for all GPUs that ask until the next sample."""
        if self._floor is None:
            self._floor = IdleFloor(self.watts, "learned", self.samples, self.updated_s)
        return self._floor

    def add(self, watts: float, quantile: float, time_s: float) -> None:
        self._floor = None
        whole = round(watts)
        self.counts[whole] = self.counts.get(whole, 0) + 1
        self.samples += 1
        self.updated_s = time_s
        if self.samples >= FULL:
            self._forget_half()
        if self.samples < RECOMPUTE_EVERY or self.samples % RECOMPUTE_EVERY == 0:
            self.watts = self._at(quantile)

    def _forget_half(self) -> None:
        self.counts = {whole: count // 2 for whole, count in self.counts.items() if count > 1}
        self.samples = sum(self.counts.values())

    def _at(self, quantile: float) -> float:
        wanted, seen = quantile * self.samples, 0
        for whole in sorted(self.counts):
            seen += self.counts[whole]
            if seen >= wanted:
                return float(whole)
        return self.watts


class FloorBook:
    """Learn idle floors and answer for every GPU what its floors are."""

    def __init__(self, settings: WasteSettings) -> None:
        self._settings = settings
        self._learned: dict[Key, _LowQuantile] = {}
        self._fallbacks: dict[Key, IdleFloor | None] = {}
        self._models: set[str] = set()

    def learn(self, reading: GpuReading, watts: float, *, allocated: bool) -> None:
        """Take a sample if the GPU surely did nothing; for the bare floor nothing may be on it."""
        if len(self._models) < MOST_MODELS:
            self._models.add(reading.model)
        memory = reading.memory_used_bytes
        if reading.activity != 0.0 or reading.resident or memory is None or math.isnan(memory):
            return
        resident = memory > self._settings.driver_reserve_bytes
        if resident or not allocated:
            kind: Kind = "context" if resident else "bare"
            self._add((reading.uuid, kind), watts, reading.time_s)
            if reading.model:
                self._add((reading.model, kind), watts, reading.time_s)

    def _add(self, key: Key, watts: float, time_s: float) -> None:
        learned = self._learned.get(key)
        if learned is None:
            if len(self._learned) >= MOST_KEYS:
                return
            learned = self._learned[key] = _LowQuantile()
        learned.add(watts, self._settings.floor_quantile, time_s)

    def bare(self, uuid: str, model: str) -> IdleFloor | None:
        """Return the draw of the GPU with no context on it, None when nobody knows."""
        return self._floor(uuid, model, "bare")

    def context(self, uuid: str, model: str) -> IdleFloor | None:
        """Return the draw of the GPU with an idle context on it: bare + 40 W until it is learned."""
        floor = self._floor(uuid, model, "context")
        if floor is not None:
            return floor
        bare = self._floor(uuid, model, "bare")
        if bare is None:
            return None
        # The sum is as good as its weaker part, and the 40 W are the catalogue's.
        return IdleFloor(bare.watts + self._settings.context_extra_watts, "catalogue")

    def _floor(self, uuid: str, model: str, kind: Kind) -> IdleFloor | None:
        for key in (uuid, model):
            learned = self._learned.get((key, kind))
            if learned is not None and learned.samples >= self._settings.floor_samples:
                return learned.floor
        fallback = (model, kind)
        if fallback not in self._fallbacks:
            if len(self._fallbacks) >= MOST_MODELS:
                self._fallbacks.clear()
            self._fallbacks[fallback] = self._unlearned(model, kind)
        return self._fallbacks[fallback]

    def _unlearned(self, model: str, kind: Kind) -> IdleFloor | None:
        configured = configured_model(model, self._settings)
        watts = configured.bare_watts if kind == "bare" else configured.context_watts
        if watts is not None:
            return IdleFloor(watts, "configured")
        known = catalogue.gpu(model).idle_watts if kind == "bare" else None
        return IdleFloor(known, "catalogue") if known is not None else None

    def by_model(self) -> dict[str, IdleFloor]:
        """Return the bare floor of every model seen, for the metric."""
        floors = {model: self._floor(model, model, "bare") for model in sorted(self._models) if model}
        return {model: floor for model, floor in floors.items() if floor is not None}

    def learned(self) -> dict[Key, IdleFloor]:
        """Return what has been learned, to be kept over a restart."""
        return {key: found.floor for key, found in self._learned.items()}

    def restore(self, floors: Mapping[Key, IdleFloor]) -> None:
        """Take back what was learned before a restart; new samples weigh against the old by their number."""
        for key, floor in floors.items():
            if floor.source != "learned" or floor.samples < 1:
                continue
            found = self._learned[key] = _LowQuantile()
            found.counts = {round(floor.watts): floor.samples}
            found.samples, found.watts, found.updated_s = floor.samples, floor.watts, floor.updated_s


NOTHING = ModelSettings()


def configured_model(model: str, settings: WasteSettings) -> ModelSettings:
    """Return what the configuration says of a GPU model: the key whose words its name all has, the longest first."""
    return catalogue.by_words(model, settings.models) or NOTHING

"""What GPUs and servers are known to draw: idle floors and limits, learned first, else configured, else published.

Published figures stand with their sources in ``catalogue.yml``. Names are compared word by word, in any case: a GB200
is no B200, and an H100 PCIe no H100 of an HGX baseboard. What no entry names exactly is unknown, and stays so. Floors,
what a GPU draws doing nothing, bare or with a context resident, are learned per GPU, then per model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple, TypeVar

import yaml

from ...storage.records import IdleFloor, Node
from ...storage.telemetry import GpuReading
from ..settings.values import StrictSettings, Watts
from ..settings.waste import MAKERS, ModelSettings, WasteSettings

_WORD = re.compile(r"[a-z0-9]+")
_OF_NO_SERVER = re.compile(r"\d{2,3}g(b|ib)?|sxm\d?|hbm\w*")
"""Words of a GPU type beyond which a server is still the same: memory (3g is a MIG slice, no size) and socket."""
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Value = TypeVar("Value")


class PublishedFigure(NamedTuple):
    """A published figure in watts, and who published it."""

    watts: float
    source: str


class PublishedRate(NamedTuple):
    """A published rate of a link in bytes per second, both directions together, and who published it."""

    bytes_per_s: float
    source: str


class GpuModel(StrictSettings):
    """What is known of a GPU model; None where nobody has published it."""

    name: str
    also: tuple[str, ...] = ()
    """Words that the name may hold beside its own."""
    idle: PublishedFigure | None = None
    """Draw without a context."""
    limit: PublishedFigure | None = None
    """The usual power limit."""
    nvlink: PublishedRate | None = None
    """All its links to other GPUs."""
    pcie: PublishedRate | None = None

    @property
    def idle_watts(self) -> float | None:
        """Return the draw without a context in watts."""
        return self.idle.watts if self.idle else None

    @property
    def limit_watts(self) -> float | None:
        """Return the usual power limit in watts."""
        return self.limit.watts if self.limit else None

    def is_called(self, words: frozenset[str]) -> bool:
        """Tell whether these are the words of this model's name: all of them, and none that belongs to another."""
        name_words = words_of(self.name)
        return name_words <= words <= name_words | words_of(*self.also)

    def has(self, words: frozenset[str]) -> bool:
        """Tell whether this model's name has all of these words."""
        return words <= words_of(self.name, *self.also)


class ServerModel(StrictSettings):
    """What is known of a server, by the type of its GPUs."""

    name: str
    gpu: str
    gpus: int
    rated: PublishedFigure | None = None
    """The most that it draws at its wall."""


class Catalogue(StrictSettings):
    """All that is known; the first entry that fits is meant."""

    gpus: tuple[GpuModel, ...]
    servers: tuple[ServerModel, ...]


UNKNOWN = GpuModel(name="")


@cache
def catalogue() -> Catalogue:
    """Return the catalogue that comes with the package."""
    text = resources.files(__package__).joinpath("catalogue.yml").read_text(encoding="utf-8")
    return Catalogue.model_validate(yaml.load(text, _Loader))  # noqa: S506 - a SafeLoader


def words_of(*names: str) -> frozenset[str]:
    """Return the words of names in lower case, without those that make no difference."""
    return frozenset(word for name in names for word in _WORD.findall(name.lower())) - MAKERS


def gpu(model: str) -> GpuModel:
    """Return what is known of a GPU model, by the whole name that the vendor's tools print."""
    model_words = words_of(model)
    return next((known for known in catalogue().gpus if known.is_called(model_words)), UNKNOWN)


def named(words: str) -> Iterable[GpuModel]:
    """Return the models whose name has all of these words, and whose idle draw and limit are known."""
    wanted = words_of(words)
    return (known for known in catalogue().gpus if wanted and known.has(wanted) and known.idle and known.limit)


def rated_watts(node: Node, configured: Mapping[str, Watts]) -> float | None:
    """Return the rated draw of a node in watts, None when neither configuration nor catalogue tell."""
    watts = by_pattern(node.name, configured)
    if watts is not None:
        return watts
    gpu_words = frozenset(word for word in words_of(node.gpu_model) if not _OF_NO_SERVER.fullmatch(word))
    server = next((known for known in catalogue().servers if gpu_words == words_of(known.gpu)), None)
    return server.rated.watts / server.gpus * node.gpus if server is not None and server.rated else None


def by_pattern(name: str, values: Mapping[str, Watts]) -> float | None:
    """Return the value of the first pattern that the name fits."""
    return next((value for pattern, value in values.items() if fnmatchcase(name, pattern)), None)


def by_words(name: str, values: Mapping[str, Value]) -> Value | None:
    """Return the value of the key whose words the name all has; of several, that with the most words."""
    name_words = words_of(name)
    fitting = [key for key in values if words_of(key) <= name_words]
    return values[max(fitting, key=lambda key: len(words_of(key)))] if fitting else None


Kind = Literal["bare", "context"]
Key = tuple[str, str]
"""A GPU's uuid or a model's name, and the kind of floor."""

FULL = 20_000
"""Samples after which old ones are halved, so that a floor follows a new driver within days."""
RECOMPUTE_EVERY = 20
"""Samples between two computations of a quantile, each of which sorts all values that were seen."""
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
        rounded = round(watts)
        self.counts[rounded] = self.counts.get(rounded, 0) + 1
        self.samples += 1
        self.updated_s = time_s
        if self.samples >= FULL:
            self._forget_half()
        if self.samples < RECOMPUTE_EVERY or self.samples % RECOMPUTE_EVERY == 0:
            self.watts = self._at(quantile)

    def _forget_half(self) -> None:
        self.counts = {rounded: count // 2 for rounded, count in self.counts.items() if count > 1}
        self.samples = sum(self.counts.values())

    def _at(self, quantile: float) -> float:
        wanted, seen = quantile * self.samples, 0
        for rounded in sorted(self.counts):
            seen += self.counts[rounded]
            if seen >= wanted:
                return float(rounded)
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
        known = gpu(model).idle_watts if kind == "bare" else None
        return IdleFloor(known, "catalogue") if known is not None else None

    def by_model(self) -> dict[str, IdleFloor]:
        """Return the bare floor of every model seen, for the metric."""
        floors = {model: self._floor(model, model, "bare") for model in sorted(self._models) if model}
        return {model: floor for model, floor in floors.items() if floor is not None}

    def learned(self) -> dict[Key, IdleFloor]:
        """Return what has been learned, to be kept over a restart."""
        return {key: quantile.floor for key, quantile in self._learned.items()}

    def restore(self, floors: Mapping[Key, IdleFloor]) -> None:
        """Take back what was learned before a restart; new samples weigh against the old by their number."""
        for key, floor in floors.items():
            if floor.source != "learned" or floor.samples < 1:
                continue
            quantile = self._learned[key] = _LowQuantile()
            quantile.counts = {round(floor.watts): floor.samples}
            quantile.samples, quantile.watts, quantile.updated_s = floor.samples, floor.watts, floor.updated_s


NOTHING = ModelSettings()


def configured_model(model: str, settings: WasteSettings) -> ModelSettings:
    """Return what the configuration says of a GPU model: the key whose words its name all has, the longest first."""
    return by_words(model, settings.models) or NOTHING

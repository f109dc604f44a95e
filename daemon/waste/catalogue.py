"""What is publicly known of GPUs and servers, for as long as nothing better is learned or configured.

The figures stand with their sources in ``catalogue.yml``. Names are compared word by word, in any case: a GB200 is no
B200, and an H100 PCIe no H100 of an HGX baseboard. What no entry names exactly is unknown, and stays so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import NamedTuple, TypeVar

import yaml

from ...storage.records import Node
from ..settings.values import StrictSettings, Watts
from ..settings.waste import MAKERS

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
        own = words_of(self.name)
        return own <= words <= own | words_of(*self.also)

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
    words = words_of(model)
    return next((known for known in catalogue().gpus if known.is_called(words)), UNKNOWN)


def named(words: str) -> Iterable[GpuModel]:
    """Return the models whose name has all of these words, and whose idle draw and limit are known."""
    wanted = words_of(words)
    return (known for known in catalogue().gpus if wanted and known.has(wanted) and known.idle and known.limit)


def rated_watts(node: Node, configured: Mapping[str, Watts]) -> float | None:
    """Return the rated draw of a node in watts, None when neither configuration nor catalogue tell."""
    watts = by_pattern(node.name, configured)
    if watts is not None:
        return watts
    words = frozenset(word for word in words_of(node.gpu_model) if not _OF_NO_SERVER.fullmatch(word))
    found = next((known for known in catalogue().servers if words == words_of(known.gpu)), None)
    return found.rated.watts / found.gpus * node.gpus if found is not None and found.rated else None


def by_pattern(name: str, values: Mapping[str, Watts]) -> float | None:
    """Return the value of the first pattern that the name fits."""
    return next((value for pattern, value in values.items() if fnmatchcase(name, pattern)), None)


def by_words(name: str, values: Mapping[str, Value]) -> Value | None:
    """Return the value of the key whose words the name all has; of several, that with the most words."""
    words = words_of(name)
    fitting = [key for key in values if words_of(key) <= words]
    return values[max(fitting, key=lambda key: len(words_of(key)))] if fitting else None

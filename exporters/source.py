"""What a source is: one place that facts are read from, and how it says that it could not.

A source splits *read* (I/O) from *parse* (text to records). To add one, write one file in this folder with a
``SourceConfig`` subclass under ``@register("its kind")``; the configuration file then accepts its ``kind``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ..storage.records import SchedulerSnapshot, Telemetry

Clock = Callable[[], float]
"""Returns seconds since the epoch; simulations pass an accelerated one."""

Role = Literal["telemetry", "scheduler"]


class SourceError(Exception):
    """A source could not be read; the message says what, where and what to do."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent
        """True when trying again cannot help until somebody changes something (bad password, unknown host)."""


@dataclass(frozen=True, slots=True)
class TargetHealth:
    """How one target of a source fared at its last read."""

    target: str
    up: bool
    duration_s: float
    error: str = ""
    last_success_s: float | None = None


class Source(Protocol):
    """Something that can be read again and again.

    ``read`` returns what it could get: one target down never hides the others. It raises ``SourceError`` only when
    nothing could be had. ``health`` tells how each target fared at the last read.
    """

    name: str
    role: Role

    def read(self) -> Telemetry | SchedulerSnapshot:
        """Read everything once."""

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each target fared at the last read."""

    def close(self) -> None:
        """Release connections."""


class SourceConfig(BaseModel):
    """The configuration of one source; each kind adds its own keys. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: ClassVar[Role] = "telemetry"
    kind: str
    name: str = Field(default="", description="How the source is called in metrics and logs; its kind by default.")

    def build(self, clock: Clock) -> Source:
        """Return the source that this configuration describes."""
        raise NotImplementedError


Config = TypeVar("Config", bound=type[SourceConfig])
_KINDS: dict[str, type[SourceConfig]] = {}


def register(kind: str) -> Callable[[Config], Config]:
    """Make the decorated configuration known under its ``kind``."""

    def keep(config: Config) -> Config:
        if kind in _KINDS and _KINDS[kind].__qualname__ != config.__qualname__:
            raise ValueError(f"two sources call themselves {kind!r}")
        _KINDS[kind] = config
        return config

    return keep


def kinds() -> dict[str, type[SourceConfig]]:
    """Return every source kind in this folder, by name."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return dict(_KINDS)

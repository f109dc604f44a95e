"""The configuration file: read strictly, once, into typed settings; every error at once, with its path and line."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Union

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ..exporters.source import SourceConfig, kinds
from .agents.kinds import names as agent_names
from .notices.checks import check as check_notices
from .policies.registry import parse as parse_policy
from .replay.speed_priors import APPLICATIONS, PRIORS, TASKS
from .settings.notices import NoticesSettings
from .settings.sections import Sections
from .settings.values import Checks
from .strict_yaml import ConfigError as ConfigError
from .strict_yaml import read_strictly, text_of


def _serving_policy(name: str) -> None:
    if parse_policy(name).order.oracle:
        raise ValueError(f"{name!r} looks at true run times, which nobody knows in advance")


def _agent(name: str) -> None:
    if name not in agent_names():
        raise ValueError(f"there is no agent {name!r}; there are {', '.join(sorted(agent_names()))}")


def _application(name: str) -> None:
    if name not in APPLICATIONS:
        raise ValueError(f"{name!r} was not measured; {', '.join(APPLICATIONS)} were")


def _workload(name: str) -> None:
    if name not in PRIORS and name not in TASKS:
        raise ValueError(f"there is no model {name!r}; there are {', '.join((*TASKS, *PRIORS))}")


CHECKS: Checks = {"policy": parse_policy, "serving policy": _serving_policy, "agent": _agent,
                  "application": _application, "workload": _workload}
"""Checks of names in the settings, by packages that the settings do not know."""


def _source(value: object) -> object:
    """Name the missing or unknown kind; pydantic's own message would list every key of every kind."""
    if isinstance(value, Mapping) and value.get("kind") not in kinds():
        raise ValueError(f"kind {value.get('kind')!r} is none of {', '.join(sorted(kinds()))}")
    return value


if TYPE_CHECKING:
    AnySource = SourceConfig
else:
    # Which kinds there are is known when the folder has been read, not when this file is.
    AnySource = Annotated[Annotated[Union[tuple(kinds().values())], Field(discriminator="kind")],  # noqa: UP007
                          BeforeValidator(_source)]


class Settings(Sections):
    """Everything that the configuration file says."""

    sources: tuple[AnySource, ...] = ()

    @field_validator("sources")
    @classmethod
    def _names_differ(cls, sources: tuple[SourceConfig, ...]) -> tuple[SourceConfig, ...]:
        names = [source.name or source.kind for source in sources]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two sources are called {name!r}: give each its own name")
        return sources

    @model_validator(mode="after")
    def _one_currency(self) -> Settings:
        for source in self.sources:
            currency = getattr(source, "currency", "")
            if currency and currency != self.costs.currency:
                raise ValueError(f"source {source.name or source.kind} has prices in {currency}, and costs.currency is "
                                 f"{self.costs.currency or 'not set'}")
        return self

    @field_validator("notices")
    @classmethod
    def _deliverable(cls, notices: NoticesSettings) -> NoticesSettings:
        check_notices(notices)
        return notices


def load(path: Path) -> Settings:
    """Read the configuration file; raise ``ConfigError`` that lists every fault."""
    return parse(text_of(path), str(path))


def parse(text: str, where: str = "configuration") -> Settings:
    """Return the settings that a YAML text describes; raise ``ConfigError`` that lists every fault."""
    return read_strictly(Settings, text, where, CHECKS, kinds())


def sample() -> str:
    """Return the documented sample configuration: every key with its default and when one would change it."""
    return resources.files(__package__).joinpath("config.sample.yml").read_text(encoding="utf-8")

"""The configuration file: read strictly, once, into typed settings; every error at once, with its path and line."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

import yaml
from pydantic import BeforeValidator, Field, ValidationError, field_validator

from ..exporters.source import SourceConfig, kinds
from .agents.kinds import names as agent_names
from .notices.checks import check as check_notices
from .policies.registry import parse as parse_policy
from .replay.fungible import PRIORS, TASKS
from .replay.locality import APPLICATIONS
from .settings.notices import NoticesSettings
from .settings.sections import Sections
from .settings.values import Checks


class ConfigError(Exception):
    """The configuration cannot be used; the message lists every fault, one a line."""


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
"""What is asked of names in the settings, by rooms that the settings do not know."""


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

    @field_validator("notices")
    @classmethod
    def _can_be_told(cls, notices: NoticesSettings) -> NoticesSettings:
        check_notices(notices)
        return notices


# LibYAML's parser, where PyYAML has it, is ten times as fast: a start with 3,000 targets waited a second for the other.
_DEEPEST = 100
_RENAMED = {"counsel": "recommenders"}
"""Keys of older versions, and what they are called now."""
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc]
    """YAML in which a repeated key is an error: the second would silently win."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            problem = f"the key {key!r} stands here twice"
            raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
        seen.add(key)
    made: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return made


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(path: Path) -> Settings:
    """Read the configuration file; raise ``ConfigError`` that lists every fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path))


def parse(text: str, where: str = "configuration") -> Settings:
    """Return the settings that a YAML text describes; raise ``ConfigError`` that lists every fault."""
    try:
        _check_depth(text, where)
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not YAML: {error}") from error
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: a mapping is expected at the top, not {type(document).__name__}")
    try:
        return Settings.model_validate(document, context=CHECKS)
    except ValidationError as error:
        raise ConfigError("\n".join(_faults(error, yaml.compose(text, _Safe), where))) from error


def _check_depth(text: str, where: str) -> None:
    """Raise ``ConfigError`` where a text nests so deeply that libyaml would end the process for want of stack."""
    depth = 0
    for event in yaml.parse(text, _Safe):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark is not None else 1
            raise ConfigError(f"{where}:{line}: nested more than {_DEEPEST} deep")


def _faults(error: ValidationError, tree: yaml.Node | None, where: str) -> list[str]:
    lines = []
    for fault in error.errors(include_url=False):
        path, node = _locate(tree, fault["loc"])
        line = f":{node.start_mark.line + 1}" if node is not None else ""
        message = _unknown(path) if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
        lines.append(f"{where}{line}: {path or 'top'}: {message}")
    return lines


def _unknown(path: str) -> str:
    return f"unknown key; since 0.2 it is {_RENAMED[path]}" if path in _RENAMED else "unknown key"


def _locate(tree: yaml.Node | None, location: tuple[int | str, ...]) -> tuple[str, yaml.Node | None]:
    """Return the dotted path of a fault and the YAML node nearest to it; union tags are no step of the path."""
    node, path = tree, ""
    for step in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node, path = node.value[step], f"{path}[{step}]"
        elif isinstance(node, yaml.MappingNode):
            child = next((value for key, value in node.value if key.value == str(step)), None)
            if child is not None:
                node = child
            elif step in kinds():
                continue
            path = f"{path}.{step}" if path else str(step)
    return path, node


def sample() -> str:
    """Return the documented sample configuration: every key with its default and when one would change it."""
    return resources.files(__package__).joinpath("config.sample.yml").read_text(encoding="utf-8")

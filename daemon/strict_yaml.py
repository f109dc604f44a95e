"""Configuration files: YAML read strictly into typed settings, every fault at once, with its path and line."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..exporters.causes import innermost
from .settings.values import Checks

Model = TypeVar("Model", bound=BaseModel)


class ConfigError(Exception):
    """The configuration cannot be used; the message lists every fault, one a line."""


# LibYAML's parser, where PyYAML has it, is ten times as fast: a start with 3,000 targets waited a second for the other.
_DEEPEST = 100
_RENAMED = {"counsel": "recommenders"}
"""Keys of older versions, and what they are called now."""
_Safe: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc,valid-type]
    """YAML in which a repeated key is an error: the second would silently win."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[object, object]:
    seen: set[object] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(None, None, "a list or a mapping is no key", key_node.start_mark)
        if key in seen:
            problem = f"the key {key!r} stands here twice"
            raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
        seen.add(key)
    made: dict[object, object] = loader.construct_mapping(node, deep=True)
    return made


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def text_of(path: Path) -> str:
    """Return the text of a configuration file; raise ``ConfigError`` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = innermost(error) if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"{path}: cannot be read: {why}") from error


def document_of(text: str, where: str) -> object:
    """Return what a YAML text says; raise ``ConfigError`` where it is no YAML or nests too deeply."""
    try:
        _check_depth(text, where)
        document: object = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a day or a number that cannot be
        raise ConfigError(f"{where}: not YAML: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:  # so PyYAML fails at a value that its tag does not fit
        raise ConfigError(f"{where}: not YAML: a value is not of the kind that the tag before it names") from error
    return document


def faults_of(error: ValidationError, most: int = 10) -> str:
    """Return the first faults of a document on one line, each with its place and what stands there."""
    return "; ".join(f"{_place(fault['loc']) or 'the file'}: {_message(fault)}" for fault in error.errors()[:most])


def _place(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".")


def _message(fault: ErrorDetails) -> str:
    value = fault.get("input")
    value_text = f", not {value!r}" if isinstance(value, int | float | str) else ""
    if fault["type"] == "model_type":
        return f"names of parts with their values are expected{value_text}"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}{value_text}"


def read_strictly(model: type[Model], text: str, where: str, checks: Checks, tags: Collection[str] = ()) -> Model:
    """Return the settings that a YAML text describes; raise ``ConfigError`` that lists every fault.

    ``tags`` tell members of a union apart, and are no step of a fault's path.
    """
    document = document_of(text, where)
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: a mapping is expected at the top, not {type(document).__name__}")
    try:
        return model.model_validate(document, context=checks)
    except ValidationError as error:
        raise ConfigError("\n".join(_faults(error, yaml.compose(text, _Safe), where, tags))) from error


def _check_depth(text: str, where: str) -> None:
    """Raise ``ConfigError`` where a text nests so deeply that libyaml would end the process for want of stack."""
    depth = 0
    for event in yaml.parse(text, _Safe):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark is not None else 1
            raise ConfigError(f"{where}:{line}: nested more than {_DEEPEST} deep")


def _faults(error: ValidationError, tree: yaml.Node | None, where: str, tags: Collection[str]) -> list[str]:
    lines = []
    for fault in error.errors(include_url=False):
        path, node = _locate(tree, fault["loc"], tags)
        line = f":{node.start_mark.line + 1}" if node is not None else ""
        message = _unknown(path) if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
        lines.append(f"{where}{line}: {path or 'top'}: {message}")
    return lines


def _unknown(path: str) -> str:
    return f"unknown key; since 0.2 it is {_RENAMED[path]}" if path in _RENAMED else "unknown key"


def _locate(tree: yaml.Node | None, location: tuple[int | str, ...], tags: Collection[str]) \
        -> tuple[str, yaml.Node | None]:
    """Return the dotted path of a fault and the YAML node nearest to it; union tags are no step of the path."""
    node, path = tree, ""
    for step in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node, path = node.value[step], f"{path}[{step}]"
        elif isinstance(node, yaml.MappingNode):
            child = next((value for key, value in node.value if key.value == str(step)), None)
            if child is not None:
                node = child
            elif step in tags:
                continue
            path = f"{path}.{step}" if path else str(step)
    return path, node

"""Parsing of changes to the settings of a paper, which the command line gives as ``rounds=20``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from .failures import SettingError

Setting = TypeVar("Setting")


def parsed(changes: Sequence[str]) -> dict[str, str]:
    """Return the values of ``KEY=VALUE`` by key; the last of a key counts. ``SettingError`` without ``=``."""
    for change in changes:
        if "=" not in change:
            raise SettingError(f"{change!r} is no KEY=VALUE")
    return dict(change.split("=", 1) for change in changes)


def changed(setting: Setting, changes: Mapping[str, str]) -> Setting:
    """Return a copy of a setting (a dataclass) with values replaced and checked; ``SettingError`` names the fault.

    The values of a list are separated by commas.
    """
    known = asdict(setting)  # type: ignore[call-overload]
    for name in changes:
        if name not in known:
            raise SettingError(f"there is no {name!r} here; there are " + ", ".join(
                f"{key}={_spoken(value)}" for key, value in known.items()))
    values = known | {name: text.split(",") if isinstance(known[name], tuple) else text
                      for name, text in changes.items()}
    try:
        return TypeAdapter(type(setting)).validate_python(values)
    except ValidationError as error:
        raise SettingError("; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
                                     for fault in error.errors())) from error


def _spoken(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

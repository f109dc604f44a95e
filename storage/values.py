"""What a database column can hold: hostile facts are bent here so that one of them never spoils a whole write."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from sqlalchemy import Row, Select

Item = TypeVar("Item")
TableRow: TypeAlias = "Row[*tuple[object, ...]]"
"""A row that a query returned; its columns are attributes."""

Query: TypeAlias = "Select[*tuple[object, ...]]"
"""A query of such rows."""

_LARGEST = 2**63 - 1
_MOST_VARIABLES = 500


def words(value: str) -> str:
    """Return text that every database takes: no NUL, no half surrogates."""
    if value.isascii() and "\0" not in value:  # nearly all of it, thousands of times a round of advice
        return value
    return value.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def number(value: float | None) -> float | None:
    """Return the number, or None for what is none (NaN, infinity)."""
    return None if value is None or not math.isfinite(value) else float(value)


def finite(value: object) -> object:
    """Return a JSON value with text that every database takes and None for what is no number."""
    if isinstance(value, dict):
        return {words(str(key)): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, str):
        return words(value)
    return number(value) if isinstance(value, float) else value


def whole(value: float) -> int:
    """Return an integer that fits 64 bits; what is no number becomes 0."""
    if not math.isfinite(value):
        return 0
    return max(-_LARGEST, min(_LARGEST, int(value)))


def thousandths(value: float | None) -> int | None:
    """Return whole thousandths (millijoules of joules); None when unmeasured or beyond any meter."""
    value = number(value)
    return None if value is None or abs(value) >= _LARGEST / 1000 else round(value * 1000)


def chunks(items: Iterable[Item], size: int = _MOST_VARIABLES) -> Iterator[Sequence[Item]]:
    """Cut items into pieces that fit one statement."""
    sequence = list(items)
    return (sequence[first:first + size] for first in range(0, len(sequence), size))

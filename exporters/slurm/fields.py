"""Reads fields of Slurm's JSON, whatever version wrote it, and names the field that is not as it should be."""

from __future__ import annotations

from collections.abc import Mapping

from ..text import clean, described

UNSET = (0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF)
"""Slurm's NO_VAL and INFINITE in 32 and 64 bits, which older versions print as they are."""
_LONGEST_TEXT = 1_000_000
_LAST_S = 253_402_300_799
"""The end of the year 9999: no later moment can be shown."""
_LARGEST = 2.0**65
"""Beyond any number of Slurm, and within what arithmetic bears."""


class BadRecord(ValueError):
    """A record that cannot be understood; the message names the field."""


class Fields:
    """One JSON object of Slurm. A missing or null field reads as empty; one of another type raises ``BadRecord``.

    Text is cleaned here, so that no control character, surrogate or line's end of a name gets further.
    """

    def __init__(self, raw: object, where: str = "record") -> None:
        if not isinstance(raw, Mapping):
            raise BadRecord(f"{where} is {described(raw)}, not an object")
        self._raw: Mapping[str, object] = raw
        self._where = where

    def __contains__(self, name: str) -> bool:
        return self._raw.get(name) is not None

    def text(self, name: str) -> str:
        """Return a string; '' for ``(null)``."""
        value = self._raw.get(name)
        if value is None or value == "(null)":
            return ""
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
            raise self._bad(name, value, "a text")
        return clean(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; older versions write a single one, with commas or without a list."""
        value = self._raw.get(name)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(map(clean, value))
        if value is None or isinstance(value, str):
            return tuple(clean(part.strip()) for part in (value or "").split(",") if part.strip())
        raise self._bad(name, value, "a list of texts")

    def number(self, name: str) -> float | None:
        """Return a number, bare or wrapped as ``{"set", "infinite", "number"}``; None when unset or infinite."""
        value = self._set_number(name)
        return None if value in UNSET else value

    def signed(self, name: str) -> int | None:
        """Return a whole number of 32 bits that may be negative, also where a version writes it without a sign."""
        value = self._set_number(name)
        if value is None:
            return None
        if not -2**31 <= value < 2**32:
            raise self._bad(name, value, "a number of 32 bits")
        return int(value) - 2**32 if value >= 2**31 else int(value)

    def _set_number(self, name: str) -> float | None:
        """Return a number as it is written, be it one that stands for none."""
        value = self._raw.get(name)
        if isinstance(value, Mapping):
            if not value.get("set", True) or value.get("infinite"):
                return None
            value = value.get("number")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
            raise self._bad(name, value, "a number")
        return value

    def integer(self, name: str) -> int | None:
        """Return a whole number that is not negative, None when unset."""
        value = self.number(name)
        if value is not None and not 0 <= value < 2**63:
            raise self._bad(name, value, "a number from 0 up")
        return None if value is None else int(value)

    def time(self, name: str) -> float | None:
        """Return seconds since the epoch; None for 0, which is Slurm's 'never'."""
        number = self.integer(name) or 0
        if number > _LAST_S:
            raise self._bad(name, number, "a time before the year 10000")
        return float(number) or None

    def has(self, name: str) -> bool:
        """Tell whether a field was written at all, be it as null."""
        return name in self._raw

    def flag(self, name: str) -> bool | None:
        """Return a truth value; None when it is missing."""
        value = self._raw.get(name)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        raise self._bad(name, value, "true or false")

    def part(self, name: str) -> Fields:
        """Return the object below; an empty one when it is missing."""
        return Fields(self._raw.get(name) or {}, f"{self._where}.{name}")

    def raw_list(self, name: str) -> list[object]:
        """Return a list as it is, so that each item can be judged on its own."""
        value = self._raw.get(name) or []
        if not isinstance(value, list):
            raise self._bad(name, value, "a list")
        return value

    def parts(self, name: str) -> list[Fields]:
        """Return the objects of a list."""
        return [Fields(item, f"{self._where}.{name}") for item in self.raw_list(name)]

    def is_text(self, name: str) -> bool:
        """Tell whether a field holds a string."""
        return isinstance(self._raw.get(name), str)

    def is_object(self, name: str) -> bool:
        """Tell whether a field holds an object, as newer versions do where older ones write a plain value."""
        return isinstance(self._raw.get(name), Mapping)

    def _bad(self, name: str, value: object, wanted: str) -> BadRecord:
        return BadRecord(f"{self._where}.{name} is {described(value)}, not {wanted}")

"""Remembers the last result of a pure function, as long as it is called with the same objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class Recall:
    """The last result of each function that was called; from any thread: at worst it is worked out twice."""

    def __init__(self) -> None:
        self._last: dict[Callable[..., Any], tuple[tuple[object, ...], Any]] = {}

    def __call__(self, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Return what the function says of these objects, which nobody may change meanwhile, nor the answer."""
        last = self._last.get(function)
        if last is None or any(argument is not other for argument, other in zip(last[0], arguments, strict=True)):
            last = self._last[function] = arguments, function(*arguments)
        answer: Answer = last[1]
        return answer

"""Who hears how far a judging has come: nobody in the daemon, a line on somebody's terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Tell = Callable[[float, float], object]
"""Hears how many of how many replays are done."""
_HEARS: ContextVar[Tell] = ContextVar("hears", default=lambda done, total: None)


def tell(done: int, total: int) -> None:
    """Say how many of how many replays are done to whoever listens."""
    _HEARS.get()(done, total)


@contextmanager
def heard(by: Tell) -> Iterator[None]:
    """Let somebody hear how far the judgings within come."""
    before = _HEARS.set(by)
    try:
        yield
    finally:
        _HEARS.reset(before)

"""Loads compiled code without keeping meanwhile what the compiler needs for it: 40 MB, on top of all that is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from .memory import give_back, give_back_compiler
from .replay.compiled import compiler_watched, forget_inlinable

EVERY = 8
"""Times that the compiler is left between two looks: policies enter it some 300 times, a look takes 5 ms."""


@contextmanager
def lean_loading() -> Iterator[None]:
    """Give the compiler's code back again and again meanwhile, and all that is not in use at the end."""
    times = count(1)

    def left() -> None:
        if next(times) % EVERY == 0:
            give_back_compiler()

    try:
        with compiler_watched(left):
            yield
    finally:
        forget_inlinable()
        give_back()

"""Loads compiled code without keeping meanwhile what the compiler needs for it: 40 MB, on top of all that is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numba.core import event

from .memory import give_back, give_back_compiler

EVERY = 8
"""Ends of the compiler's lock between two looks: policies take it some 300 times, a look takes 5 ms."""


class _Looks(event.Listener):
    def __init__(self) -> None:
        self._ended = 0

    def on_start(self, event: object) -> None:
        """Do nothing."""

    def on_end(self, event: object) -> None:
        """Give the compiler's code back now and then."""
        self._ended += 1
        if self._ended % EVERY == 0:
            give_back_compiler()


@contextmanager
def lean_loading() -> Iterator[None]:
    """Give the compiler's code back again and again meanwhile, and all that is not in use at the end."""
    looks = _Looks()
    event.register("numba:compiler_lock", looks)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compiler_lock", looks)  # type: ignore[no-untyped-call]
        give_back()

"""Lets the garbage collector rest while thousands of objects are made that stay.

It comes by for every few hundred new objects, and from time to time goes through all that live, in vain: a list that is
read holds no circles. What is garbage without circles is returned at once all the same.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager


class _Rest:
    """How many threads want the collector to rest."""

    def __init__(self) -> None:
        self._lock, self._wishes, self._woken = threading.Lock(), 0, False

    @contextmanager
    def kept(self) -> Generator[None]:
        """Let the collector rest until the last of all threads is done; one that was off before stays so."""
        with self._lock:
            if not self._wishes:
                self._woken = gc.isenabled()
                gc.disable()
            self._wishes += 1
        try:
            yield
        finally:
            with self._lock:
                self._wishes -= 1
                if not self._wishes and self._woken:
                    gc.enable()


uncollected = _Rest().kept
"""Nothing that waits for others belongs within: the collector rests in all threads."""

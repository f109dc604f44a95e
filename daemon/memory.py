"""Gives memory back that only starting needed: 50 MB of LLVM's code, and what was freed but kept for reuse."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

_DROP_PAGES = 4
"""MADV_DONTNEED: pages of a file that were not written to are read from it again when they are next needed."""
_MAPS = Path("/proc/self/maps")
_COMPILER = "libllvmlite"


def give_back() -> None:
    """Return to the system what is not in use; it costs some milliseconds, and no more where that is not possible.

    LLVM is needed to load and to compile policies, not to let them decide.
    """
    libc = ctypes.CDLL(None)
    try:
        spans = list(_code_of(_MAPS.read_text()))
    except OSError as error:
        log.debug("no memory is given back", extra={"error": str(error)})
        return
    for start, length in spans:
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _DROP_PAGES)
    if hasattr(libc, "malloc_trim"):  # of glibc only
        libc.malloc_trim(0)


def _code_of(maps: str) -> Iterator[tuple[int, int]]:
    """Yield start and length of the compiler's code, which is never written to; its relocated data is left alone."""
    for line in maps.splitlines():
        span, mode, *rest = line.split(maxsplit=5)
        if mode == "r-xp" and rest and Path(rest[-1]).name.startswith(_COMPILER):
            start, end = (int(bound, 16) for bound in span.split("-"))
            yield start, end - start

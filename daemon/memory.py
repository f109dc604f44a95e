"""Gives memory back that only starting needed: 60 MB of LLVM, and what was freed but kept for reuse."""

from __future__ import annotations

import ctypes
import gc
import logging
import re
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

_DROP_PAGES = 4
"""MADV_DONTNEED: pages of a file that were not written to are read from it again when they are next needed."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX of mallopt(3)."""
_LARGE_BYTES, _KEPT_BYTES = 64 * 1024, 1024 * 1024
_YOUNG, _MIDDLE, _OLD = 10_000, 20, 100
"""After how many new objects circles are looked for among the young, and how often among older ones and everywhere."""
_SMAPS = Path("/proc/self/smaps")
_COMPILER = "libllvmlite"
_MAPPING = re.compile(r"\n(?=[0-9a-f]+-[0-9a-f]+ )")
_UNTOUCHED = re.compile(r"\nAnonymous: +0 kB\n(?:.*\n)*?Swap: +0 kB\b")


def save() -> None:
    """Let glibc return large blocks at once, and keep one heap for all threads; to be called before there are any.

    Left alone it takes its bound for large blocks from those that it has seen: after Slurm's first answer of some
    megabytes all of them come from the heap, where what is small and stays keeps the holes between from being returned.
    Arrays that are replaced by slightly longer ones each minute leave holes as well: none fits where the last one was.
    Of two heaps each has holes of its own, 6 MB at a thousand nodes, and a thread that waits for one waits for Python
    anyway.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # of glibc only
        libc.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        # Else the end of the heap goes and comes with each page of an exporter, and the kernel clears it each time.
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_ARENA_MAX, 1)


def settle() -> None:
    """Take what there is by now for permanent, and return what starting needed.

    Modules and classes, half of all objects, are never looked through again. Of the others the collector would look
    through all several times in each cycle, which replaces most of them and leaves hardly any circles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    give_back()


def give_back() -> None:
    """Return to the system what is not in use; it costs a tenth of a second at most at a thousand nodes.

    Circles of garbage are looked for first: in a daemon that makes few the collector comes by after hours, and what a
    failed exchange has left lies between what is in use. LLVM is needed to load and to compile policies, not to let
    them decide.
    """
    gc.collect()
    give_back_compiler()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # of glibc only
        libc.malloc_trim(0)


def give_back_compiler() -> None:
    """Return the compiler's code and constants, which are read from its file again when they are next needed."""
    libc = ctypes.CDLL(None)
    try:
        spans = list(_unwritten(_SMAPS.read_text()))
    except OSError as error:
        log.debug("no memory is given back", extra={"error": str(error)})
        return
    for start, length in spans:
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _DROP_PAGES)


def _unwritten(smaps: str) -> Iterator[tuple[int, int]]:
    """Yield start and length of the compiler's code and constants; its data, relocated when loaded, is left alone."""
    for mapping in _MAPPING.split(smaps):
        span, mode, *fields = mapping.partition("\n")[0].split(maxsplit=5)
        if mode in ("r-xp", "r--p") and len(fields) == 4 and Path(fields[-1]).name.startswith(_COMPILER) \
                and _UNTOUCHED.search(mapping):
            start, end = (int(bound, 16) for bound in span.split("-"))
            yield start, end - start

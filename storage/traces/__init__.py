"""Outside histories: traces that others published, accounting dumps, and plain CSV that anyone can write."""

from __future__ import annotations

import gzip
import importlib
import pkgutil
import zlib
from pathlib import Path

import pyarrow as pa

from .formats import Format, Progress, open_file, registered
from .trace import Builder, Rejected, Trace, TraceError, write_csv

__all__ = ["Rejected", "Trace", "TraceError", "formats", "read_trace", "write_csv"]


def formats() -> dict[str, Format]:
    """Return every format in this folder, by name."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return registered()


def read_trace(path: str | Path, format_name: str | None = None, progress: Progress | None = None) -> Trace:
    """Read a history into columns; the format is seen from the content unless it is named.

    Rows that cannot be read are skipped, kept with their line in ``rejected`` and counted in ``rejections``.
    Raises ``TraceError`` when nothing can be made of the file: not there, truncated, of no known format.
    """
    path = Path(path)
    opened = open_file(path)
    layout = _format_of(path, opened.head, format_name)
    builder = Builder(ids_recur=layout.ids_recur)
    with opened.stream:
        try:
            for chunk in layout.chunks(opened.stream):
                builder.add(chunk)
                if progress is not None:
                    progress(opened.position(), opened.size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TraceError(f"{path}: cannot be unpacked to its end ({error}); fetch it again") from error
        except TraceError as error:
            raise TraceError(f"{path}: {error}") from error
    pa.default_memory_pool().release_unused()  # as much again as the jobs take
    return builder.build()


def _format_of(path: Path, head: str, name: str | None) -> Format:
    known = formats()
    if name is not None:
        if name not in known:
            raise TraceError(f"there is no format {name!r}; known are {', '.join(sorted(known))}")
        return known[name]
    best = max(known.values(), key=lambda layout: layout.recognises(head))
    if best.recognises(head):
        return best
    first = head.lstrip().partition("\n")[0][:200]
    raise TraceError(f"{path}: is of no known format ({', '.join(sorted(known))}); it begins with {first!r}. "
                     "Plain CSV begins with the line 'job,submit_s,run_s,gpus', separated by commas")

"""What a format of outside histories is, and how a file finds its own.

To add one, write one file in this folder that calls ``register``.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from .trace import Chunk, TraceError

Progress = Callable[[int, int], None]
"""Called with (bytes of the file read, bytes in all) now and then."""
HEAD_BYTES = 1 << 16


class Format(Protocol):
    """One way to write a history into a file."""

    @property
    def name(self) -> str:
        """Return what the format is called on the command line."""

    @property
    def ids_recur(self) -> bool:
        """Tell whether one id may stand under several submit times."""

    def recognises(self, head: str) -> int:
        """Return how many marks of this format the first 64 KiB bear; 0 when the file is none. The most marks win."""

    def chunks(self, stream: IO[bytes]) -> Iterator[Chunk]:
        """Read the file part by part; raise ``TraceError`` when it cannot be read at all."""


_FORMATS: dict[str, Format] = {}


def register(layout: Format) -> Format:
    """Make a format known under its name."""
    _FORMATS[layout.name] = layout
    return layout


def registered() -> dict[str, Format]:
    """Return the formats that were registered so far, by name."""
    return _FORMATS


@dataclass(slots=True)
class OpenFile:
    """A file being read, plain or gzipped, that knows how far it is."""

    stream: IO[bytes]
    head: str
    size: int
    position: Callable[[], int]


def open_file(path: Path) -> OpenFile:
    """Open a history; gzip is recognised by content. Raises ``TraceError`` when it is no readable text."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise TraceError(f"{path}: is no plain file, and is read twice: save what it gives as a file, and read that")
    try:
        raw = path.open("rb")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    stream = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw
    try:
        head = _head(stream)
    except (EOFError, gzip.BadGzipFile, zlib.error, OSError) as error:
        raise TraceError(f"{path}: cannot be unpacked ({error}); fetch it again") from error
    if b"\0" in head:
        raise TraceError(f"{path}: is no text file (UTF-16 and archives are not read; unpack or convert it to UTF-8)")
    if not head.strip():
        raise TraceError(f"{path}: is empty")
    return OpenFile(stream, head.decode("utf-8-sig", "replace"), path.stat().st_size, raw.tell)


def _head(stream: IO[bytes]) -> bytes:
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    return head

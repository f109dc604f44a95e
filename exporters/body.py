"""Bodies of HTTP answers: unpacked within a bound, and known to be whole."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from urllib3.response import HTTPResponse

from .source import SourceError
from .text import quoted

_MOST_MEMBERS = 16
"""Parts of one gzip body; each costs a copy of what follows it."""
_END = b"# EOF"
"""How OpenMetrics ends a page."""


def unpacker(encoding: str, limit: int) -> Callable[[bytes], bytes]:
    """Return what unpacks a body part by part, at most ``limit`` + 1 bytes; an empty part stands for its end."""
    if encoding in ("", "identity"):
        return lambda part: part
    if encoding != "gzip":
        raise SourceError(f"answers in Content-Encoding {quoted(encoding)}, which was not asked for")
    return _Gunzip(limit)


class _Gunzip:
    """Unpacks gzip, which may consist of several members, one after the other."""

    def __init__(self, limit: int) -> None:
        self._left = limit + 1
        self._members = 1
        self._inflate = zlib.decompressobj(wbits=31)

    def __call__(self, part: bytes) -> bytes:
        """Return what a part holds, unpacked."""
        if not part and not self._inflate.eof:
            raise SourceError("its gzip is cut off")
        unpacked = []
        while part and self._left > 0:
            if self._inflate.eof:
                self._next_member()
            unpacked.append(self._inflate.decompress(part, self._left))
            self._left -= len(unpacked[-1])
            part = self._inflate.unused_data
        return b"".join(unpacked)

    def _next_member(self) -> None:
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise SourceError(f"its gzip has more than {_MOST_MEMBERS} members")
        self._inflate = zlib.decompressobj(wbits=31)


def whole(body: bytes, raw: HTTPResponse) -> bytes:
    """Return a body whose end is certain.

    A page that ends where the connection does looks whole when it was cut at the end of a line. JSON, gzip and
    OpenMetrics show their own end.

    Raises:
        SourceError: the body is cut off, or nobody can tell.
    """
    end = body[-8:].rstrip()
    if end.endswith((_END, b"}", b"]")):
        return body
    if "openmetrics-text" in raw.headers.get("Content-Type", ""):
        raise SourceError("the page is cut off: it is OpenMetrics and does not end in # EOF")
    # The length that was announced, none of which remains by now; None where none was.
    marked = raw.chunked or raw.length_remaining is not None
    if not marked and raw.headers.get("Content-Encoding") != "gzip":
        raise SourceError("nobody can tell whether the page is whole: it ends where the connection does "
                          "(no Content-Length, no chunks, no # EOF)")
    return body

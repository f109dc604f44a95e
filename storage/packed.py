"""Packs tables of whole numbers into bytes: a window of 8,000 GPUs takes a tenth of what a row for each would.

A byte for the version; then, under zlib, the length of a JSON header (words, number of rows) and the columns as 64-bit
integers by byte planes: all highest bytes of a column, then all second highest, ... High planes are constant, so that
only what really varies takes room.
"""

from __future__ import annotations

import json
import logging
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Table, select

from .database import upsert
from .values import TableRow

log = logging.getLogger(__name__)

Read = TypeVar("Read")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Window = tuple[float, float]
"""Start and length in seconds."""
MISSING = np.iinfo(np.int64).min
"""What is not measured."""
_VERSION = 1
LONGEST_S = 3600.0
"""No window is longer."""
_LENGTH = struct.Struct("<I")


class Unreadable(ValueError):
    """Packed numbers are damaged, or of a newer version."""


def pack(columns: Ints, words: Sequence[Sequence[str]] = ()) -> bytes:
    """Return columns (one row of the array each), and lists of words, as bytes."""
    header = json.dumps([columns.shape[1], *map(list, words)], separators=(",", ":")).encode()
    planes = np.ascontiguousarray(columns, "<i8").view(np.uint8).reshape(*columns.shape, 8).transpose(0, 2, 1)
    return bytes((_VERSION,)) + zlib.compress(_LENGTH.pack(len(header)) + header + planes.tobytes())


def unpack(packed: bytes) -> tuple[Ints, list[list[str]]]:
    """Return the columns and the lists of words; Unreadable when that cannot be."""
    if not packed or packed[0] != _VERSION:
        raise Unreadable(f"packed windows of version {packed[:1].hex() or 'none'} need a newer idlewatt")
    try:
        raw = zlib.decompress(packed[1:])
        begin = _LENGTH.size + _LENGTH.unpack_from(raw)[0]
        rows, *words = json.loads(raw[_LENGTH.size:begin])
        planes = np.frombuffer(raw, np.uint8, offset=begin)
        columns = planes.reshape(-1, 8, rows).transpose(0, 2, 1) if rows else np.zeros((0, 0, 8), np.uint8)
    except (zlib.error, struct.error, ValueError, TypeError, RecursionError) as error:
        raise Unreadable(f"packed windows are damaged: {error}") from error
    return np.ascontiguousarray(columns).view("<i8")[..., 0].astype(np.int64, copy=False), words


def scaled(values: Iterable[float | None], units: float) -> Ints:
    """Return values in whole parts of which ``units`` are one; what is no number, or too large, is missing."""
    numbers = np.array([np.nan if value is None else value for value in values], np.float64) * units
    known = np.abs(numbers) < 2.0**63  # false for NaN
    return np.where(known, np.rint(np.where(known, numbers, 0.0)), MISSING).astype(np.int64)


def unscaled(column: Ints, units: float) -> list[float | None]:
    """Return what :func:`scaled` was given, to the part."""
    return [None if value == MISSING else value / units for value in column.tolist()]


def readable(rows: Iterable[TableRow], read: Callable[[bytes], Read]) -> Iterator[tuple[TableRow, Read]]:
    """Yield rows with what their packed numbers say; a window that is damaged costs itself only, and is logged."""
    for row in rows:
        try:
            yield row, read(row.packed)
        except Unreadable as error:
            log.error("the window of %.0f s that begins at %.0f is left out: %s", row.seconds, row.start_s, error)


def recorded(connection: Connection, table: Table, window: Window, read: Callable[[bytes], Read]) -> Read | None:
    """Return what is recorded of exactly this window; None where nothing is, or nothing that can be read."""
    start_s, seconds = window
    rows = connection.execute(select(table).where(table.c.start_s == start_s, table.c.seconds == seconds))
    return next((values for _, values in readable(rows, read)), None)


def put_packed(connection: Connection, table: Table, window: Window, packed: bytes) -> None:
    """Record a window, in place of what was recorded of it."""
    start_s, seconds = window
    upsert(connection, table, [{"start_s": start_s, "seconds": seconds, "packed": packed}], update=("packed",))


def starts_within(table: Table, since_s: float, until_s: float) -> ColumnElement[bool]:
    """Return what holds of windows that start in [since, until)."""
    return (table.c.start_s >= since_s) & (table.c.start_s < until_s)


def spread(connection: Connection, table: Table, since_s: float, until_s: float, most: int) -> list[float]:
    """Return the starts of up to ``most`` windows that are spread evenly over [since, until)."""
    starts = connection.execute(select(table.c.start_s).where(
        table.c.start_s > since_s - LONGEST_S, table.c.start_s + table.c.seconds > since_s,
        table.c.start_s < until_s).distinct().order_by(table.c.start_s)).scalars().all()
    step = max(1, -(-len(starts) // most))
    return list(starts[::step])

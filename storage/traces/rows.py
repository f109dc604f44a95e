"""Histories that are no tables: parsed job by job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import IO, TypeVar

import numpy as np

from .trace import WORDS, Chunk, Column, Rejected, TraceError

ROWS = 50_000
"""In one chunk."""
LONGEST_LINE = 1 << 22

Row = Mapping[str, object]
"""Columns of the trace; None is unknown."""
Raw = TypeVar("Raw")


class SetAside(Exception):
    """The row is fine but no finished job; the message says why."""


def parsed(numbered: Iterable[tuple[int, Raw]], parse: Callable[[Raw], Row]) -> Iterator[Chunk]:
    """Parse (line, raw) pairs; ``parse`` raises ``ValueError`` to reject a row and ``SetAside`` to leave it out."""
    source = iter(numbered)
    while part := list(islice(source, ROWS)):
        good: list[tuple[int, Row]] = []
        rejected: list[Rejected] = []
        set_aside: Counter[str] = Counter()
        for line, raw in part:
            try:
                good.append((line, parse(raw)))
            except SetAside as reason:
                set_aside[str(reason)] += 1
            except ValueError as error:
                rejected.append(Rejected(line, str(error), str(raw)[:80]))
        yield _chunk(good, rejected, set_aside)


def _chunk(numbered: list[tuple[int, Row]], rejected: list[Rejected], set_aside: Counter[str]) -> Chunk:
    columns: dict[str, Column] = {}
    for column in {name for _, row in numbered for name in row} | {"id"}:
        values = [row.get(column) for _, row in numbered]
        columns[column] = values if column in ("id", *WORDS) else np.array(
            [np.nan if value is None else value for value in values], np.float64)
    return Chunk(np.array([line for line, _ in numbered], np.int64), columns, rejected, set_aside)


def lines(stream: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), 1):
        if len(line) == LONGEST_LINE:
            raise TraceError(f"line {number} is longer than {LONGEST_LINE >> 20} MiB")
        if line.strip():
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n")

"""Histories that are tables with a header: a format is only a list of its columns."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as arrow_csv

from ..time_bounds import LATEST_S
from .formats import HEAD_BYTES
from .trace import Chunk, Rejected, TraceError

BLOCK_BYTES = 1 << 22
"""Read at once; also the longest line that can be read."""
MOST_ODD = 200_000
"""Lines that are blank or have another number of columns, where they are more than the rows: a packed file of a few
kilobytes may hold gigabytes of them."""
UNKNOWN = {"", "NA", "N/A", "NaN", "nan", "None", "none", "null", "NULL", "Unknown"}

Parse = Callable[[str], float]
Values = dict[str, Any]
"""Parsed columns of a part of the file: float64 arrays and lists of text."""
Finish = Callable[[Values], dict[str, npt.NDArray[np.bool_]]]
"""Turns parsed columns into those of a trace, in place; returns the rows that are set aside, by reason."""


@dataclass(frozen=True, slots=True)
class Column:
    """Where a column of the trace stands in the table and how its cells are read."""

    header: str
    parse: Parse | None = None
    """From text to a number, ValueError when it is none; None for a column of words."""
    scale: float = 1.0
    required: bool = True
    """Whether it identifies the format: an optional column may be absent."""


def number(header: str, scale: float = 1.0, *, required: bool = True) -> Column:
    """Describe a column of numbers."""
    return Column(header, plain, scale, required)


def text(header: str, *, required: bool = True) -> Column:
    """Describe a column of words."""
    return Column(header, None, 1.0, required)


def clock(header: str, *, required: bool = True) -> Column:
    """Describe a column of dates (ISO, taken as UTC when they name no zone) or of seconds."""
    return Column(header, seconds_of, 1.0, required)


def plain(cell: str) -> float:
    """Return a plain number; ValueError for what is none, as Python's digit groups are nowhere else."""
    if "_" in cell:
        raise ValueError(f"no number: {cell}")
    return float(cell)


def seconds_of(cell: str) -> float:
    """Return the seconds of a date or of a plain number; ValueError for neither, or a year of no trace."""
    try:
        return plain(cell)
    except ValueError:
        moment = datetime.fromisoformat(cell)
        time_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if not 0 <= time_s <= LATEST_S:
            raise ValueError("no trace is of before 1970 or after 2100") from None
        return time_s


@dataclass(frozen=True)
class TableFormat:
    """A format with one header line and one job per line."""

    name: str
    columns: Mapping[str, Column]
    """Columns of the trace, or of ``finish``'s own, and where they stand."""
    finish: Finish = field(default=lambda values: {})
    delimiters: str = ",;\t|"
    quoted: bool = True
    ids_recur: bool = False

    def recognises(self, head: str) -> int:
        """Return how many columns this format needs when the header names them all, else 0."""
        header = _Header.find(head, self.delimiters)
        return len(self._required()) if header is not None and self._required() <= set(header.names) else 0

    def chunks(self, stream: IO[bytes]) -> Iterator[Chunk]:
        """Read the table part by part."""
        head = stream.read(HEAD_BYTES).decode("utf-8-sig", "replace")
        header = _Header.find(head, self.delimiters)
        if header is None or not self._required() <= set(header.names):
            raise TraceError(f"is no {self.name} table: its header needs {', '.join(sorted(self._required()))}")
        twice = next((name for name in sorted(self._named(header)) if header.names.count(name) > 1), None)
        if twice is not None:
            raise TraceError(f"has two columns of the name {twice}, and it is not known which is meant: rename one of "
                             f"them in line {header.line}")
        if not stream.read(1) and io.StringIO(head, None).read().count("\n") < header.line:
            return  # Arrow skips only lines that end
        stream.seek(0)
        odd = _OddLines(header, self.quoted)
        line = header.line + 1
        try:
            for batch in self._open(stream, header, odd):
                lines = _lines(line, batch.num_rows, odd.lines)
                line = int(lines[-1]) + 1 if len(lines) else line
                chunk = self._chunk(dict(zip(batch.schema.names, batch.columns, strict=True)), lines)
                odd.count_rows(batch.num_rows, len(chunk.lines) + len(chunk.rejected) + chunk.set_aside.total())
                yield chunk
                if odd.too_many:
                    raise TraceError(odd.why(line))
                yield from self._odd_chunks(odd)
                odd.lines = {number for number in odd.lines if number >= line}
        except pa.ArrowInvalid as error:
            if odd.too_many:
                raise TraceError(odd.why(line)) from error
            raise TraceError(f"cannot be read near line {line}: {_plain(error)}") from error
        yield from self._odd_chunks(odd)

    def _required(self) -> set[str]:
        return {column.header for column in self.columns.values() if column.required}

    def _named(self, header: _Header) -> set[str]:
        """Return the columns of the table that are read."""
        return {column.header for column in self.columns.values()} & set(header.names)

    def _open(self, stream: IO[bytes], header: _Header, odd: _OddLines) -> arrow_csv.CSVStreamingReader:
        wanted = self._named(header)
        return arrow_csv.open_csv(
            pa.PythonFile(_Utf8(stream), "r"),
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, skip_rows=header.line,
                                               column_names=header.names),
            # A quote that is never closed would swallow all lines behind it, so quotes are read line by line below.
            parse_options=arrow_csv.ParseOptions(delimiter=header.delimiter, quote_char=False, ignore_empty_lines=False,
                                                 invalid_row_handler=odd.keep),
            convert_options=arrow_csv.ConvertOptions(check_utf8=False, include_columns=sorted(wanted),
                                                     column_types=dict.fromkeys(wanted, pa.string())))

    def _odd_chunks(self, odd: _OddLines) -> Iterator[Chunk]:
        """Yield the lines that only Python's own reader understands, and those that nobody does."""
        if odd.rescued:
            names = odd.header.names
            columns = {name: pa.array([cells[index] for _, cells in odd.rescued], pa.string())
                       for index, name in enumerate(names)}
            yield self._chunk(columns, np.array([number for number, _ in odd.rescued], np.int64))
        if odd.rejected:
            yield Chunk(np.empty(0, np.int64), {"id": []}, odd.rejected)
        odd.rescued, odd.rejected = [], []

    def _chunk(self, batch: Mapping[str, object], lines: npt.NDArray[np.int64]) -> Chunk:
        cells = {name: _trimmed(column, unquote=self.quoted) for name, column in batch.items()}
        valid = ~np.logical_and.reduce([_empty(column) for column in cells.values()])
        if not valid.all():  # blank lines, which may be millions
            cells = {name: column.filter(pa.array(valid)) for name, column in cells.items()}
            lines, valid = lines[valid], valid[valid]
        rejected: list[Rejected] = []
        values: Values = {}
        for target, column in self.columns.items():
            if column.header not in cells:
                continue
            if column.parse is None:
                values[target] = cells[column.header]
                continue
            values[target], bad = _numbers(cells[column.header], column)
            for index in np.flatnonzero(valid & bad):
                cell = cells[column.header][int(index)].as_py()
                rejected.append(Rejected(int(lines[index]), f"{column.header} cannot be read", cell[:80]))
            valid &= ~bad
        set_aside: Counter[str] = Counter()
        for reason, rows in self.finish(values).items():
            set_aside[reason] += int(np.count_nonzero(valid & rows))
            valid &= ~rows
        columns = {target: column.filter(pa.array(valid)) if isinstance(column, pa.Array) else np.asarray(column)[valid]
                   for target, column in values.items() if not target.startswith("_")}
        return Chunk(lines[valid], columns, rejected, +set_aside)


def respelt(words: pa.Array | pa.ChunkedArray, spell: Callable[[str], str | None]) -> object:
    """Return a column of words, each distinct one respelt."""
    encoded = words.dictionary_encode()
    spelt = pa.array([spell(word) for word in encoded.dictionary.to_pylist()], pa.string())
    return spelt.take(encoded.indices)


@dataclass(frozen=True, slots=True)
class _Header:
    line: int
    names: list[str]
    delimiter: str

    @classmethod
    def find(cls, head: str, delimiters: str) -> _Header | None:
        """Return the first line that is no comment, split by the delimiter that cuts it most often."""
        # Only where Arrow ends lines: a form feed, or Unicode's line separator, ends none.
        for number, line in enumerate(io.StringIO(head, None), 1):
            names = line.lstrip("#").strip()
            delimiter = max(delimiters, key=names.count)
            if names and delimiter in names and not line.startswith("# "):
                return cls(number, [name.strip().strip('"') for name in names.split(delimiter)], delimiter)
        return None


class _Utf8(io.RawIOBase):
    """Reads a stream with a replacement mark for what is no UTF-8: Arrow tells of no odd line that has other bytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = b""

    def readable(self) -> bool:
        """Tell Arrow that there is something to read."""
        return True

    def read(self, size: int = io.DEFAULT_BUFFER_SIZE) -> bytes:
        """Return so many bytes, fewer at the end: a mark is longer than the byte that it stands for."""
        while len(self._rest) < size and (block := self._stream.read(size)):
            self._rest += self._decode(block).encode()
        if len(self._rest) < size:
            self._rest += self._decode(b"", final=True).encode()
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


@dataclass(slots=True)
class _OddLines:
    """Lines with another number of delimiters than the header has: a quote may explain it."""

    header: _Header
    quoted: bool
    lines: set[int] = field(default_factory=set)
    rescued: list[tuple[int, list[str]]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    rows: int = 0
    count: int = 0
    """Lines that are no rows."""

    @property
    def too_many(self) -> bool:
        """Tell whether this is no table for all that can be seen of it."""
        return self.count > max(MOST_ODD, self.rows)

    def count_rows(self, lines: int, rows: int) -> None:
        """Count the rows of a part of the table, and its blank lines."""
        self.rows += rows
        self.count += lines - rows

    def why(self, line: int) -> str:
        """Return why the table is not read to its end."""
        return (f"{self.count:,} lines near and before line {line} are blank or do not have its "
                f"{len(self.header.names)} columns, and only {self.rows:,} do: is this the right file?")

    def keep(self, row: arrow_csv.InvalidRow) -> str:
        """Note a line and tell the reader to go on."""
        self.lines.add(row.number)
        cells = self._cells(row.text) if self.quoted and '"' in row.text else []
        if len(cells) == len(self.header.names):
            self.rescued.append((row.number, cells))
        else:
            reason = f"does not have {row.expected_columns} columns"
            self.rejected.append(Rejected(row.number, reason, row.text[:80]))
            self.count += 1
        return "error" if self.too_many else "skip"

    def _cells(self, line: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=self.header.delimiter, strict=True))
        except csv.Error:
            return []


def _lines(first: int, rows: int, gaps: set[int]) -> npt.NDArray[np.int64]:
    """Return the line of each row when odd lines stand between them."""
    if not gaps:
        return np.arange(first, first + rows)
    lines = np.arange(first, first + rows + len(gaps))
    return lines[~np.isin(lines, list(gaps))][:rows]


def _trimmed(column: pa.Array, *, unquote: bool) -> pa.Array:
    """Return the cells without white space and quotes around them."""
    column = compute.utf8_trim_whitespace(column)
    if unquote and compute.any(compute.starts_with(column, '"')).as_py():
        inner = compute.replace_substring_regex(column, '^"(.*)"$', r"\1")
        column = compute.replace_substring(inner, '""', '"')
    return column


def _empty(column: object) -> npt.NDArray[np.bool_]:
    return np.asarray(compute.equal(column, "").fill_null(True).to_numpy(zero_copy_only=False), bool)


def _numbers(cells: pa.Array, column: Column) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the values of a column and where they cannot be read; unknown is NaN."""
    if column.parse in (plain, seconds_of):
        try:
            values = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
            if np.isfinite(values).all():
                return values * column.scale if column.scale != 1 else values, np.zeros(len(values), bool)
        except pa.ArrowInvalid:
            pass  # some cell is no plain number: read each distinct one
    encoded = cells.dictionary_encode()
    known = [_number(cell, column) for cell in encoded.dictionary.to_pylist()] + [np.nan]
    indexes = encoded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)
    values = np.array(known, np.float64)[indexes]
    return np.where(np.isinf(values), np.nan, values), np.isinf(values)


def _number(cell: str, column: Column) -> float:
    """Return the value of a cell, NaN when it says that it is unknown, infinity when it cannot be read."""
    assert column.parse is not None
    if cell in UNKNOWN:
        return np.nan
    try:
        return column.parse(cell) * column.scale
    except (ValueError, OverflowError):
        return np.inf


def _plain(error: pa.ArrowInvalid) -> str:
    if "straddling" in str(error):
        return f"a line is longer than {BLOCK_BYTES >> 20} MiB"
    return str(error).partition("\n")[0]

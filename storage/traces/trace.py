"""The one shape that every outside history is brought into: columns of jobs, and what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as arrow_csv

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Identifiers = npt.NDArray[np.int64 | np.str_]
Column = Sequence[object] | npt.NDArray[np.generic]
Element = TypeVar("Element", bound=np.generic)

TIMES = ("submit_s", "run_s", "limit_s", "start_s", "mem_bytes")
"""Columns of float64, NaN where unknown."""
COUNTS = ("gpus", "cpus", "nodes", "gpu_milli")
"""Columns of int64, -1 where unknown."""
WORDS = ("user", "partition", "name", "state", "gpu_model", "after")
"""Columns of codes into a vocabulary, -1 where unknown."""

EXAMPLES = 1000
"""So many rejected rows are kept one by one; all are counted."""


class TraceError(ValueError):
    """A history cannot be read at all; the message says what, where and what to do."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that was left out."""

    line: int
    """Line of the file, from 1; number of the element where the file is one JSON array."""
    reason: str
    value: str = ""
    """What stood there, shortened."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs as columns of equal length, ordered by (submit, id).

    Times are seconds from an origin of the trace's own (the epoch where the file has dates), memory is bytes over all
    nodes. A column that the file does not have is NaN or -1 throughout and takes no memory.
    """

    id: Identifiers
    """int64 where every id is a plain number, else fixed-width text."""
    submit_s: Floats
    run_s: Floats
    """NaN throughout for elastic jobs, whose run time depends on what they are given."""
    gpus: Ints
    """GPUs over all nodes; 0 for a job without."""
    limit_s: Floats
    start_s: Floats
    """When it really started, for histories that tell."""
    mem_bytes: Floats
    cpus: Ints
    nodes: Ints
    gpu_milli: Ints
    """Thousandths of each GPU that are requested; below 1000 the GPU is shared."""
    user: Codes
    partition: Codes
    name: Codes
    state: Codes
    gpu_model: Codes
    after: Codes
    """Id of the job that must have ended first."""
    line: Codes
    """Where the job stands in its file, as in ``Rejected``."""
    vocabularies: Mapping[str, tuple[str, ...]]
    """For each column of words, what its codes mean."""
    rejected: tuple[Rejected, ...] = ()
    """The first thousand rows that could not be read, by line."""
    rejections: Mapping[str, int] = field(default_factory=dict)
    """Rows that could not be read, counted by reason."""
    set_aside: Mapping[str, int] = field(default_factory=dict)
    """Rows that could be read but are no finished job (a job step, a pending job), counted by reason."""

    def __len__(self) -> int:
        return len(self.submit_s)

    def words(self, column: str) -> list[str | None]:
        """Return a column of words spelt out; None where unknown."""
        vocabulary = (*self.vocabularies[column], None)
        return [vocabulary[code] for code in getattr(self, column)]

    def select(self, mask: npt.NDArray[np.generic]) -> Trace:
        """Return the jobs under a boolean mask or at these indexes, in their order."""
        columns = {column: getattr(self, column)[mask] for column in ("id", "line", *TIMES, *COUNTS, *WORDS)}
        return Trace(**columns, vocabularies=self.vocabularies, rejected=self.rejected, rejections=self.rejections,
                     set_aside=self.set_aside)


@dataclass(slots=True)
class Chunk:
    """Some rows of a file as an importer hands them over; ``Builder`` checks them."""

    lines: Ints
    columns: Mapping[str, Column]
    """Arrays or lists of equal length: ``id`` and WORDS hold text or None, the others numbers or NaN."""
    rejected: list[Rejected] = field(default_factory=list)
    set_aside: Counter[str] = field(default_factory=Counter)


Check = tuple[str, str, Callable[[Floats], npt.NDArray[np.bool_]]]
_FAR = 1e13  # seconds of one job beyond this are a unit mistaken (milliseconds are not: 1e12 is 2001 in them)
_MOST_BYTES = 1e18  # an exabyte
_CHECKS: tuple[Check, ...] = (
    ("submit_s", "is missing", np.isnan),
    ("submit_s", "is negative", lambda values: values < 0),
    ("submit_s", "is out of range", lambda values: np.abs(values) > _FAR),
    ("run_s", "is missing", np.isnan),
    ("run_s", "is not positive", lambda values: values <= 0),
    ("run_s", "is out of range", lambda values: values > _FAR),
    ("gpus", "is missing", np.isnan),
    *((column, "is negative", lambda values: values < 0) for column in COUNTS),
    *((column, "is not a whole number", lambda values: values % 1 > 0) for column in COUNTS),
    *((column, "is out of range", lambda values: values > 1e9) for column in COUNTS),
    ("limit_s", "is not positive", lambda values: values <= 0),
    ("limit_s", "is out of range", lambda values: values > _FAR),
    ("start_s", "is out of range", lambda values: np.abs(values) > _FAR),
    ("mem_bytes", "is negative", lambda values: values < 0),
    ("mem_bytes", "is out of range", lambda values: values > _MOST_BYTES),
)
_NATURAL = r"(?s)^(?P<head>\D*)(?P<first>\d{0,18})(?P<middle>\D*)(?P<second>\d{0,18})(?P<tail>.*)$"
ID_LENGTH, WORD_LENGTH = 64, 256


class Builder:
    """Gathers chunks, checks them, and builds the trace."""

    def __init__(self, *, ids_recur: bool = False) -> None:
        """Accept one id under several submit times when ``ids_recur`` (requeues, a reset database)."""
        self._ids_recur = ids_recur
        self._chunks: list[dict[str, npt.NDArray[np.generic]]] = []
        self._lengths: list[int] = []
        self._vocabularies: dict[str, dict[str, int]] = {column: {} for column in WORDS}
        self._rejected: list[Rejected] = []
        self._rejections: Counter[str] = Counter()
        self._set_aside: Counter[str] = Counter()

    def add(self, chunk: Chunk) -> None:
        """Check the rows of a chunk and keep the good ones."""
        for rejected in chunk.rejected:
            self._reject(rejected)
        self._set_aside.update(chunk.set_aside)
        valid = np.ones(len(chunk.lines), bool)
        for column, reason, wrong in _CHECKS:
            if column in chunk.columns:
                values = np.asarray(chunk.columns[column], np.float64)
                self._sieve(valid, wrong(values), chunk.lines, f"{column} {reason}", values)
        ids = _identifiers(chunk.columns["id"])
        if ids.dtype.kind == "U":
            self._sieve(valid, ids == "", chunk.lines, "id is missing", ids)
            lengths = np.char.str_len(ids.astype(np.str_, copy=False))
            self._sieve(valid, lengths > ID_LENGTH, chunk.lines, f"id is longer than {ID_LENGTH}", ids)
        for column in _among(WORDS, chunk):
            lengths = compute.utf8_length(pa.array(chunk.columns[column], pa.string())).fill_null(0)
            self._sieve(valid, lengths.to_numpy() > WORD_LENGTH, chunk.lines, f"{column} is longer than {WORD_LENGTH}",
                        chunk.columns[column])
        self._keep(chunk, ids, valid)

    def build(self) -> Trace:
        """Return the trace; a repeated submission is rejected, its first row stays."""
        lines = self._join("lines", np.int64)
        ids = self._joined_ids()
        times = {column: self._join(column, np.float64) for column in TIMES}
        submit_s = times["submit_s"]
        rank = ids.astype(np.int64, copy=False) if ids.dtype.kind == "i" else _natural_rank(ids)
        valid = np.ones(len(lines), bool)
        valid[_repeats(rank, submit_s if self._ids_recur else np.zeros(len(rank)))] = False
        for index in np.flatnonzero(~valid):
            self._reject(Rejected(int(lines[index]), "the job appears twice", str(ids[index])))
        order = _order(submit_s, rank, valid)
        columns: dict[str, npt.NDArray[Any]] = {column: _ordered(values, order) for column, values in times.items()}
        columns |= {column: _ordered(self._join(column, np.int64), order) for column in COUNTS}
        columns |= {column: _ordered(self._join(column, np.int32), order) for column in WORDS}
        self._rejected.sort(key=lambda rejected: rejected.line)
        self._chunks.clear()
        return Trace(id=_ordered(ids, order), line=_ordered(lines.astype(np.int32), order), **columns,
                     vocabularies={column: tuple(known) for column, known in self._vocabularies.items()},
                     rejected=tuple(self._rejected), rejections=dict(self._rejections),
                     set_aside=dict(self._set_aside))

    def _reject(self, rejected: Rejected) -> None:
        self._rejections[rejected.reason] += 1
        if len(self._rejected) < EXAMPLES:
            self._rejected.append(rejected)

    def _sieve(self, valid: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_], lines: Ints, reason: str,
               values: Column) -> None:
        """Reject the rows that are wrong and not rejected yet."""
        if not np.any(wrong):
            return
        for index in np.flatnonzero(valid & wrong):
            self._reject(Rejected(int(lines[index]), reason, str(values[int(index)])[:80]))
        valid &= ~wrong

    def _keep(self, chunk: Chunk, ids: npt.NDArray[np.generic], valid: npt.NDArray[np.bool_]) -> None:
        columns: dict[str, npt.NDArray[np.generic]] = {"lines": chunk.lines[valid], "id": ids[valid]}
        for column in _among((*TIMES, *COUNTS), chunk):
            values = np.asarray(chunk.columns[column], np.float64)[valid]
            columns[column] = np.where(np.isnan(values), -1, values).astype(np.int64) if column in COUNTS else values
        for column in _among(WORDS, chunk):
            columns[column] = self._encode(column, chunk.columns[column])[valid]
        self._chunks.append(columns)
        self._lengths.append(len(columns["lines"]))

    def _encode(self, column: str, texts: object) -> Codes:
        encoded = pa.array(texts, pa.string()).dictionary_encode()
        known = self._vocabularies[column]
        codes = np.array([known.setdefault(word, len(known)) if word else -1
                          for word in encoded.dictionary.to_pylist()] + [-1], np.int32)
        indexes = encoded.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)
        return np.asarray(codes[indexes], np.int32)

    def _join(self, column: str, kind: type[Element]) -> npt.NDArray[Element]:
        """Concatenate a column over the chunks; one unknown value stands for all when no chunk has it."""
        missing = np.nan if column in TIMES else -1
        if not any(column in chunk for chunk in self._chunks):
            return np.broadcast_to(np.array(missing, kind), sum(self._lengths))
        parts = [chunk.pop(column) if column in chunk else np.full(length, missing)
                 for chunk, length in zip(self._chunks, self._lengths, strict=True)]
        return np.concatenate(parts).astype(kind, copy=False)

    def _joined_ids(self) -> Identifiers:
        """Concatenate the ids over the chunks, as text where one of them is no plain number."""
        parts = [chunk.pop("id") for chunk in self._chunks]
        if not parts:
            return np.zeros(0, np.int64)
        if any(part.dtype.kind == "U" for part in parts):
            # numpy would make 21 characters of every number
            return np.concatenate([np.array([str(number) for number in part], np.str_)
                                   if part.dtype.kind == "i" else part.astype(np.str_, copy=False) for part in parts])
        return np.concatenate(parts).astype(np.int64, copy=False)


def _among(names: tuple[str, ...], chunk: Chunk) -> list[str]:
    return [name for name in names if name in chunk.columns]


def _order(submit_s: Floats, rank: Ints, valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp] | None:
    """Return the rows by (submit, id); None where they stand like that already, so that nothing need be copied."""
    later, same = submit_s[1:] > submit_s[:-1], submit_s[1:] == submit_s[:-1]
    if valid.all() and (later | (same & (rank[1:] > rank[:-1]))).all():
        return None
    order = np.flatnonzero(valid)
    return np.asarray(order[np.lexsort((rank[order], submit_s[order]))])


def _ordered(values: npt.NDArray[Element], order: npt.NDArray[np.intp] | None) -> npt.NDArray[Element]:
    """Return values in an order; one unknown value that stands for all keeps doing so."""
    if order is None:
        return values
    return np.broadcast_to(values[0], len(order)) if values.size and values.strides == (0,) else values[order]


def write_csv(trace: Trace, path: str | Path) -> None:
    """Write a trace as plain CSV: ``job,submit_s,run_s,gpus,limit_s,user,…``, nothing where it is unknown.

    Columns that plain CSV does not name are added at the end when the trace knows them.
    """
    columns: dict[str, object] = {"job": pa.array(trace.id.tolist())}
    named = ("submit_s", "run_s", "gpus", "limit_s", "user", "partition", "cpus", "mem_bytes", "nodes")
    for column in (*named, "start_s", "gpu_milli", "name", "state", "gpu_model", "after"):
        values = _writable(trace, column)
        if column in named or values.null_count < len(values):
            columns[column] = values
    arrow_csv.write_csv(pa.table(columns), str(path))


def _writable(trace: Trace, column: str) -> pa.Array:
    values = getattr(trace, column)
    if column in WORDS:
        return pa.array([word and " ".join(word.split()) for word in trace.words(column)], pa.string())
    if column in COUNTS:
        return pa.array(values, mask=values < 0)
    return pa.array(values, mask=np.isnan(values))


def _identifiers(values: object) -> Identifiers:
    """Return ids as int64 when that loses nothing (``007`` and 2**70 stay text)."""
    texts = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    try:
        numbers = texts.cast(pa.int64())
        if not texts.null_count and numbers.cast(pa.string()).equals(texts):
            return np.asarray(numbers.to_numpy())
    except pa.ArrowInvalid:
        pass  # some id is no number
    return np.array([(identifier or "")[:ID_LENGTH + 1] for identifier in texts.to_pylist()], str)


def _natural_rank(ids: npt.NDArray[np.generic]) -> Ints:
    """Return ranks in which ``9_2`` stands before ``9_10`` and ``10``; equal ids have equal ranks."""
    parts = compute.extract_regex(pa.array(ids, pa.string()), _NATURAL)
    columns = {name: compute.struct_field(parts, name) for name in ("head", "middle", "tail")}
    columns |= {name: compute.replace_substring_regex(compute.struct_field(parts, name), "^$", "-1").cast(pa.int64())
                for name in ("first", "second")}
    keys = ("head", "first", "middle", "second", "tail", "id")
    table = pa.table({**columns, "id": pa.array(ids, pa.string())})
    order = compute.sort_indices(table, [(key, "ascending") for key in keys]).to_numpy()
    rank = np.empty(len(ids), np.int64)
    rank[order] = np.cumsum(np.concatenate(([False], ids[order][1:] != ids[order][:-1])))[:len(ids)]
    return rank


def _repeats(rank: Ints, submit_s: Floats) -> Ints:
    """Return where a submission is repeated, in file order after its first row."""
    if (rank[1:] > rank[:-1]).all():  # numbered in order, as most are: no need to sort
        return np.empty(0, np.int64)
    order = np.lexsort((np.arange(len(rank)), submit_s, rank))
    same = (rank[order][1:] == rank[order][:-1]) & (submit_s[order][1:] == submit_s[order][:-1])
    return np.sort(order[1:][same])

"""A file of accounting, as sacct printed it: JSON, or a table with a heading.

In a table a job's name may hold the mark between fields and line ends, and so look like rows of other users. It is
taken only where nobody could know the mark when the jobs were named, or where there are no such columns.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ...storage.records import Job
from ..text import quoted
from .fields import BadRecord
from .parse_json import Parsed, load, parse_accounted, parse_list
from .parse_text import SACCT_FIELDS, SOFTWARE_FIELDS, parse_columns, print_time

ROWS = 1000
"""In one part."""
LARGEST_JSON_BYTES = 2 << 30
"""It is read at once; more is requested in several files."""
LONGEST_LINE = 1 << 20
LEAST_DIGITS = 9
"""Of seconds since the epoch: fewer are no time of any Slurm."""
SECRET = 8
"""Characters of a mark from which on nobody has guessed it."""
COMMAND = ("TZ=UTC sacct --allusers --duplicates --allocations --parsable2 --delimiter=\"$(uuidgen)\" "
           f"--starttime=YYYY-MM-DD --format={','.join(SACCT_FIELDS + SOFTWARE_FIELDS)}")
"""Prints a file that can be taken as it is; ``sacct --json`` is another."""
_NEEDED = ("JobID", "State", "Submit", "Start", "End")
_TIMES = ("Submit", "Eligible", "Start", "End")
_FREE = ("JobName", "Comment", "Container", "AdminComment", "SystemComment", "WorkDir", "SubmitLine", "Extra", "WCKey")
_COLUMNS = sorted({*SACCT_FIELDS, *_FREE, "Cluster", "Timelimit", "Elapsed", "ElapsedRaw", "CPUTimeRAW", "AllocCPUS",
                   "ReqMem", "ReqCPUS", "AllocNodes", "UID", "Group", "Reservation", "Flags", "Suspended"},
                  key=len, reverse=True)


class Untrusted(BadRecord):
    """The names of jobs may have forged rows of this table."""


@dataclass(frozen=True, slots=True)
class DumpChunk:
    """Some rows of a file."""

    parsed: Parsed[Job]
    read_bytes: int
    """Of the file, up to here."""


def read_dump(path: Path, *, trusted: bool = False) -> Iterator[DumpChunk]:
    """Yield the runs of a file, piece by piece; ``trusted``: no name holds the mark.

    Raises ``BadRecord`` when it is nothing that sacct prints, ``OSError`` when it cannot be read.
    """
    with path.open("rb") as file:
        begins = len(codecs.BOM_UTF8) if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else 0
        file.seek(begins)
        start = file.read(64).lstrip()
        file.seek(begins)
        if start.startswith(b"{"):
            yield from _json(file, path.stat().st_size)
        else:
            yield from _table(file, trusted)


def _json(file: IO[bytes], size: int) -> Iterator[DumpChunk]:
    if size > LARGEST_JSON_BYTES:
        raise BadRecord(f"{size:,} bytes of JSON are too much at once: ask sacct for some months at a time")
    parsed = parse_list(load(file.read().decode("utf-8", "replace")), "jobs", parse_accounted)
    for first in range(0, max(1, len(parsed.records)), ROWS):
        yield DumpChunk(Parsed(parsed.records[first:first + ROWS], () if first else parsed.skipped), size)


def _table(file: IO[bytes], trusted: bool) -> Iterator[DumpChunk]:
    names, mark = _heading(_line(file).rstrip("\r\n"))
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise BadRecord(f"its heading lacks {', '.join(missing)}; print it with: {COMMAND}")
    free = [name for name in names if name in _FREE]
    if free and len(mark) < SECRET and not trusted:
        raise Untrusted(f"{free[0]} may hold {mark!r} and line ends, and so rows that Slurm never wrote; print it "
                        f"with: {COMMAND}")
    jobs: list[Job] = []
    skipped: list[str] = []
    for number, row in _rows(file, mark, len(names) - 1):
        try:
            job = _job(names, row.split(mark))
            jobs += [job] if job else []
        except ValueError as error:
            skipped.append(f"line {number}: {error}"[:200])
        if len(jobs) + len(skipped) >= ROWS:
            yield DumpChunk(Parsed(tuple(jobs), tuple(skipped)), file.tell())
            jobs, skipped = [], []
    yield DumpChunk(Parsed(tuple(jobs), tuple(skipped)), file.tell())


def _heading(line: str) -> tuple[list[str], str]:
    """Return the columns and what stands between them: whatever follows the first known name up to the next."""
    first = next((name for name in _COLUMNS if line.startswith(name)), "")
    rest = line[len(first):]
    gaps = [gap for name in _COLUMNS if (gap := rest.find(name)) > 0]
    if not first or not gaps:
        raise BadRecord(f"is nothing that sacct prints: it begins with {ascii(line[:60])}; print it with: {COMMAND}")
    mark = rest[:min(gaps)]
    return line.removesuffix(mark).split(mark), mark


def _rows(file: IO[bytes], mark: str, marks: int) -> Iterator[tuple[int, str]]:
    """Yield each row with the number of its first line; a row ends with the line that brings its last mark."""
    row: list[str] = []
    marked, size, first, number = 0, 0, 2, 1
    while line := _line(file):
        number += 1
        if not row and not line.strip():
            continue
        first = first if row else number
        row.append(line)
        marked, size = marked + line.count(mark), size + len(line)  # of the lines: a name may have thousands
        if marked >= marks or size > LONGEST_LINE:
            yield first, "".join(row).rstrip("\r\n")
            row, marked, size = [], 0, 0
    if row:
        yield first, "".join(row)


def _line(file: IO[bytes]) -> str:
    return file.readline(LONGEST_LINE).decode("utf-8", "replace")


def _job(names: list[str], cells: list[str]) -> Job | None:
    """Return the job of a row; None for a step of one."""
    surplus = len(cells) - len(names)
    if surplus == 1 and not cells[-1]:  # --parsable ends each row with a mark
        cells, surplus = cells[:-1], 0
    if surplus > 0 and "JobName" in names:
        name = names.index("JobName")
        cells = [*cells[:name], "|".join(cells[name:name + surplus + 1]), *cells[name + surplus + 1:]]
    elif surplus:
        raise BadRecord(f"{len(cells)} fields, not {len(names)}")
    row = dict(zip(names, cells, strict=True))
    if "." in row["JobID"]:
        return None
    return parse_columns(row | {name: _printed(row[name]) for name in _TIMES if name in row})


def _printed(cell: str) -> str:
    """Return a time as sacct prints it, where it was printed as seconds (``SLURM_TIME_FORMAT=%s``)."""
    if not cell.isdecimal() or len(cell) < LEAST_DIGITS:
        return cell
    try:
        return print_time(float(cell))
    except (OverflowError, OSError) as error:  # beyond what the system counts; ValueError beyond the year 9999
        raise BadRecord(f"{quoted(cell)} is no time") from error

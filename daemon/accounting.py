"""The past of a cluster from its accounts: day by day from sacct, or piece by piece from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..exporters.slurm.dump import read_dump
from ..exporters.slurm.fields import BadRecord
from ..exporters.slurm.parse_json import Parsed
from ..exporters.slurm.parse_text import print_time
from ..exporters.slurm.resized_runs import ResizedRuns
from ..storage.imports import Importer
from ..storage.records import Job

DAY_S = 86400.0
SETTLED_S = DAY_S
"""A day that ended longer ago is read once: its ends have reached the accounts."""
WHOLE = -1.0
"""The part that says that all of a file is in."""
EXAMPLES = 3

ReadRuns = Callable[[float, float], Parsed[Job]]
"""Returns the runs that touch a window."""


@dataclass(frozen=True, slots=True)
class HistoryChunk:
    """A part of the past of a cluster, as its accounts tell it."""

    number: float
    runs: tuple[Job, ...]
    done: float
    """Days, or bytes of the file, with this part."""
    total: float
    skipped: tuple[str, ...] = ()
    complete: bool = True
    """Whether it need not be read again."""


@dataclass(slots=True)
class Brought:
    """What an import has brought in so far."""

    done: float = 0
    total: float = 0
    runs: int = 0
    jobs: int = 0
    """The number of these runs that were not known before."""
    skipped: int = 0
    examples: list[str] = field(default_factory=list)


def from_sacct(read_runs: ReadRuns, since_s: float, now_s: float, known: Collection[float]) -> Iterator[HistoryChunk]:
    """Yield day by day (UTC) the runs that ended in it, the newest day first, without the days that are ``known``."""
    last, first = now_s // DAY_S, since_s // DAY_S
    total = last - first + 1
    for place in range(int(total)):
        day_s = (last - place) * DAY_S
        if day_s in known:
            yield HistoryChunk(day_s, (), place + 1, total, complete=False)
            continue
        parsed = read_runs(day_s, day_s + DAY_S)
        # A run touches every day that it spans; it belongs to the one in which it ended.
        runs = _whole([run for run in _ended(parsed.records) if day_s <= (run.end_s or 0.0) < day_s + DAY_S],
                      parsed.records, read_runs)
        yield HistoryChunk(day_s, runs, place + 1, total, parsed.skipped, day_s + DAY_S + SETTLED_S <= now_s)


def from_file(path: Path, known: Collection[float], now_s: float, *, trusted: bool = False) -> Iterator[HistoryChunk]:
    """Yield the runs of a file of accounting, without the pieces that are ``known`` and runs of days to come."""
    size = path.stat().st_size
    if WHOLE in known:
        yield HistoryChunk(WHOLE, (), size, size, complete=False)
        return
    resized = ResizedRuns()
    for number, piece in enumerate(read_dump(path, trusted=trusted)):
        ended = list(_ended(resized.joined(piece.parsed.records)))
        runs = () if number in known else tuple(run for run in ended if _latest(run) <= now_s + DAY_S)
        to_come = tuple(f"{run.job_id}: it ended, or began, at {print_time(_latest(run))}, more than a day after now"
                        for run in ended if _latest(run) > now_s + DAY_S)
        yield HistoryChunk(number, runs, piece.read_bytes, size, piece.parsed.skipped + to_come, number not in known)
    yield HistoryChunk(WHOLE, (), size, size)


def name_of(path: Path) -> str:
    """Return how a file is called in the database: by what is in it, wherever it lies; BadRecord for a pipe."""
    if path.exists() and not path.is_file():
        raise BadRecord("is no plain file, and is read twice: save what it gives as a file, and import that")
    with path.open("rb") as file:
        return f"file {hashlib.file_digest(file, 'sha256').hexdigest()}"


def import_chunks(importer: Importer, source: str, parts: Iterable[HistoryChunk]) -> Iterator[Brought]:
    """Write parts into the history, and yield after each what has come in."""
    brought = Brought()
    for part in parts:
        if part.runs or part.complete:
            brought.jobs += importer.add(source, part.number, part.runs, complete=part.complete)
        brought.done, brought.total = part.done, part.total
        brought.runs += len(part.runs)
        brought.skipped += len(part.skipped)
        brought.examples += part.skipped[:EXAMPLES - len(brought.examples)]
        yield brought


def _whole(runs: Iterable[Job], records: Iterable[Job], read_runs: ReadRuns) -> tuple[Job, ...]:
    """Return runs that ended, joined with their records before a change of size, which may be of earlier days."""
    resized, runs = ResizedRuns(), tuple(runs)
    resized.joined(records)
    for start_s in {run.start_s for run in runs if run.start_s is not None and resized.lacks(run)}:
        resized.joined(read_runs(start_s, start_s + 1.0).records)
    return resized.joined(runs)


def _latest(run: Job) -> float:
    return max(time_s for time_s in (run.submit_s, run.start_s, run.end_s) if time_s is not None)


def _ended(runs: Iterable[Job]) -> Iterator[Job]:
    return (run for run in runs if run.state.finished and run.end_s is not None)

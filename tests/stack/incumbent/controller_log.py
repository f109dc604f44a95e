"""What a controller writes down of its decisions: who started when and where, and what each backfill planned."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

LOGGED = ("SlurmctldDebug=debug", "DebugFlags=Backfill", "LogTimeFormat=iso8601_ms")
"""Lines of slurm.conf with which it does."""
_LINE = re.compile(r"\[([\d:T.-]+)\] (.*)")
_SUBMITTED = re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+)")
_STARTED = re.compile(r"(?:sched: Allocate JobId=(\d+) NodeList=|_start_job: Started JobId=(\d+) in \S+ on )(\S+)")
_ENDED = re.compile(r"_job_complete: JobId=(\d+) done")
_PREEMPTED = re.compile(r"preempted JobId=(\d+) has been (?:requeued|killed) to reclaim resources for JobId=(\d+)")
_TESTED = re.compile(r"BACKFILL: test for JobId=(\d+) Prio=(\d+)")
_PLANNED = re.compile(r"_dump_job_sched: JobId=(\d+) to start at (\S+), end at (\S+) on nodes (\S+)")
_ROUND, _ROUND_OVER, _PASS = "_attempt_backfill: beginning", "completed testing", "Running job scheduler"
SUBMITTED, STARTED, ENDED, PREEMPTED = range(4)


@dataclass(frozen=True)
class LoggedEvent:
    """Something that befell a job."""

    at_s: float
    kind: int
    job: int
    nodes: tuple[int, ...] = ()
    by: int = 0
    """For whom a job was preempted."""


@dataclass
class BackfillRound:
    """One round of the backfill: jobs and priorities in its order, what it started, what it planned."""

    at_s: float
    tested: dict[int, float] = field(default_factory=dict)
    started: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Nodes by job."""
    planned: dict[int, tuple[float, float, tuple[int, ...]]] = field(default_factory=dict)
    """Begin, end and nodes by job."""


@dataclass(frozen=True)
class ControllerRecord:
    """All that a log tells."""

    events: tuple[LoggedEvent, ...]
    rounds: tuple[BackfillRound, ...]
    looks_s: tuple[float, ...]
    """When either scheduler began to look."""
    passes_s: tuple[float, ...]
    """When the main scheduler did."""

    def pass_period_s(self) -> float:
        """Return how long the controller's background loop takes from one look of the main scheduler to the next.

        It sleeps for a second; what is sooner was asked for by others, what is later had nothing to do.
        """
        return _period(self.passes_s, 1.0)

    def round_period_s(self, interval_s: float) -> float:
        """Return how long it really is from one round of the backfill to the next, as long as there is work for it."""
        return _period([one.at_s for one in self.rounds], interval_s)

    def delays_s(self, jobs: set[int]) -> list[float]:
        """Return for each end of these jobs how long it took until a scheduler looked."""
        return [self._look_after(event.at_s) - event.at_s for event in self.events
                if event.kind == ENDED and event.job in jobs]

    def first(self, kind: int) -> dict[int, float]:
        """Return by job when something first befell it."""
        return {event.job: event.at_s for event in reversed(self.events) if event.kind == kind}

    def seen_s(self) -> dict[int, float]:
        """Return by job when a scheduler first looked after its submission."""
        return {event.job: self._look_after(event.at_s) for event in self.events if event.kind == SUBMITTED}

    def _look_after(self, at_s: float) -> float:
        """Return when a scheduler looked next; at the end of a log, the moment itself."""
        place = bisect_right(self.looks_s, at_s)
        return self.looks_s[place] if place < len(self.looks_s) else at_s


def _period(times: Sequence[float], least: float) -> float:
    """Return the mean gap among those that are a little longer than the least; that itself where there is none."""
    gaps = [later - earlier for earlier, later in pairwise(times) if 0.97 * least <= later - earlier < 1.2 * least]
    return sum(gaps) / len(gaps) if gaps else least


def read(path: Path) -> ControllerRecord:
    """Read a controller's log."""
    events, rounds, looks, passes = list[LoggedEvent](), list[BackfillRound](), list[float](), list[float]()
    current: BackfillRound | None = None
    for at_s, words in _lines(path):
        if words.endswith(_ROUND) or _PASS in words:
            looks.append(at_s)
        if _PASS in words:
            passes.append(at_s)
        events.extend(_events(at_s, words))
        if words.endswith(_ROUND):
            current = BackfillRound(at_s)
        elif current is not None:
            _note(current, words)
            if _ROUND_OVER in words:
                rounds.append(current)
                current = None
    return ControllerRecord(tuple(events), tuple(rounds), tuple(looks), tuple(passes))


def _lines(path: Path) -> Iterator[tuple[float, str]]:
    with path.open(errors="replace") as log:
        for line in log:
            match = _LINE.match(line)
            if match:
                yield datetime.fromisoformat(match[1]).timestamp(), match[2].strip()


def _events(at_s: float, words: str) -> Iterator[LoggedEvent]:
    if match := _SUBMITTED.search(words):
        yield LoggedEvent(at_s, SUBMITTED, int(match[1]))
    elif match := _STARTED.search(words):
        yield LoggedEvent(at_s, STARTED, int(match[1] or match[2]), rows(match[3]))
    elif match := _PREEMPTED.search(words):
        yield LoggedEvent(at_s, PREEMPTED, int(match[1]), by=int(match[2]))
    elif match := _ENDED.search(words):
        yield LoggedEvent(at_s, ENDED, int(match[1]))


def _note(found: BackfillRound, words: str) -> None:
    if match := _TESTED.search(words):
        found.tested[int(match[1])] = float(match[2])
    elif match := _PLANNED.search(words):
        begin, end = (datetime.fromisoformat(text).timestamp() for text in (match[2], match[3]))
        found.planned[int(match[1])] = begin, end, rows(match[4])
    elif match := _STARTED.search(words):
        found.started[int(match[1] or match[2])] = rows(match[3])


def rows(names: str) -> tuple[int, ...]:
    """Return the numbers of nodes named as ``n0`` or ``n[0-1,3]``."""
    found = list[int]()
    for part in names.removeprefix("n").strip("[]").split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)

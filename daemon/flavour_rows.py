"""What flavours there are, how often each was requested, and which jobs are of none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..storage.flavours import FlavourCount
from ..storage.records import Job, JobState, Node
from .flavours import NONE, FlavourBook, FlavourKey, impossible

NEARLY_ALL = 0.95
"""Share of a size's jobs that keep within the limit that is shown for it."""


@dataclass(frozen=True, slots=True)
class FlavourRow:
    """A flavour in one partition; the one called '' are jobs of none."""

    flavour: str
    partition: str
    """'' for one that every partition may have."""
    gpu_model: str
    gpus: int
    limit_s: float | None
    """None where there is none; of a size, the one that 95 % of its recorded jobs requested at most."""
    configured: bool
    jobs: int
    """Recorded since the moment in question."""
    pending: int
    running: int
    fault: str = ""
    """What is wrong with it, and what to do."""


def rows(book: FlavourBook, nodes: Sequence[Node], jobs: Sequence[Job], counts: Iterable[FlavourCount]) \
        -> tuple[FlavourRow, ...]:
    """Return the configured flavours, smallest first, else the sizes that occur, and last the jobs of none."""
    counts, wrong = list(counts), impossible(book.configured, nodes)
    if not book.configured:
        return _sizes(jobs, counts)
    recorded, now = _counted(counts), Counter[tuple[str, JobState]]()
    for job in jobs:
        now[job.flavour or NONE, job.state] += job.tasks
    rows = [FlavourRow(flavour.name, flavour.partition, flavour.gpu_model, flavour.gpus, flavour.limit, True,
                       recorded[flavour.name], now[flavour.name, JobState.PENDING],
                       now[flavour.name, JobState.RUNNING], wrong.get(flavour.name, ""))
            for flavour in book.configured]
    none = [job for job in jobs if job.request.gpus and not job.flavour and not job.state.finished]
    if none or recorded[NONE]:
        why = book.why_none(FlavourKey.of(none[0])) if none else _why(book, counts)
        rows.append(FlavourRow(NONE, "", "", 0, None, False, recorded[NONE], sum(
            job.tasks for job in none if job.state is JobState.PENDING), sum(
            job.state is JobState.RUNNING for job in none), why))
    return tuple(rows)


def _why(book: FlavourBook, counts: Sequence[FlavourCount]) -> str:
    """Return why recorded jobs have no flavour; '' where they would have one now."""
    without = (count for count in counts if count.flavour == NONE)
    return next((book.why_none(FlavourKey(count.partition, count.gpus, count.limit_s)) for count in without), "")


def _counted(counts: Iterable[FlavourCount]) -> Counter[str]:
    jobs_by_flavour: Counter[str] = Counter()
    for count in counts:
        jobs_by_flavour[count.flavour] += count.jobs
    return jobs_by_flavour


def _sizes(jobs: Sequence[Job], counts: Sequence[FlavourCount]) -> tuple[FlavourRow, ...]:
    """Return the sizes that occur by partition, each with the limit that nearly all of its jobs keep within."""
    now = Counter[tuple[str, str, JobState]]()
    for job in jobs:
        if job.flavour:
            now[job.partition, job.flavour, job.state] += job.tasks
    limits: dict[tuple[str, str], list[FlavourCount]] = {}
    for count in counts:
        limits.setdefault((count.partition, count.flavour), []).append(count)
    places = {place for place in limits if place[1]} | {(partition, flavour) for partition, flavour, _ in now}
    rows = [FlavourRow(flavour, partition, "", _gpus(flavour), _usual(limits.get((partition, flavour), [])), False,
                       sum(count.jobs for count in limits.get((partition, flavour), [])),
                       now[partition, flavour, JobState.PENDING], now[partition, flavour, JobState.RUNNING])
            for partition, flavour in places]
    return tuple(sorted(rows, key=lambda row: (row.partition, row.gpus)))


def _gpus(flavour: str) -> int:
    size = flavour.partition("-")[0]
    return int(size) if size.isdecimal() else 0


def _usual(counts: Sequence[FlavourCount]) -> float | None:
    """Return the limit that nearly all of these jobs keep within; None where they have none."""
    limited = sorted((count.limit_s, count.jobs) for count in counts if count.limit_s is not None)
    total, seen = sum(jobs for _, jobs in limited), 0
    for limit_s, jobs in limited:
        seen += jobs
        if seen >= NEARLY_ALL * total:
            return limit_s
    return None

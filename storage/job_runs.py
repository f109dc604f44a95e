"""Reads the runs of jobs and what each held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Connection, or_, select, true

from . import following, releases, schema
from .gpu_parts import unpacked
from .records import Allocation, JobState
from .values import TableRow, chunks


@dataclass(frozen=True, slots=True)
class JobRun:
    """One start of a job, and what it held."""

    start_s: float
    end_s: float | None
    """None while it runs, or when nobody knows."""
    state: JobState
    """How it ended; UNKNOWN when that was not seen, and the end is then the latest it can have been."""
    allocations: tuple[Allocation, ...]
    verdicts: dict[str, str]
    """``followed``, ``elsewhere``, ``earlier``, ``later`` or ``not advised`` by policy."""
    released: dict[str, float] = field(default_factory=dict)
    """When it gave which nodes back while it went on."""

    @property
    def present(self) -> tuple[Allocation, ...]:
        """Return what it holds now; of a run that has ended, all that it held."""
        return tuple(part for part in self.allocations if self.end_s is not None or part.node not in self.released)


def held(connection: Connection, jobs: Sequence[int]) -> dict[tuple[int, float], list[Allocation]]:
    """Return by job and start what runs hold, or held until their ends; without the nodes that a run gave back."""
    return _held(connection, jobs, or_(schema.allocations.c.until_s.is_(None), schema.runs.c.end_s.is_not(None)))


def runs_of(connection: Connection, job: int) -> tuple[JobRun, ...]:
    """Return the runs of a job in order, each with all that it held."""
    allocations, released = _held(connection, [job], true()), releases.released(connection, job)
    table, verdicts = schema.runs, following.verdicts_on(connection, job)
    rows = connection.execute(select(table).where(table.c.job == job).order_by(table.c.start_s))
    return tuple(JobRun(row.start_s, row.end_s, JobState(row.state), tuple(allocations.get((job, row.start_s), ())),
                        verdicts.get(row.id, {}), released.get(row.start_s, {})) for row in rows)


def _held(connection: Connection, jobs: Sequence[int], wanted: ColumnElement[bool],
          ) -> dict[tuple[int, float], list[Allocation]]:
    runs, parts = schema.runs, schema.allocations
    found: dict[tuple[int, float], list[Allocation]] = {}
    for some in chunks(jobs):
        query = select(runs.c.job, runs.c.start_s, parts).join(parts, parts.c.run == runs.c.id).where(
            runs.c.job.in_(some), wanted).order_by(parts.c.node)
        for row in connection.execute(query):
            found.setdefault((row.job, row.start_s), []).append(_allocation(row))
    return found


def _allocation(row: TableRow) -> Allocation:
    indexes = None if row.gpu_indexes is None else tuple(row.gpu_indexes)
    return Allocation(row.node, row.gpus, indexes, row.cpus, row.memory_bytes, parts=unpacked(row.parts))

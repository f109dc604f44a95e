"""What a clerk asks of each job: compiled, since to gather columns of them took longer than all the reckoning."""

from __future__ import annotations

from ..arrays import ENDED, REJECTED, RUNNING, Floats, Longs, Records
from ..compiled import compiled


@compiled
def keep_those_left(jobs: Records, rows: Longs) -> int:
    """Move the jobs that still wait, run or come to the front; return how many there are."""
    kept = 0
    for index in range(rows.size):
        status = jobs[rows[index]].status
        if status not in (ENDED, REJECTED):
            rows[kept] = rows[index]
            kept += 1
    return kept


@compiled
def note_runs(jobs: Records, rows: Longs, then: float, now: float, ends_count: bool, ran: Floats) -> None:
    """Write down for how long each job ran between two moments; where ends do not count only that of running ones."""
    for index in range(rows.size):
        row = jobs[rows[index]]
        if row.status == RUNNING or (row.status == ENDED and ends_count):
            end = now if row.status == RUNNING else min(row.end, now)
            ran[index] = max(end - max(row.since, then), 0.0)

"""Usage of jobs and associations, added up in compiled code: to gather columns took longer than all the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import ENDED, REJECTED, RUNNING, Floats, Longs, Records
from ..compiled import compiled

_at: Any = np.uint64
"""An index that cannot be negative."""


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
def note_runs(jobs: Records, rows: Longs, then: float, now: float, ends_count: bool, who: Longs, ran: Floats) -> int:
    """Write down which jobs ran between two moments and for how long; return how many.

    Where ends do not count, only running jobs do.
    """
    count = 0
    for index in range(rows.size):
        row = jobs[rows[index]]
        if row.status == RUNNING or (row.status == ENDED and ends_count):
            end = now if row.status == RUNNING else min(row.end, now)
            who[count], ran[count] = rows[index], max(end - max(row.since, then), 0.0)
            count += ran[count] > 0.0
    return count


@compiled
def book(chains: tuple[Longs, Longs], seats: Longs, spent: Floats, own_usage: Floats, total: Floats) -> None:
    """Add up what jobs spent by association, first what each spent itself, then with all below it."""
    begins, above = chains
    for index in range(seats.size):
        own_usage[seats[index]] += spent[index]
    for row in range(own_usage.size):
        for index in range(begins[row], begins[row + 1]):
            total[above[index]] += own_usage[row]


@compiled
def add_up(rows: Longs, settings: tuple[float, float, float], now: float, fixed: Floats, since: Floats, shares: Floats,
           seats: Longs, total: Floats) -> None:
    """Write down the weighted factors' sum of each job: what is fixed, age and fair-share.

    The settings are the weights of these two, and PriorityMaxAge; ``factors.age`` tells the same of all jobs at once.
    """
    weight, share_weight, oldest = settings
    for index in range(rows.size):
        row = _at(rows[index])
        age = min(max((now - since[index]) / oldest, 0.0), 1.0) if oldest > 0.0 else 1.0
        total[index] = fixed[row] + weight * age
        if share_weight != 0.0:
            total[index] += share_weight * shares[_at(seats[row])]

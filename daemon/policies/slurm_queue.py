"""The queue as Slurm 22.05 sorts it where jobs preempt others: a job that may preempt another goes before it.

Only then do priorities count (``sort_job_queue2`` of slurmctld), for the main scheduler as for the backfill. So a job
that had room made for it is the first to be tried on it, not one of those that it may preempt. Where this is no order
(high may preempt low, middle is compared with both by priority) what comes out is up to the way of sorting: by merging
halves, as glibc does.
"""

from __future__ import annotations

from ..replay.arrays import State
from ..replay.compiled import compiled, compiled_apart
from ..replay.engine import list_waiting
from ..replay.queue import insert, remove, sort_jobs
from ..replay.rules import Key
from .slurm_preemption import GROUP, GROUPS, MATRIX
from .slurm_tables import TABLES


@compiled_apart
def let_preemptors_pass(state: State, key: Key) -> None:
    """Deal out the ranks of waiting jobs again: a job that may preempt another goes before it, else by keys."""
    count, ranks = list_waiting(state), TABLES + state.jobs.size
    for index in range(count):
        state.keys[state.listed[index]] = state.jobs[state.listed[index]].rank
    sort_jobs(state.listed, count, state.keys)
    for index in range(count):
        row = state.jobs[state.listed[index]]
        state.scratch[ranks + index] = row.rank
        remove(state, row.queue, row.rank)
        state.keys[state.listed[index]] = state.listed[index]
    sort_jobs(state.listed, count, state.keys)
    for index in range(count):
        state.keys[state.listed[index]] = key(state, state.listed[index])
    merge_all(state, count)
    for index in range(count):
        job, rank = state.listed[index], int(state.scratch[ranks + index])
        state.jobs[job].rank, state.order[rank] = rank, job
        insert(state, state.jobs[job].queue, rank)


@compiled
def merge_all(state: State, count: int) -> None:
    """Sort those that are listed by merging halves, the smallest first."""
    depth = 0
    while (1 << depth) < count:
        depth += 1
    for level in range(depth - 1, -1, -1):
        for number in range(1 << level):
            low, size = 0, count
            for bit in range(level - 1, -1, -1):
                second, half = (number >> bit) & 1, size >> 1
                low, size = low + second * half, size - half if second else half
            merge(state, low, low + (size >> 1), low + size)


@compiled
def merge(state: State, low: int, middle: int, high: int) -> None:
    """Merge two neighbouring parts of the list, each of which is sorted."""
    copy, left, right, at = TABLES + 2 * state.jobs.size - low, low, middle, low
    for index in range(low, middle):
        state.scratch[copy + index] = state.listed[index]
    while left < middle:
        left_job = int(state.scratch[copy + left])
        if right == high or goes_first(state, left_job, state.listed[right]):
            state.listed[at] = left_job
            left += 1
        else:
            state.listed[at] = state.listed[right]
            right += 1
        at += 1


@compiled
def goes_first(state: State, one: int, other: int) -> bool:
    """Tell whether the first of two jobs is tried before the other; ties go by arrival."""
    groups = int(state.weights[GROUPS])
    sorts = MATRIX + groups * groups
    first, second = int(state.traits[one, GROUP]), int(state.traits[other, GROUP])
    if state.weights[sorts + first * groups + second] == 1.0:
        return True
    if state.weights[sorts + second * groups + first] == 1.0:
        return False
    return bool(state.keys[one] < state.keys[other] or (state.keys[one] == state.keys[other] and one < other))

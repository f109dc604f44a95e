"""No backfill: whoever does not fit blocks its partition."""

from __future__ import annotations

from typing import Any

from ..replay.arrays import MAX_STARTS, STARTED, State
from ..replay.compiled import compiled
from ..replay.moves import ask_of, start
from ..replay.queue import NONE, following
from .registry import backfill


@compiled
def try_start(state: State, place: Any, job: int) -> bool:
    """Start the job if the placement finds nodes for it."""
    count = place(state.nodes, ask_of(state.jobs, job), state.chosen)
    if count > 0:
        start(state, job, state.chosen, count)
    return count > 0


@compiled
def start_heads(state: State, place: Any) -> None:
    """Start jobs in order until the first of each partition does not fit; its rank is left in ``queue.blocked``."""
    queue, head = state.queue, state.queue.head
    for partition in range(head.size):
        head[partition] = following(queue, partition, 0)
        queue.blocked[partition] = NONE
    while state.count[STARTED] < state.count[MAX_STARTS]:
        first = first_partition(head)
        if first == NONE:
            return
        if try_start(state, place, queue.job[head[first]]):
            head[first] = following(queue, first, head[first] + 1)
        else:
            queue.blocked[first], head[first] = head[first], NONE


@compiled
def first_partition(head: Any) -> int:
    """Return the partition whose head has the lowest rank; NONE when all are empty."""
    best = NONE
    for partition in range(head.size):
        if head[partition] != NONE and (best == NONE or head[partition] < head[best]):
            best = partition
    return best


@backfill("none")
def none(state: State, key: Any, place: Any) -> None:
    """Start jobs in order; a partition stops at its first job that does not fit."""
    start_heads(state, place)

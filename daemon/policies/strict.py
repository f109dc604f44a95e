"""No backfill: whoever does not fit blocks its partition."""

from __future__ import annotations

from typing import Any

from ..replay.arrays import MAX_STARTS, STARTED, Records, State
from ..replay.compiled import compiled
from ..replay.moves import ask_of, site_of, start
from ..replay.queue import NONE, following
from .registry import backfill


@compiled
def try_start(state: State, place: Any, job: int) -> bool:
    """Start the job if the placement finds nodes for it."""
    count = place(site_of(state), ask_of(state, job), state.chosen)
    if count > 0:
        start(state, job, count)
    return count > 0


@compiled
def start_heads(state: State, place: Any) -> None:
    """Start jobs in order until the first of each partition does not fit; its rank is left in ``lines.blocked``."""
    lines = state.lines
    for partition in range(lines.size):
        lines[partition].head = following(state, partition, 0)
        lines[partition].blocked = NONE
    while state.counts[STARTED] < state.counts[MAX_STARTS]:
        first = first_partition(lines)
        if first == NONE:
            return
        line = lines[first]
        if try_start(state, place, state.order[line.head]):
            line.head = following(state, first, line.head + 1)
        else:
            line.blocked, line.head = line.head, NONE


@compiled
def first_partition(lines: Records) -> int:
    """Return the partition whose head has the lowest rank; NONE when all are empty."""
    best = NONE
    for partition in range(lines.size):
        if lines[partition].head != NONE and (best == NONE or lines[partition].head < lines[best].head):
            best = partition
    return best


@backfill("none", patient=True)
def none(state: State, key: Any, place: Any) -> None:
    """Start jobs in order; a partition stops at its first job that does not fit."""
    start_heads(state, place)

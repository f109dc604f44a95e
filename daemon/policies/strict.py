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
def start_heads(state: State, place: Any, stop: bool) -> None:
    """Start jobs in order; with ``stop`` until the first of each line does not fit, whose rank ``blocked`` then is."""
    lines = state.lines
    for line in range(lines.size):
        lines[line].head = following(state, line, 0)
        lines[line].blocked = NONE
    while state.counts[STARTED] < state.counts[MAX_STARTS]:
        first = first_line(lines)
        if first == NONE:
            return
        head = lines[first].head
        if try_start(state, place, state.order[head]) or not stop:
            lines[first].head = following(state, first, head + 1)
        else:
            lines[first].blocked, lines[first].head = head, NONE


@compiled
def first_line(lines: Records) -> int:
    """Return the line whose head has the lowest rank; NONE when all are empty."""
    best = NONE
    for line in range(lines.size):
        if lines[line].head != NONE and (best == NONE or lines[line].head < lines[best].head):
            best = line
    return best


@backfill("none", patient=True)
def none(state: State, key: Any, place: Any) -> None:
    """Start jobs in order; a partition stops at its first job that does not fit."""
    start_heads(state, place, True)

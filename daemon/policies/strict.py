"""No backfill: a job that does not fit blocks its partition."""

from __future__ import annotations

from ..replay.arrays import MAX_STARTS, STARTED, Records, State
from ..replay.compiled import compiled
from ..replay.moves import ask_of, site_of, start
from ..replay.queue import NONE, following
from ..replay.rules import Key, Place
from .registry import backfill


@compiled
def try_start(state: State, place: Place, job: int) -> bool:
    """Start the job if the placement finds nodes for it."""
    count = place(site_of(state), ask_of(state, job), state.chosen)
    if count > 0:
        start(state, job, count)
    return count > 0


@compiled
def start_heads(state: State, place: Place, stop: bool) -> None:
    """Start jobs in order; with ``stop`` until the first of each line does not fit, whose rank ``blocked`` then is."""
    line_up(state)
    line = first_line(state.lines)
    while line != NONE and state.counts[STARTED] < state.counts[MAX_STARTS]:
        move_on(state, line, try_start(state, place, state.order[state.lines[line].head]), stop)
        line = first_line(state.lines)


@compiled
def line_up(state: State) -> None:
    """Begin with the first job of each queue."""
    for line in range(state.lines.size):
        state.lines[line].head, state.lines[line].blocked = following(state, line, 0), NONE


@compiled
def move_on(state: State, line: int, started: bool, stop: bool) -> None:
    """Go on to the next job of a queue, or mark the queue as blocked."""
    row = state.lines[line]
    if started or not stop:
        row.head = following(state, line, row.head + 1)
    else:
        row.blocked, row.head = row.head, NONE


@compiled
def first_line(lines: Records) -> int:
    """Return the line whose head has the lowest rank; NONE when all are empty."""
    best = NONE
    for line in range(lines.size):
        if lines[line].head != NONE and (best == NONE or lines[line].head < lines[best].head):
            best = line
    return best


@backfill("none", patient=True)
def none(state: State, key: Key, place: Place) -> None:
    """Start jobs in order; a partition stops at its first job that does not fit."""
    start_heads(state, place, True)

"""Moldable start: an elastic job gets as many GPUs as there is room for when its turn comes, and keeps that size."""

from ..replay.arrays import MAX_STARTS, STARTED, State
from ..replay.compiled import compiled
from ..replay.moves import ask_for, share_out, site_of, start_shares
from ..replay.queue import NONE
from ..replay.rules import Key, Place
from .registry import backfill
from .strict import first_line, line_up, move_on


@compiled
def start_within(state: State, place: Place, job: int, most: int) -> bool:
    """Start a job on as many GPUs as there is room for, at most so many; False if not even its least fit."""
    for gpus in range(most, state.jobs[job].minimum - 1, -1):
        ask = ask_for(state, job, gpus)
        count = place(site_of(state), ask, state.chosen)
        if count > 0:
            share_out(state, job, ask, count)
            start_shares(state, job, count)
            return True
    return False


@backfill("moldable", patient=True)
def moldable(state: State, key: Key, place: Place) -> None:
    """Start jobs in order, each as large as it can be now; a line stops at its first job that does not fit at all."""
    line_up(state)
    line = first_line(state.lines)
    while line != NONE and state.counts[STARTED] < state.counts[MAX_STARTS]:
        job = state.order[state.lines[line].head]
        move_on(state, line, start_within(state, place, job, state.jobs[job].maximum), True)
        line = first_line(state.lines)

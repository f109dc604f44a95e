"""Elastic sizes, thought over whenever anything happens: running jobs give up GPUs and get more.

Every job that runs keeps its least, then jobs that wait get theirs, in order, as far as the GPUs go. What is left is
granted bit by bit to the job that it does most good: ``equal-share`` takes the job that has least, ``relative-gain``
the job whose speed grows by the largest part per GPU, ``ln(s(n + k) / s(n)) / k``, which is proportional fairness.
"""

from __future__ import annotations

import math

from ..replay.arrays import NOW, RESIZE, RUNNING, WAITING, State
from ..replay.compiled import compiled
from ..replay.execution_rate import speed_of
from ..replay.moves import ask_for, ask_of, resize, share_out
from ..replay.rules import Key, Place
from .easy import give_back, imagined
from .moldable import start_within
from .preempting import rank_everybody
from .registry import backfill

STEPS = (1, 2, 4, 8)
"""GPUs that are granted at once: some speeds rise only with whole nodes."""
ONE_NODE, ONE_LEAF = 0, 2
"""Columns of ``LEVELS`` that a size is judged by, before anybody knows where it will be."""


@compiled
def settled(state: State, job: int) -> bool:
    """Tell whether a job keeps its size for now: it runs, and is rigid or has only just started."""
    row = state.jobs[job]
    return row.status == RUNNING and (row.since >= state.clock[NOW] or row.minimum == row.maximum)


@compiled
def grant_least(state: State, count: int) -> int:
    """Write into ``keys`` what each listed job gets in any case; return the GPUs that are left."""
    left = 0
    for node in range(state.nodes.size):
        left += state.nodes[node].free_gpus * state.nodes[node].open
    for index in range(count):
        row = state.jobs[state.listed[index]]
        if row.status == RUNNING:
            least = row.gpus_held if settled(state, state.listed[index]) else row.minimum
            state.keys[state.listed[index]] = least
            left += row.gpus_held - least
    for index in range(count):
        row = state.jobs[state.listed[index]]
        if row.status == WAITING:
            least = row.minimum if row.minimum <= left else 0
            state.keys[state.listed[index]] = least
            left -= least
    return left


@compiled
def speed_at(state: State, job: int, gpus: int) -> float:
    """Return the speed of a job on so many GPUs, on one node if they fit there."""
    return speed_of(state, job, gpus, ONE_NODE if gpus <= state.jobs[job].widest else ONE_LEAF)


@compiled
def gain(state: State, job: int, gpus: int, more: int, equal: bool) -> float:
    """Return the good that ``more`` GPUs do to a job that has some, per GPU."""
    if equal:
        return 1.0 / gpus if more == 1 else 0.0
    return math.log(speed_at(state, job, gpus + more) / speed_at(state, job, gpus)) / more


@compiled
def grant_rest(state: State, count: int, left: int, equal: bool) -> None:
    """Grant what is left where it does most good, first in the order on a tie, until it does none."""
    while left > 0:
        best, most, step = -1, 0.0, 0
        for index in range(count):
            job = state.listed[index]
            gpus = int(state.keys[job])
            if gpus == 0 or settled(state, job):
                continue
            for more in STEPS:
                if more <= left and gpus + more <= state.jobs[job].maximum:
                    good = gain(state, job, gpus, more, equal)
                    if good > most:
                        best, most, step = job, good, more
        if best < 0:
            return
        state.keys[best] += step
        left -= step


@compiled
def shrink(state: State, job: int, gpus: int) -> None:
    """Let a running job go on with fewer GPUs; it leaves the nodes first where it has fewest."""
    row, surplus, count = state.jobs[job], state.jobs[job].gpus_held - gpus, 0
    for index in range(row.nodes_held):
        state.shares[index] = state.held[row.held + index].gpus
    while surplus > 0:
        least = -1
        for index in range(row.nodes_held):
            if state.shares[index] > 0 and (least < 0 or state.shares[index] <= state.shares[least]):
                least = index
        taken = min(surplus, state.shares[least])
        state.shares[least] -= taken
        surplus -= taken
    for index in range(row.nodes_held):
        if state.shares[index] > 0:
            state.chosen[count], state.shares[count] = state.held[row.held + index].node, state.shares[index]
            count += 1
    resize(state, job, count, row.cpus_held, row.memory_held, state.costs[RESIZE])


@compiled
def grow(state: State, place: Place, job: int, most: int) -> None:
    """Let a running job go on with more GPUs, as many as there is room for, moving it where they are."""
    row, site = state.jobs[job], imagined(state, 0)
    give_back(state, site, job, ask_of(state, job))
    for gpus in range(most, row.gpus_held, -1):
        ask = ask_for(state, job, gpus)
        count = place(site, ask, state.chosen)
        if count > 0:
            share_out(state, job, ask, count)
            resize(state, job, count, row.cpus, row.memory, state.costs[RESIZE])
            return


@compiled
def think_over(state: State, key: Key, place: Place, equal: bool) -> None:
    """Find new sizes for all jobs and carry them out: first jobs that shrink, then starts, then jobs that grow."""
    count = rank_everybody(state, key)
    grant_rest(state, count, grant_least(state, count), equal)
    for index in range(count):
        job = state.listed[index]
        if state.jobs[job].status == RUNNING and state.keys[job] < state.jobs[job].gpus_held:
            shrink(state, job, int(state.keys[job]))
    for index in range(count):
        job = state.listed[index]
        if state.jobs[job].status == WAITING and (state.keys[job] > 0 or state.jobs[job].gpus == 0):
            start_within(state, place, job, int(state.keys[job]))
    for index in range(count):
        job = state.listed[index]
        row = state.jobs[job]
        if row.status == RUNNING and state.keys[job] > row.gpus_held and not settled(state, job):
            grow(state, place, job, int(state.keys[job]))


@backfill("equal-share", own_order=True, resizing=True)
def equal_share(state: State, key: Key, place: Place) -> None:
    """Share the GPUs out evenly among as many jobs as can run."""
    think_over(state, key, place, True)


@backfill("relative-gain", own_order=True, resizing=True)
def relative_gain(state: State, key: Key, place: Place) -> None:
    """Grant GPUs where they raise a job's speed by the largest part."""
    think_over(state, key, place, False)

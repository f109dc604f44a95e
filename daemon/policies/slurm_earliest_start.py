"""When a job could start as Slurm 22.05 computes it: its backfill's look ahead, beside what it has planned for others.

Running jobs are gone by their limits, window by window (``_will_run_test`` of select/cons_tres); plans keep their nodes
whole (``_add_reservation`` of sched/backfill). The time of a plan is a matter of seconds, which jobs may start before
it one of hours, so both are followed to the letter.

Slurm tries one moment after the other and rebuilds everything for each; what could not change between two of them is
passed over here: moments before the first node has room, windows that end before that, nodes without room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..replay.arrays import NOW, RUNNING_JOBS, Ask, State
from ..replay.compiled import compiled, compiled_apart
from ..replay.moves import site_with
from ..replay.queue import NONE, lowest_bit
from ..replay.rules import Place
from .slurm_plans import WINDOW, is_clear
from .slurm_tables import (
    CHOSEN,
    CLEAR,
    COLUMNS,
    FEW,
    INTERVALS,
    LISTED,
    NODE_BITS,
    OPENED,
    PLANNED,
    SEATED,
    SIZE,
    BackfillTables,
    holds,
    kind_of,
    place_of,
    put,
    tables_of,
    take_out,
    words_of,
)

_long: Any = np.int64
_at: Any = np.uint64
"""An index that cannot be negative. Any other is looked at for that, which took an eighth of a long queue's replay."""
WINDOW_S = 30.0
"""All running jobs that end within a window are gone at once. The first ends so long after the next multiple of this,
each further one twice as long after it as the one before."""
KILL_WAIT_S = 30.0
"""How long a job is given that is past its limit; Slurm's default ``KillWait``."""
WORK = 1
"""A level of ``State.imagined`` that the look ahead leaves alone."""
SPARSE = 8
"""Clear nodes are few where they are less than one in so many: then the jobs on them are listed, not looked for."""
FIRST_NODE = (1 << NODE_BITS) - 1
NO_USE = 1 << 40
"""In place of how many intervals are in the way: nodes that are none of a kind's are never clear."""


@compiled_apart
def earliest_start(state: State, place: Place, ask: Ask, lasts: float) -> float:
    """Return what ``first_moment`` does, compiled once for all callers that seldom look."""
    return first_moment(state, tables_of(state), place, ask, lasts)


@compiled
def first_moment(state: State, tables: BackfillTables, place: Place, ask: Ask, lasts: float) -> float:
    """Return the first moment at which nodes can be had for so long, and choose them; infinite if there is none.

    Slurm looks at the nodes that are free of plans from now on, and if they are too few, or free too late, at those
    that are free of plans once the next plan is over.
    """
    horizon, begin, kind = state.clock[NOW] + state.weights[WINDOW], state.clock[NOW], kind_of(state, tables, ask)
    if tables.kinds[COLUMNS * kind + SIZE] < ask.chunks + ask.rests:
        return np.inf
    place_nodes(state, tables, kind)
    soon, until = end_of(state, tables, tables.turns[kind * state.nodes.size]), -np.inf
    over = begun = past = begin_search(state, tables, kind)
    while begin <= horizon:
        over = open_over(state, tables, kind, over, begin, until)
        until = begin + lasts
        begun = close_begun(state, tables, kind, begun, begin, until)
        later, past = next_over(tables, over, until, past)
        when = np.inf
        if soon <= later and tables.head[CLEAR] >= ask.chunks + ask.rests:
            wanted = first_clear(state, tables, kind)
            if end_of(state, tables, wanted) <= later:
                when = max(begin, will_run(state, tables, place, ask, kind, wanted, later))
            if when == begin or (when <= later and (when > horizon or is_clear(state, tables, over, when, lasts))):
                return when
        begin = min(when, later)
    return np.inf


@compiled
def begin_search(state: State, tables: BackfillTables, kind: int) -> int:
    """Begin with all usable nodes clear, and with the first interval."""
    nodes, size, first = state.nodes.size, tables.kinds[COLUMNS * kind + SIZE], _at(kind * state.nodes.size)
    for word in range(words_of(nodes)):
        left = size - (word << 6)
        tables.clear[word] = -1 if left >= 64 else (np.int64(1) << max(left, 0)) - 1
    for node in range(_at(nodes)):
        tables.blockers[node] = 0 if tables.seats[first + node] >= 0 else NO_USE
    tables.head[CLEAR] = size
    return 0


@compiled
def place_nodes(state: State, tables: BackfillTables, kind: int) -> None:
    """Write down where each node stands in the order of a kind, and when its turn is, unless that is known."""
    if tables.kinds[COLUMNS * kind + SEATED] == tables.head[LISTED]:
        return
    nodes, running = state.nodes.size, state.counts[RUNNING_JOBS]
    begin = kind * nodes
    for node in range(nodes):
        tables.seats[begin + node] = -1
    for index in range(tables.kinds[COLUMNS * kind + SIZE]):
        node = tables.ranked[begin + index]
        tables.seats[begin + node] = index
        tables.turns[begin + index] = min(place_of(tables, tables.needs[begin + node]), running)
    tables.kinds[COLUMNS * kind + SEATED] = tables.head[LISTED]


@compiled
def open_over(state: State, tables: BackfillTables, kind: int, interval: int, begin: float, until: float) -> int:
    """Clear nodes of intervals that are over by a moment and were in the way so far; return the first that is not."""
    first, count, index, opened = _at(kind * state.nodes.size), _at(tables.head[INTERVALS]), _at(interval), 0
    while index < count and tables.interval_ends[index] <= begin:
        if tables.interval_time[index] <= until:
            node = _at(tables.interval_node[index])
            tables.blockers[node] -= 1
            if tables.blockers[node] == 0:
                put(tables.clear, 0, tables.seats[first + node])
                opened += 1
        index += _at(1)
    tables.head[CLEAR] += opened
    return _long(index)


@compiled
def close_begun(state: State, tables: BackfillTables, kind: int, interval: int, begin: float, until: float) -> int:
    """Close nodes on which intervals begin until a moment and are not over yet; return the first that begins later."""
    first, count, index, closed = _at(kind * state.nodes.size), _at(tables.head[INTERVALS]), _at(interval), 0
    while index < count and tables.next_time[index] <= until:
        if tables.next_ends[index] > begin:
            node = _at(tables.next_node[index])
            if tables.blockers[node] == 0:
                take_out(tables.clear, 0, tables.seats[first + node])
                closed += 1
            tables.blockers[node] += 1
        index += _at(1)
    tables.head[CLEAR] -= closed
    return _long(index)


@compiled
def next_over(tables: BackfillTables, interval: int, until: float, past: int) -> tuple[float, int]:
    """Return when the first plan is over that is in the way until a moment, and no other begins on its node by then.

    Intervals before the given one are over, and plans before ``past`` end by then; return also which do that now.
    """
    count, index = _at(tables.head[INTERVALS]), _at(interval)
    while index < count and tables.interval_ends[index] <= until:
        if tables.blockers[_at(tables.interval_node[index])] < NO_USE:
            return tables.interval_ends[index], past
        index += _at(1)
    count, index = _at(tables.head[PLANNED]), _at(past)
    while index < count and tables.plan_ends[index] <= until:
        index += _at(1)
    past = _long(index)
    while index < count:
        if tables.plan_time[index] <= until and tables.blockers[_at(tables.plan_node[index])] < NO_USE:
            return tables.plan_ends[index], past
        index += _at(1)
    return np.inf, past


@compiled
def first_clear(state: State, tables: BackfillTables, kind: int) -> int:
    """Return which running job has to end before the first of the clear nodes has enough for a part of a job."""
    index = next_clear(state, tables, 0)
    return tables.turns[kind * state.nodes.size + index] if index != NONE else state.counts[RUNNING_JOBS]


@compiled
def next_clear(state: State, tables: BackfillTables, index: int) -> int:
    """Return the first place from one on in the order of a kind at which a clear node stands; NONE if there is none."""
    word, words = index >> 6, words_of(state.nodes.size)
    if word >= words:
        return NONE
    left = np.uint64(tables.clear[word]) & (~np.uint64(0) << np.uint64(index & 63))
    while left == np.uint64(0):
        word += 1
        if word >= words:
            return NONE
        left = np.uint64(tables.clear[word])
    return (word << 6) + lowest_bit(left)


@compiled
def will_run(state: State, tables: BackfillTables, place: Place, ask: Ask, kind: int, wanted: int, latest: float,
             ) -> float:
    """Return when a job could start on the clear nodes, running jobs being gone by their limits; choose its nodes.

    At least the ``wanted``-th of them has to end; where that is too late no nodes are chosen. A window ends before the
    next job that ends beyond it; but where the last of a window is one of other nodes, Slurm does not look when the one
    after it ends, and takes that for gone, too.
    """
    now, running = state.clock[NOW], state.counts[RUNNING_JOBS]
    if wanted < 0 and try_at(state, tables, place, ask, kind, -1):
        return now
    list_touching(state, tables)
    index, width = next_touching(state, tables, 0), WINDOW_S
    if wanted >= running or index == running:
        return np.inf
    base = (np.floor(tables.ends[index] / WINDOW_S) + 1.0) * WINDOW_S
    # The windows up to the last job before the wanted one would not do.
    last = max(index - 1, last_touching(state, tables, wanted - 1)) if wanted > index else index - 1
    while last + 1 < running:
        while tables.ends[last + 1] > base + width:
            width *= 2.0
        beyond = next_touching(state, tables, first_beyond(state, tables, base + width) - 1)
        beyond = beyond if beyond < running else last_touching(state, tables, running - 1)
        if beyond <= last:
            return np.inf
        last, width = beyond, width * 2.0
        if last >= wanted:
            end = tables.ends[last]
            if end <= now:
                end = max(end + KILL_WAIT_S, now + 1.0)
            if end > latest or try_at(state, tables, place, ask, kind, last):
                return end
    return np.inf


@compiled
def end_of(state: State, tables: BackfillTables, place: int) -> float:
    """Return when a running job is gone by its limit, given its place among them by that; at once before the first."""
    if place < 0:
        return -np.inf
    return tables.ends[place] if place < state.counts[RUNNING_JOBS] else np.inf


@compiled
def first_beyond(state: State, tables: BackfillTables, bound: float) -> int:
    """Return the place of the first running job that ends beyond a bound."""
    low, left = 0, state.counts[RUNNING_JOBS]
    while left > 0:
        half = left >> 1
        beyond = tables.ends[low + half] > bound  # nobody can guess which, so nothing is to branch on it
        low, left = low if beyond else low + half + 1, half if beyond else left - half - 1
    return low


@compiled
def list_touching(state: State, tables: BackfillTables) -> None:
    """List the running jobs that hold a part of a clear node, where the clear nodes are few."""
    nodes, words = state.nodes.size, (state.counts[RUNNING_JOBS] >> 6) + 1
    tables.head[FEW] = 1 if SPARSE * tables.head[CLEAR] < nodes else 0
    if tables.head[FEW] == 0:
        return
    for word in range(words):
        tables.touching[word] = 0
    for node in range(nodes):
        entry = tables.entry[node] if tables.blockers[node] == 0 else -1
        while entry >= 0:
            put(tables.touching, 0, tables.back[entry])
            entry = tables.back[entry + 4]


@compiled
def next_touching(state: State, tables: BackfillTables, place: int) -> int:
    """Return the place of the first running job from one on that holds a part of a clear node."""
    running = state.counts[RUNNING_JOBS]
    if tables.head[FEW] == 0:
        while place < running and not touches(state, tables, place):
            place += 1
        return min(place, running)
    while place < running and not holds(tables.touching, 0, place):
        place += 1
        while place & 63 == 0 and place < running and tables.touching[place >> 6] == 0:
            place += 64
    return min(place, running)


@compiled
def last_touching(state: State, tables: BackfillTables, place: int) -> int:
    """Return the place of the last running job up to one that holds a part of a clear node; -1 if none does."""
    if tables.head[FEW] == 0:
        while place >= 0 and not touches(state, tables, place):
            place -= 1
        return place
    while place >= 0 and not holds(tables.touching, 0, place):
        place -= 1
        while place & 63 == 63 and place > 0 and tables.touching[place >> 6] == 0:
            place -= 64
    return place


@compiled
def touches(state: State, tables: BackfillTables, place: int) -> bool:
    """Tell whether a running job holds a part of a clear node, where these are not listed."""
    nodes = tables.where[_at(place)]
    if nodes >= 0:
        one, other = _at(nodes & FIRST_NODE), _at(nodes >> NODE_BITS)
        return bool(min(tables.blockers[one], tables.blockers[other]) == 0)
    row, touched = state.jobs[state.estimates[place]], False
    for index in range(row.held, row.held + row.nodes_held):
        touched = touched or tables.blockers[state.held[index].node] == 0
    return touched


@compiled
def try_at(state: State, tables: BackfillTables, place: Place, ask: Ask, kind: int, last: int) -> bool:
    """Tell whether a job fits on the clear nodes once running jobs up to one have ended, and choose its nodes."""
    count, parts = open_ready(state, tables, kind, last), ask.chunks + ask.rests
    if count == parts == 1:
        state.chosen[0] = tables.opened[0]
    else:
        count = place(site_with(state, state.imagined[0]), ask, state.chosen) if count >= parts else 0
    state.scratch[CHOSEN] = count
    return count > 0


@compiled
def open_ready(state: State, tables: BackfillTables, kind: int, last: int) -> int:
    """Open imagined nodes that are clear and have room for a part once running jobs up to one have ended, no others.

    Return how many.
    """
    for place in range(tables.head[OPENED]):
        state.imagined[0, tables.opened[place]].open, state.imagined[0, tables.opened[place]].free_gpus = 0, -1
    begin, index, count = kind * state.nodes.size, next_clear(state, tables, 0), 0
    while index != NONE and tables.turns[begin + index] <= last:
        tables.opened[count] = tables.ranked[begin + index]
        imagine(state, tables, tables.opened[count], last)
        index, count = next_clear(state, tables, index + 1), count + 1
    tables.head[OPENED] = count
    return count


@compiled
def imagine(state: State, tables: BackfillTables, node: int, last: int) -> None:
    """Open an imagined node with what is free there once running jobs up to one have ended."""
    row, actual, entry = state.imagined[0, node], state.nodes[node], tables.entry[node]
    gpus, cpus, memory = actual.free_gpus, actual.free_cpus, actual.free_memory
    while entry >= 0 and tables.back[entry] <= last:
        back = tables.back[entry:entry + 5]
        gpus, cpus, memory, entry = gpus + back[1], cpus + back[2], memory + back[3], back[4]
    row.open, row.free_gpus, row.free_cpus, row.free_memory = 1, gpus, cpus, memory

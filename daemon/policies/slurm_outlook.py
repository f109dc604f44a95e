"""When a job could start by Slurm 22.05's reckoning: its backfill's look ahead, beside what it has planned for others.

Running jobs are gone by their limits, window by window (``_will_run_test`` of select/cons_tres); plans keep their nodes
whole (``_add_reservation`` of sched/backfill). The time of a plan is a matter of seconds, who may start before it of
hours, so both are followed to the letter.

Slurm tries one moment after the other and builds everything anew for each; what could not change between two of them is
passed over here: moments before the first node has room, windows that end before that, nodes without room.
"""

from __future__ import annotations

import numpy as np

from ..replay.arrays import NOW, RUNNING_JOBS, Ask, Floats, State
from ..replay.compiled import compiled
from ..replay.moves import site_with
from ..replay.rules import Place
from .slurm_books import (
    CHOSEN,
    CLEAR,
    COLUMNS,
    FEW,
    OPENED,
    PLANNED,
    PLANS,
    SIZE,
    Books,
    books_of,
    holds,
    kind_of,
    place_of,
    put,
    take_out,
    words_of,
)

INTERVAL, WINDOW, RESOLUTION, TESTED, LOOKS = range(5)
"""Places in ``State.weights``."""
WINDOW_S = 30.0
"""All running jobs that end within a window are gone at once. The first ends so long after the next multiple of this,
each further one twice as long after it as the one before."""
KILL_WAIT_S = 30.0
"""How long a job is given that is past its limit; Slurm's default ``KillWait``."""
WORK = 1
"""A level of ``State.imagined`` that the look ahead leaves alone."""
SPARSE = 8
"""Clear nodes are few where they are less than one in so many: then the jobs on them are listed, not looked for."""
HIGHEST = (1 << 63) - 1


@compiled
def clear_plans(state: State) -> None:
    """Plan nothing, and imagine all nodes closed."""
    book = books_of(state)
    book.head[PLANNED] = book.head[OPENED] = 0
    for node in range(state.nodes.size):
        book.plans_on[node], book.first[node] = 0, np.inf
        state.imagined[0, node].open, state.imagined[0, node].free_gpus = 0, -1


@compiled
def soonest(state: State, place: Place, ask: Ask, lasts: float) -> float:
    """Return the first moment at which nodes can be had for so long, and choose them; infinite if there is none.

    Slurm looks at the nodes that are free of plans from now on, and if they are too few, or free too late, at those
    that are free of plans once the next plan is over.
    """
    book = books_of(state)
    horizon, begin, kind = state.clock[NOW] + state.weights[WINDOW], state.clock[NOW], kind_of(state, book, ask)
    if book.kinds[COLUMNS * kind + SIZE] < ask.chunks + ask.rests:
        return np.inf
    soon, until = end_of(state, book, rank_of(book, kind, state.nodes.size, 0)), -np.inf
    over = begun = begin_search(state, book, kind)
    while begin <= horizon:
        over = open_over(state, book, kind, over, begin, until)
        until = begin + lasts
        begun = close_begun(book, begun, begin, until)
        later, when = next_over(state, book, kind, over, until), np.inf
        if soon <= later and book.head[CLEAR] >= ask.chunks + ask.rests:
            wanted = first_clear(state, book, kind)
            if end_of(state, book, wanted) <= later:
                when = max(begin, will_run(state, book, place, ask, kind, wanted, later))
            if when == begin or (when <= later and (when > horizon or is_clear(state, book, when, lasts))):
                return when
        begin = min(when, later)
    return np.inf


@compiled
def begin_search(state: State, book: Books, kind: int) -> int:
    """Begin with all usable nodes clear, and with the first plan."""
    words = words_of(state.nodes.size)
    for word in range(words):
        book.clear[word] = book.usable[kind * words + word]
    for node in range(state.nodes.size):
        book.blockers[node] = 0
    book.head[CLEAR] = book.kinds[COLUMNS * kind + SIZE]
    return 0


@compiled
def open_over(state: State, book: Books, kind: int, plan: int, begin: float, until: float) -> int:
    """Clear nodes of plans that are over by a moment and were in the way so far; return the first that is not over."""
    first = kind * words_of(state.nodes.size)
    while plan < book.head[PLANNED] and book.plan_ends[plan] <= begin:
        if book.plan_time[plan] <= until:
            node = book.plan_node[plan]
            book.blockers[node] -= 1
            if book.blockers[node] == 0 and holds(book.usable, first, node):
                put(book.clear, 0, node)
                book.head[CLEAR] += 1
        plan += 1
    return plan


@compiled
def close_begun(book: Books, plan: int, begin: float, until: float) -> int:
    """Close nodes on which plans begin until a moment and are not over yet; return the first that begins later."""
    while plan < book.head[PLANNED] and book.next_time[plan] <= until:
        if book.next_ends[plan] > begin:
            node = book.next_node[plan]
            book.blockers[node] += 1
            if holds(book.clear, 0, node):
                take_out(book.clear, 0, node)
                book.head[CLEAR] -= 1
        plan += 1
    return plan


@compiled
def next_over(state: State, book: Books, kind: int, plan: int, until: float) -> float:
    """Return when the first plan is over that is in the way until a moment; plans before the given one are over."""
    first = kind * words_of(state.nodes.size)
    for index in range(plan, book.head[PLANNED]):
        if book.plan_time[index] <= until and holds(book.usable, first, book.plan_node[index]) and not (
                book.plan_joined[index] == 1 and book.plan_ends[index] <= until):
            return book.plan_ends[index]
    return np.inf


@compiled
def rank_of(book: Books, kind: int, nodes: int, index: int) -> int:
    """Return which running job has to end before the node at a place in a kind's order has enough."""
    return place_of(book, book.needs[kind * nodes + book.ranked[kind * nodes + index]])


@compiled
def first_clear(state: State, book: Books, kind: int) -> int:
    """Return which running job has to end before the first of the clear nodes has enough for a part of a job."""
    nodes = state.nodes.size
    for index in range(book.kinds[COLUMNS * kind + SIZE]):
        if holds(book.clear, 0, book.ranked[kind * nodes + index]):
            return rank_of(book, kind, nodes, index)
    return state.counts[RUNNING_JOBS]


@compiled
def will_run(state: State, book: Books, place: Place, ask: Ask, kind: int, wanted: int, latest: float) -> float:
    """Return when a job could start on the clear nodes, running jobs being gone by their limits; choose its nodes.

    At least the ``wanted``-th of them has to end; where that is too late no nodes are chosen. A window ends before the
    next job that ends beyond it; but where the last of a window is one of other nodes, Slurm does not look when the one
    after it ends, and takes that for gone, too.
    """
    now, running = state.clock[NOW], state.counts[RUNNING_JOBS]
    if wanted < 0 and try_at(state, book, place, ask, kind, -1):
        return now
    list_touching(state, book)
    index, width = next_touching(state, book, 0), WINDOW_S
    if wanted >= running or index == running:
        return np.inf
    base = (np.floor(book.ends[index] / WINDOW_S) + 1.0) * WINDOW_S
    # The windows up to the last job before the wanted one would not do.
    last = max(index - 1, last_touching(state, book, wanted - 1)) if wanted > index else index - 1
    while last + 1 < running:
        while book.ends[last + 1] > base + width:
            width *= 2.0
        beyond = next_touching(state, book, first_beyond(state, book, base + width) - 1)
        beyond = beyond if beyond < running else last_touching(state, book, running - 1)
        if beyond <= last:
            return np.inf
        last, width = beyond, width * 2.0
        if last >= wanted:
            end = book.ends[last]
            if end <= now:
                end = max(end + KILL_WAIT_S, now + 1.0)
            if end > latest or try_at(state, book, place, ask, kind, last):
                return end
    return np.inf


@compiled
def end_of(state: State, book: Books, place: int) -> float:
    """Return when a running job is gone by its limit, given its place among them by that; at once before the first."""
    if place < 0:
        return -np.inf
    return book.ends[place] if place < state.counts[RUNNING_JOBS] else np.inf


@compiled
def first_beyond(state: State, book: Books, bound: float) -> int:
    """Return the place of the first running job that ends beyond a bound."""
    low, high = 0, state.counts[RUNNING_JOBS]
    while low < high:
        middle = (low + high) // 2
        if book.ends[middle] > bound:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def list_touching(state: State, book: Books) -> None:
    """List the running jobs that hold a part of a clear node, where the clear nodes are few."""
    nodes, words = state.nodes.size, (state.counts[RUNNING_JOBS] >> 6) + 1
    book.head[FEW] = 1 if SPARSE * book.head[CLEAR] < nodes else 0
    if book.head[FEW] == 0:
        return
    for word in range(words):
        book.touching[word] = 0
    for word in range(words_of(nodes)):
        left = book.clear[word]
        node = word << 6
        while left != 0:
            if left & 1 == 1:
                entry = book.entry[node]
                while entry >= 0:
                    put(book.touching, 0, book.back[entry])
                    entry = book.back[entry + 4]
            left, node = (left >> 1) & HIGHEST, node + 1


@compiled
def next_touching(state: State, book: Books, place: int) -> int:
    """Return the place of the first running job from one on that holds a part of a clear node."""
    while place < state.counts[RUNNING_JOBS] and not touches(state, book, place):
        place += 1
        while book.head[FEW] == 1 and place & 63 == 0 and place < state.counts[RUNNING_JOBS] and (
                book.touching[place >> 6] == 0):
            place += 64
    return min(place, state.counts[RUNNING_JOBS])


@compiled
def last_touching(state: State, book: Books, place: int) -> int:
    """Return the place of the last running job up to one that holds a part of a clear node; -1 if none does."""
    while place >= 0 and not touches(state, book, place):
        place -= 1
        while book.head[FEW] == 1 and place & 63 == 63 and place > 0 and book.touching[place >> 6] == 0:
            place -= 64
    return place


@compiled
def touches(state: State, book: Books, place: int) -> bool:
    """Tell whether a running job holds a part of a clear node."""
    if book.head[FEW] == 1:
        return holds(book.touching, 0, place)
    if book.where[place] >= 0:
        return holds(book.clear, 0, book.where[place])
    row, found = state.jobs[state.estimates[place]], False
    for index in range(row.held, row.held + row.nodes_held):
        found = found or holds(book.clear, 0, state.held[index].node)
    return found


@compiled
def try_at(state: State, book: Books, place: Place, ask: Ask, kind: int, last: int) -> bool:
    """Tell whether a job fits on the clear nodes once running jobs up to one have ended, and choose its nodes.

    Nodes that have no room for a part of it by then are left closed.
    """
    nodes, count = state.nodes.size, 0
    for index in range(book.head[OPENED]):
        state.imagined[0, book.opened[index]].open, state.imagined[0, book.opened[index]].free_gpus = 0, -1
    for index in range(book.kinds[COLUMNS * kind + SIZE]):
        if rank_of(book, kind, nodes, index) > last:
            break
        node = book.ranked[kind * nodes + index]
        if holds(book.clear, 0, node):
            imagine(state, book, node, last)
            book.opened[count] = node
            count += 1
    book.head[OPENED] = count
    count = place(site_with(state, state.imagined[0]), ask, state.chosen) if count >= ask.chunks + ask.rests else 0
    state.mood[CHOSEN] = count
    return count > 0


@compiled
def imagine(state: State, book: Books, node: int, last: int) -> None:
    """Open an imagined node with what is free there once running jobs up to one have ended."""
    row, there, entry = state.imagined[0, node], state.nodes[node], book.entry[node]
    gpus, cpus, memory = there.free_gpus, there.free_cpus, there.free_memory
    while entry >= 0 and book.back[entry] <= last:
        gpus, cpus, memory = gpus + book.back[entry + 1], cpus + book.back[entry + 2], memory + book.back[entry + 3]
        entry = book.back[entry + 4]
    row.open, row.free_gpus, row.free_cpus, row.free_memory = 1, gpus, cpus, memory


@compiled
def is_clear(state: State, book: Books, when: float, lasts: float) -> bool:
    """Tell whether nothing is planned on the chosen nodes for so long."""
    begin, end = plan_of(state, when, lasts)
    for place in range(int(state.mood[CHOSEN])):
        node = state.chosen[place]
        if book.first[node] >= end:
            continue
        for index in range(book.head[PLANNED]):
            if book.plan_node[index] == node and book.plan_ends[index] > begin and book.plan_time[index] < end:
                return False
    return True


@compiled
def plan_of(state: State, when: float, lasts: float) -> tuple[float, float]:
    """Return from when to when a plan keeps its nodes."""
    resolution = state.weights[RESOLUTION]
    begin = np.floor(when / resolution) * resolution
    return begin, max(begin + resolution, np.floor((when + lasts) / resolution) * resolution)


@compiled
def keep(state: State, count: int, when: float, lasts: float) -> None:
    """Keep the chosen nodes whole from then until the limit of a job."""
    book = books_of(state)
    begin, end = plan_of(state, when, lasts)
    for index in range(count):
        insert_plan(book, state.chosen[index], begin, end)


@compiled
def insert_plan(book: Books, node: int, begin: float, end: float) -> None:
    """Keep a node for a while, among all plans by their end; where there are too many for it this one is left out."""
    joined, count = 0, book.head[PLANNED]
    if book.plans_on[node] == PLANS:
        return
    if book.plans_on[node] > 0:
        index = first_at(book.plan_ends, count, begin)
        while index < count and book.plan_ends[index] == begin:
            book.plan_joined[index] = 1 if book.plan_node[index] == node else book.plan_joined[index]
            index += 1
        index = first_at(book.next_time, count, end)
        while index < count and book.next_time[index] == end:
            joined = 1 if book.next_node[index] == node else joined
            index += 1
    insert_by_end(book, count, node, begin, end, joined)
    insert_by_begin(book, count, node, begin, end)
    book.head[PLANNED], book.first[node] = count + 1, min(book.first[node], begin)
    book.plans_on[node] += 1


@compiled
def first_at(moments: Floats, count: int, bound: float) -> int:
    """Return the first of so many moments in order that is not before one."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if moments[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def insert_by_end(book: Books, index: int, node: int, begin: float, end: float, joined: int) -> None:
    """Insert a plan among so many by their end."""
    while index > 0 and book.plan_ends[index - 1] > end:
        book.plan_time[index], book.plan_ends[index] = book.plan_time[index - 1], book.plan_ends[index - 1]
        book.plan_node[index], book.plan_joined[index] = book.plan_node[index - 1], book.plan_joined[index - 1]
        index -= 1
    book.plan_time[index], book.plan_ends[index] = begin, end
    book.plan_node[index], book.plan_joined[index] = node, joined


@compiled
def insert_by_begin(book: Books, index: int, node: int, begin: float, end: float) -> None:
    """Insert a plan among so many by their begin."""
    while index > 0 and book.next_time[index - 1] > begin:
        book.next_time[index], book.next_ends[index] = book.next_time[index - 1], book.next_ends[index - 1]
        book.next_node[index] = book.next_node[index - 1]
        index -= 1
    book.next_time[index], book.next_ends[index], book.next_node[index] = begin, end, node

"""Plans of the look ahead: which nodes are kept whole, from when to when.

Plans for a node never overlap, and most begin as another one ends. Such a row of plans is a stretch: a node is free of
plans before and after it, so stretches are looked at, by their ends and by their begins, and plans only where one of
them ends within a stretch.
"""

from __future__ import annotations

import numpy as np

from ..replay.arrays import Floats, Longs, State
from ..replay.compiled import compiled
from ..replay.queue import NONE
from .slurm_books import CHOSEN, OPENED, PLANNED, PLANS, STRETCHES, Books, books_of

INTERVAL, WINDOW, RESOLUTION, TESTED, LOOKS = range(5)
"""Places in ``State.weights``."""


@compiled
def clear_plans(state: State) -> None:
    """Plan nothing, and imagine all nodes closed."""
    book = books_of(state)
    book.head[PLANNED] = book.head[STRETCHES] = book.head[OPENED] = 0
    for node in range(state.nodes.size):
        book.plans_on[node], book.first[node] = 0, np.inf
        state.imagined[0, node].open, state.imagined[0, node].free_gpus = 0, -1


@compiled
def is_clear(state: State, book: Books, over: int, when: float, lasts: float) -> bool:
    """Tell whether nothing is planned on the chosen nodes for so long; stretches before the given one are over then."""
    begin, end = plan_of(state, when, lasts)
    while over > 0 and book.stretch_ends[over - 1] > begin:
        over -= 1
    for place in range(int(state.scratch[CHOSEN])):
        node = state.chosen[place]
        if book.first[node] >= end:
            continue
        for index in range(over, book.head[STRETCHES]):
            if book.stretch_node[index] == node and book.stretch_ends[index] > begin and book.stretch_time[index] < end:
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
    """Keep a node for a while; where there are too many plans for it this one is left out."""
    if book.plans_on[node] == PLANS:
        return
    insert_row(book.plan_ends, book.plan_time, book.plan_node, book.head[PLANNED], end, begin, node)
    book.head[PLANNED] += 1
    lengthen(book, node, begin, end, book.plans_on[node] > 0)
    book.first[node] = min(book.first[node], begin)
    book.plans_on[node] += 1


@compiled
def lengthen(book: Books, node: int, begin: float, end: float, known: bool) -> None:
    """Join a plan to the stretches that end as it begins and begin as it ends, if a node is known to have any."""
    count, first, last = book.head[STRETCHES], begin, end
    before = row_of(book.stretch_ends, book.stretch_node, count, begin, node) if known else NONE
    after = row_of(book.next_time, book.next_node, count, end, node) if known else NONE
    by_end = by_begin = count
    if before != NONE:
        first, by_end = book.stretch_time[before], count - 1
        drop_row(book.stretch_ends, book.stretch_time, book.stretch_node, count, before)
    if after != NONE:
        last, by_begin = book.next_ends[after], count - 1
        drop_row(book.next_time, book.next_ends, book.next_node, count, after)
        book.stretch_time[row_of(book.stretch_ends, book.stretch_node, by_end, last, node)] = first
    else:
        insert_row(book.stretch_ends, book.stretch_time, book.stretch_node, by_end, last, first, node)
        by_end += 1
    if before != NONE:
        book.next_ends[row_of(book.next_time, book.next_node, by_begin, first, node)] = last
    else:
        insert_row(book.next_time, book.next_ends, book.next_node, by_begin, first, last, node)
    book.head[STRETCHES] = by_end


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
def row_of(moments: Floats, nodes: Longs, count: int, moment: float, node: int) -> int:
    """Return which of so many rows in order of their moments has this one and this node; NONE if none has."""
    row = first_at(moments, count, moment)
    while row < count and moments[row] == moment:
        if nodes[row] == node:
            return row
        row += 1
    return NONE


@compiled
def insert_row(moments: Floats, others: Floats, nodes: Longs, row: int, moment: float, other: float, node: int) -> None:
    """Insert a row among so many in order of their moments."""
    while row > 0 and moments[row - 1] > moment:
        moments[row], others[row], nodes[row] = moments[row - 1], others[row - 1], nodes[row - 1]
        row -= 1
    moments[row], others[row], nodes[row] = moment, other, node


@compiled
def drop_row(moments: Floats, others: Floats, nodes: Longs, count: int, row: int) -> None:
    """Take one of so many rows out."""
    for after in range(row + 1, count):
        moments[after - 1], others[after - 1], nodes[after - 1] = moments[after], others[after], nodes[after]

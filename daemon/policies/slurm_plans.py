"""Plans of the look ahead: which nodes are kept whole, from when to when, by their begins and by their ends."""

from __future__ import annotations

import numpy as np

from ..replay.arrays import Floats, State
from ..replay.compiled import compiled
from .slurm_books import CHOSEN, OPENED, PLANNED, PLANS, Books, books_of

INTERVAL, WINDOW, RESOLUTION, TESTED, LOOKS = range(5)
"""Places in ``State.weights``."""


@compiled
def clear_plans(state: State) -> None:
    """Plan nothing, and imagine all nodes closed."""
    book = books_of(state)
    book.head[PLANNED] = book.head[OPENED] = 0
    for node in range(state.nodes.size):
        book.plans_on[node], book.first[node] = 0, np.inf
        state.imagined[0, node].open, state.imagined[0, node].free_gpus = 0, -1


@compiled
def is_clear(state: State, book: Books, over: int, when: float, lasts: float) -> bool:
    """Tell whether nothing is planned on the chosen nodes for so long; plans before the given one are over by then."""
    begin, end = plan_of(state, when, lasts)
    while over > 0 and book.plan_ends[over - 1] > begin:
        over -= 1
    for place in range(int(state.mood[CHOSEN])):
        node = state.chosen[place]
        if book.first[node] >= end:
            continue
        for index in range(over, book.head[PLANNED]):
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

"""Plans of the look ahead: which nodes are kept whole, from when to when.

Plans for a node never overlap, and most begin as another one ends. Such a row of plans is an interval: a node is free
of plans before and after it, so intervals are looked at, by their ends and by their begins, and plans only where one of
them ends within an interval.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..replay.arrays import Floats, Longs, State
from ..replay.compiled import compiled
from ..replay.queue import NONE
from .slurm_tables import CHOSEN, INTERVALS, OPENED, PLANNED, PLANS, BackfillTables, tables_of

_long: Any = np.int64
_at: Any = np.uint64
"""An index that cannot be negative."""
INTERVAL, WINDOW, RESOLUTION, TESTED, LOOKS = range(5)
"""Places in ``State.weights``."""


@compiled
def clear_plans(state: State) -> None:
    """Remove all plans, and close all imagined nodes."""
    tables = tables_of(state)
    tables.head[PLANNED] = tables.head[INTERVALS] = tables.head[OPENED] = 0
    for node in range(state.nodes.size):
        tables.plans_on[node], tables.first[node] = 0, np.inf
        state.imagined[0, node].open, state.imagined[0, node].free_gpus = 0, -1


@compiled
def is_clear(state: State, tables: BackfillTables, over: int, when: float, lasts: float) -> bool:
    """Tell whether nothing is planned on the chosen nodes for so long; intervals before the given one are over then."""
    begin, end = plan_of(state, when, lasts)
    while over > 0 and tables.interval_ends[over - 1] > begin:
        over -= 1
    for place in range(int(state.scratch[CHOSEN])):
        node = state.chosen[place]
        if tables.first[node] >= end:
            continue
        for index in range(over, tables.head[INTERVALS]):
            if (tables.interval_node[index] == node and tables.interval_ends[index] > begin
                    and tables.interval_time[index] < end):
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
    tables = tables_of(state)
    begin, end = plan_of(state, when, lasts)
    for index in range(count):
        insert_plan(tables, state.chosen[index], begin, end)


@compiled
def insert_plan(tables: BackfillTables, node: int, begin: float, end: float) -> None:
    """Reserve a node for a time span; a plan beyond the most plans of a node is left out."""
    if tables.plans_on[node] == PLANS:
        return
    insert_row(tables.plan_ends, tables.plan_time, tables.plan_node, tables.head[PLANNED], end, begin, node)
    tables.head[PLANNED] += 1
    lengthen(tables, node, begin, end, tables.plans_on[node] > 0)
    tables.first[node] = min(tables.first[node], begin)
    tables.plans_on[node] += 1


@compiled
def lengthen(tables: BackfillTables, node: int, begin: float, end: float, known: bool) -> None:
    """Join a plan to the intervals that end as it begins and begin as it ends, if a node is known to have any."""
    count, ends, begins = tables.head[INTERVALS], tables.interval_ends, tables.next_time
    before = row_of(ends, tables.interval_node, count, begin, node) if known else NONE
    after = row_of(begins, tables.next_node, count, end, node) if known else NONE
    first = tables.interval_time[before] if before != NONE else begin
    last = tables.next_ends[after] if after != NONE else end
    if before == after == NONE:
        insert_row(ends, tables.interval_time, tables.interval_node, count, end, begin, node)
        insert_row(begins, tables.next_ends, tables.next_node, count, begin, end, node)
        tables.head[INTERVALS] += 1
    elif after == NONE:
        move_later(ends, tables.interval_time, tables.interval_node, count, before, end)
        tables.next_ends[row_of(begins, tables.next_node, count, first, node)] = end
    elif before == NONE:
        insert_row(begins, tables.next_ends, tables.next_node, after, begin, last, node)
        tables.interval_time[row_of(ends, tables.interval_node, count, last, node)] = begin
    else:
        drop_row(ends, tables.interval_time, tables.interval_node, count, before)
        tables.interval_time[row_of(ends, tables.interval_node, count - 1, last, node)] = first
        drop_row(begins, tables.next_ends, tables.next_node, count, after)
        tables.next_ends[row_of(begins, tables.next_node, count - 1, first, node)] = last
        tables.head[INTERVALS] -= 1


@compiled
def first_at(moments: Floats, count: int, bound: float) -> int:
    """Return the first of so many moments in order that is not before one."""
    low, left = _at(0), _at(count)
    while left > _at(0):
        half = left >> _at(1)
        before = moments[low + half] < bound  # nobody can guess which, so nothing is to branch on it
        low, left = low + half + _at(1) if before else low, left - half - _at(1) if before else half
    return _long(low)


@compiled
def row_of(moments: Floats, nodes: Longs, count: int, moment: float, node: int) -> int:
    """Return the row with this time and node among rows in order of time; NONE if there is none."""
    row, last = _at(first_at(moments, count, moment)), _at(count)
    while row < last and moments[row] == moment:
        if nodes[row] == node:
            return _long(row)
        row += _at(1)
    return _long(NONE)


@compiled
def insert_row(moments: Floats, others: Floats, nodes: Longs, row: int, moment: float, other: float, node: int) -> None:
    """Insert a row in order of moments among those before a place, which is free."""
    at = _at(row)
    while at > _at(0) and moments[at - _at(1)] > moment:
        moments[at], others[at], nodes[at] = moments[at - _at(1)], others[at - _at(1)], nodes[at - _at(1)]
        at -= _at(1)
    moments[at], others[at], nodes[at] = moment, other, node


@compiled
def move_later(moments: Floats, others: Floats, nodes: Longs, count: int, row: int, moment: float) -> None:
    """Give a row a later time, and move it to its place in the order of time."""
    at, last = _at(row), _at(count - 1)
    other, node = others[at], nodes[at]
    while at < last and moments[at + _at(1)] <= moment:
        moments[at], others[at], nodes[at] = moments[at + _at(1)], others[at + _at(1)], nodes[at + _at(1)]
        at += _at(1)
    moments[at], others[at], nodes[at] = moment, other, node


@compiled
def drop_row(moments: Floats, others: Floats, nodes: Longs, count: int, row: int) -> None:
    """Remove a row."""
    at, last = _at(row), _at(count - 1)
    while at < last:
        moments[at], others[at], nodes[at] = moments[at + _at(1)], others[at + _at(1)], nodes[at + _at(1)]
        at += _at(1)

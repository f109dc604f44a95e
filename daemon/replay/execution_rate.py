"""How fast a job runs, compiled: by its size, its spread, its neighbours, its CPUs and memory.

Size and spread are settled when it starts. Neighbours come and go and grants change, so where they matter the speed of
every running job is computed again after each instant; where they do not, that costs nothing.
"""

from __future__ import annotations

import numpy as np

from .arrays import DIVIDED, NOW, RUNNING_JOBS, STEP, Floats, Longs, Records, State
from .compiled import compiled
from .queue import order_again, seat_again
from .slots import on_one_island

SLOWEST = 1e-3
"""Speed of a job that is starved of everything: it still ends."""


@compiled
def span(nodes: Records, chosen: Longs, count: int) -> int:
    """Return how far apart nodes are: 0 one node, 1 one leaf switch, 2 one spine, 3 further."""
    level = 0 if count == 1 else 1
    for index in range(1, count):
        if nodes[chosen[index]].spine != nodes[chosen[0]].spine:
            return 3
        if nodes[chosen[index]].leaf != nodes[chosen[0]].leaf:
            level = 2
    return level


@compiled
def level_of(state: State, job: int, count: int) -> int:
    """Return the column of ``LEVELS`` for a job on the ``count`` chosen nodes."""
    if count > 1:
        return 1 + span(state.nodes, state.chosen, count)
    if state.counts[DIVIDED] == 1 and not on_one_island(state.occupant, state.islands, state.chosen[0], job):
        return 1
    return 0


@compiled
def speed_of(state: State, job: int, gpus: int, level: int) -> float:
    """Return the speed of a job on ``gpus`` GPUs at a topology level, relative to its request on one island."""
    row, last = state.jobs[job], state.speed.shape[1] - 1
    wanted = state.speed[row.model, min(row.gpus, last)]
    if wanted <= 0.0:
        return 1.0
    return state.speed[row.model, min(gpus, last)] / wanted * state.spread[row.model, level]


@compiled
def update_rates(state: State) -> None:
    """Set the rates of running jobs to what neighbours and grants allow from now on; book the work done before.

    A speed can have changed only where a job came or went.
    """
    for node in range(state.nodes.size):
        if state.nodes[node].stirred == 1:
            state.nodes[node].stirred = 0
            update_rates_on(state, node)
    if state.demand[0] > 0.0:
        update_rates_without_gpus(state)


@compiled
def update_rates_on(state: State, node: int) -> None:
    """Update the rates of the jobs that hold GPUs of a node."""
    before = -1
    for slot in range(state.occupant.shape[1]):
        job = state.occupant[node, slot]
        if job >= 0 and job != before and update_rate(state, job):
            seat_again(state.heap, state.jobs, job, state.counts[RUNNING_JOBS])
        before = job


@compiled
def update_rates_without_gpus(state: State) -> None:
    """Update the rates of the jobs that hold no GPU."""
    changed = False
    for index in range(state.counts[RUNNING_JOBS]):
        job = state.heap[index]
        if state.jobs[job].gpus_held == 0 and update_rate(state, job):
            changed = True
    if changed:
        order_again(state.heap, state.jobs, state.counts[RUNNING_JOBS])


@compiled
def update_rate(state: State, job: int) -> bool:
    """Set a running job's rate to its present speed; return whether it has changed."""
    row, rate, now = state.jobs[job], current_rate(state, job), state.clock[NOW]
    if rate == row.rate:
        return False
    row.remaining = max(0.0, row.remaining - (now - row.as_of) * row.rate)
    row.as_of, row.rate = now, rate
    row.end = now + row.remaining / rate
    return True


@compiled
def current_rate(state: State, job: int) -> float:
    """Return the present speed of a running job."""
    row = state.jobs[job]
    for index in range(row.nodes_held):
        state.chosen[index] = state.held[row.held + index].node
    level = level_of(state, job, row.nodes_held)
    return speed_of(state, job, row.gpus_held, level) * max(SLOWEST, company(state, job) * granted(state, job))


@compiled
def company(state: State, job: int) -> float:
    """Return the part of its speed that the neighbours leave to a job, on the node where they leave least."""
    row, least = state.jobs[job], 1.0
    for index in range(row.held, row.held + row.nodes_held):
        node = state.held[index].node
        if state.nodes[node].busy > 1:
            least = min(least, beside(state, job, node))
    return least


@compiled
def beside(state: State, job: int, node: int) -> float:
    """Return the part of its speed that the others on a node leave to a job; jobs without a GPU disturb nobody."""
    left = 1.0
    for slot in range(state.occupant.shape[1]):
        other = state.occupant[node, slot]
        if other < 0 or other == job or not first_slot(state, node, slot):
            continue
        left *= state.company[state.jobs[job].model, state.jobs[other].model]
    return left


@compiled
def first_slot(state: State, node: int, slot: int) -> bool:
    """Tell whether the occupant of a slot has none of the slots before it."""
    seen_before = False
    for earlier in range(slot):
        seen_before = seen_before or state.occupant[node, earlier] == state.occupant[node, slot]
    return not seen_before


@compiled
def granted(state: State, job: int) -> float:
    """Return the speed of a job with the CPUs and memory that it was granted, relative to its request."""
    row, step = state.jobs[job], state.costs[STEP]
    table = state.grants[row.model]
    gpus = np.float64(max(1, row.chunk))
    requested = read_off(table, row.cpus / gpus, row.memory / gpus / step)
    if requested <= 0.0:
        return 1.0
    return read_off(table, row.cpus_held / gpus, row.memory_held / gpus / step) / requested


@compiled
def read_off(table: Floats, across: float, along: float) -> float:
    """Return what a table says at a point; between grid points it is interpolated, beyond the last it stays."""
    across, along = min(across, table.shape[0] - 1.0), min(along, table.shape[1] - 1.0)
    row, column = np.int64(across), np.int64(along)
    below, right = min(row + 1, table.shape[0] - 1), min(column + 1, table.shape[1] - 1)
    upper = table[row, column] + (table[row, right] - table[row, column]) * (along - column)
    lower = table[below, column] + (table[below, right] - table[below, column]) * (along - column)
    return upper + (lower - upper) * (across - row)

"""When a job could start by Slurm 22.05's reckoning: its backfill's look ahead, beside what it has planned for others.

Running jobs are gone by their limits, window by window (``_will_run_test`` of select/cons_tres); plans keep their nodes
whole (``_add_reservation`` of sched/backfill). The time of a plan is a matter of seconds, who may start before it of
hours, so both are followed to the letter.
"""

from __future__ import annotations

import numpy as np

from ..replay.arrays import NOW, RUNNING_JOBS, Ask, State
from ..replay.compiled import compiled
from ..replay.moves import part, site_with
from ..replay.node_selection import least
from ..replay.rules import Place

INTERVAL, WINDOW, RESOLUTION, TESTED = range(4)
"""Places in ``State.weights``."""
LAST, SEEN, CHOSEN = range(3)
"""Places in ``State.mood``: when the last walk was; what had happened by then; how many nodes were chosen."""
WORK, RUNS, PLANS = 1, 32, 48
"""Levels of ``State.imagined``: a site to choose nodes on; what running jobs give back, by node; plans, by node.

In the row of a node at the first level of these, ``busy`` counts what is given back and ``open`` plans.
"""
LEVELS = WORK + RUNS + PLANS
WINDOW_S = 30.0
"""All running jobs that end within a window are gone at once. The first ends so long after the next multiple of this,
each further one twice as long after it as the one before."""
KILL_WAIT_S = 30.0
"""How long a job is given that is past its limit; Slurm's default ``KillWait``."""


@compiled
def clear_plans(state: State) -> None:
    """Plan nothing."""
    for node in range(state.nodes.size):
        state.imagined[WORK, node].open = 0


@compiled
def list_returns(state: State) -> None:
    """Write down by node what running jobs give back, by their limits."""
    for node in range(state.nodes.size):
        state.imagined[WORK, node].busy = 0
    for place in range(state.counts[RUNNING_JOBS]):
        give_back(state, state.estimates[place], place)


@compiled
def give_back(state: State, job: int, place: int) -> None:
    """Write down what a running job gives back, and which in order of their limits it is, behind all before it."""
    row = state.jobs[job]
    for index in range(row.held, row.held + row.nodes_held):
        share, counts = state.held[index], state.imagined[WORK, state.held[index].node]
        # Where more jobs run than there is room for, the last of them leave together.
        entry = state.imagined[WORK + min(counts.busy, RUNS - 1), share.node]
        if counts.busy < RUNS:
            entry.free_gpus = entry.free_cpus = entry.free_memory = 0
            counts.busy += 1
        entry.score = place
        entry.free_gpus += share.gpus
        cpus, memory = row.cpus_held, row.memory_held
        if row.chunk > 0 and share.gpus != row.chunk:
            cpus, memory = -((-cpus * share.gpus) // row.chunk), -((-memory * share.gpus) // row.chunk)
        entry.free_cpus += state.nodes[share.node].cpus if row.whole == 1 else cpus
        entry.free_memory += memory


@compiled
def soonest(state: State, place: Place, ask: Ask, lasts: float) -> float:
    """Return the first moment at which nodes can be had for so long, and choose them; infinite if there is none.

    Slurm looks at the nodes that are free of plans from now on, and if they are too few, or free too late, at those
    that are free of plans once the next plan is over.
    """
    now = state.clock[NOW]
    horizon, begin = now + state.weights[WINDOW], now
    begin_search(state, ask)
    while begin <= horizon:
        nodes, wanted, later, opens = keep_clear(state, begin, lasts)
        if nodes < ask.chunks + ask.rests:
            begin = opens
            continue
        when = np.inf
        if end_of(state, wanted) <= later:
            when = max(begin, will_run(state, place, ask, wanted, later))
        if when == begin or (when <= later and (when > horizon or is_clear(state, when, lasts))):
            return when
        begin = min(when, later)
    return np.inf


@compiled
def begin_search(state: State, ask: Ask) -> None:
    """Write down for each node which running job has to end before it has enough for a part of a job.

    Scratch of the search: in the imagined nodes ``busy`` tells that, ``time`` and ``ends`` when the plans in the way
    are over and when nothing is in the way; at the next level ``time`` tells until when that holds, and ``stirred``
    counts plans that are over.
    """
    for node in range(state.nodes.size):
        row, there = state.imagined[0, node], state.nodes[node]
        usable = there.open == 1 and state.eligible[ask.pool, node] == 1 and there.gpus >= least(ask)
        row.busy = left_by(state, node, ask, least(ask)) if usable else 0
        row.open, row.time, row.ends = 0, np.inf, np.inf
        state.imagined[WORK, node].time = -np.inf if usable else np.inf
        state.imagined[WORK, node].stirred = 0


@compiled
def keep_clear(state: State, begin: float, lasts: float) -> tuple[int, int, float, float]:
    """Open the imagined nodes on which nothing is planned for so long from a moment on, which only ever grows.

    Return how many they are, which running job has to end before one of them has enough, when the next plan is over
    that is in the way, and when one more node can be opened.
    """
    count, wanted, later, opens = 0, state.counts[RUNNING_JOBS], np.inf, np.inf
    for node in range(state.nodes.size):
        if state.imagined[WORK, node].time <= begin:
            look_ahead(state, node, begin, lasts)
        row = state.imagined[0, node]
        if row.open == 1:
            count, wanted = count + 1, min(wanted, row.busy)
        else:
            later, opens = min(later, row.time), min(opens, row.ends)
    return count, wanted, later, opens


@compiled
def look_ahead(state: State, node: int, begin: float, lasts: float) -> None:
    """Find what is planned for a node from a moment on."""
    row, notes = state.imagined[0, node], state.imagined[WORK, node]
    while notes.stirred < notes.open and state.imagined[WORK + RUNS + notes.stirred, node].ends <= begin:
        notes.stirred += 1
    over, until, holds = begin, begin, np.inf
    for index in range(notes.stirred, notes.open):
        entry = state.imagined[WORK + RUNS + index, node]
        if entry.time > begin + lasts:
            holds = min(holds, entry.time - lasts)
        if entry.time > until + lasts:
            break
        if entry.ends > until:
            if entry.time <= begin + lasts and (over == begin or entry.time <= over):
                over = entry.ends
            until = entry.ends
    row.open = 1 if until == begin else 0
    row.time, row.ends = over, until
    notes.time = min(holds, over) if row.open == 0 else holds


@compiled
def will_run(state: State, place: Place, ask: Ask, wanted: int, latest: float) -> float:
    """Return when a job could start on the open nodes, running jobs being gone by their limits; choose its nodes.

    At least the ``wanted``-th of them has to end; where that is too late no nodes are chosen. A window ends before the
    next job that ends beyond it; but where the last of a window is one of other nodes, Slurm does not look when the one
    after it ends, and takes that for gone, too.
    """
    now, running = state.clock[NOW], state.counts[RUNNING_JOBS]
    if wanted < 0 and try_at(state, place, ask, -1):
        return now
    index, width = following_open(state, 0), WINDOW_S
    base = (np.floor(end_of(state, index) / WINDOW_S) + 1.0) * WINDOW_S
    while index < running:
        last = window_end(state, following_open(state, index), base + width)
        if last >= wanted:
            end = end_of(state, last)
            if end <= now:
                end = max(end + KILL_WAIT_S, now + 1.0)
            if end > latest or try_at(state, place, ask, last):
                return end
        index, width = last + 1, width * 2.0
        while index < running and end_of(state, index) > base + width:
            width *= 2.0
    return np.inf


@compiled
def window_end(state: State, first: int, bound: float) -> int:
    """Return the place of the last running job of open nodes in a window whose first is given."""
    running = state.counts[RUNNING_JOBS]
    beyond = min(max(first + 1, first_beyond(state, bound)), running)
    last = beyond - 1
    if not touches_open(state, state.estimates[last]):
        last = following_open(state, beyond)
    if last == running:
        last = beyond - 1
        while last > 0 and not touches_open(state, state.estimates[last]):
            last -= 1
    return last


@compiled
def end_of(state: State, place: int) -> float:
    """Return when a running job is gone by its limit, given its place among them by that; at once before the first."""
    if place < 0:
        return -np.inf
    return float(state.jobs[state.estimates[place]].estimate) if place < state.counts[RUNNING_JOBS] else np.inf


@compiled
def first_beyond(state: State, bound: float) -> int:
    """Return the place of the first running job that ends beyond a bound."""
    low, high = 0, state.counts[RUNNING_JOBS]
    while low < high:
        middle = (low + high) // 2
        if state.jobs[state.estimates[middle]].estimate > bound:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def following_open(state: State, place: int) -> int:
    """Return the place of the first running job from one on that holds a part of an open node."""
    while place < state.counts[RUNNING_JOBS] and not touches_open(state, state.estimates[place]):
        place += 1
    return place


@compiled
def touches_open(state: State, job: int) -> bool:
    """Tell whether a running job holds a part of an open node."""
    row = state.jobs[job]
    for index in range(row.held, row.held + row.nodes_held):
        if state.imagined[0, state.held[index].node].open == 1:
            return True
    return False


@compiled
def left_by(state: State, node: int, ask: Ask, gpus: int) -> int:
    """Return which running job has to end before a node has enough for a part of a job; past the last if none will."""
    row = state.nodes[node]
    cpus, memory = part(ask.cpus, ask, gpus), part(ask.memory, ask, gpus)
    if ask.whole == 1:
        gpus, cpus = row.gpus, row.cpus
    left_gpus, left_cpus, left_memory = gpus - row.free_gpus, cpus - row.free_cpus, memory - row.free_memory
    place = -1
    for index in range(state.imagined[WORK, node].busy):
        if left_gpus <= 0 and left_cpus <= 0 and left_memory <= 0:
            return place
        entry = state.imagined[WORK + index, node]
        left_gpus, left_cpus = left_gpus - entry.free_gpus, left_cpus - entry.free_cpus
        left_memory, place = left_memory - entry.free_memory, entry.score
    return place if left_gpus <= 0 and left_cpus <= 0 and left_memory <= 0 else state.counts[RUNNING_JOBS]


@compiled
def try_at(state: State, place: Place, ask: Ask, last: int) -> bool:
    """Tell whether a job fits on the open nodes once running jobs up to one have ended, and choose its nodes."""
    nodes = state.imagined[0]
    for node in range(nodes.size):
        if nodes[node].open == 1:
            row, there = nodes[node], state.nodes[node]
            row.free_gpus, row.free_cpus, row.free_memory = there.free_gpus, there.free_cpus, there.free_memory
            for index in range(state.imagined[WORK, node].busy):
                entry = state.imagined[WORK + index, node]
                if entry.score > last:
                    break
                row.free_gpus, row.free_cpus = row.free_gpus + entry.free_gpus, row.free_cpus + entry.free_cpus
                row.free_memory += entry.free_memory
    count = place(site_with(state, nodes), ask, state.chosen)
    state.mood[CHOSEN] = count
    return count > 0


@compiled
def is_clear(state: State, when: float, lasts: float) -> bool:
    """Tell whether nothing is planned on the chosen nodes for so long."""
    begin, end = plan_of(state, when, lasts)
    for place in range(int(state.mood[CHOSEN])):
        node = state.chosen[place]
        for index in range(state.imagined[WORK, node].open):
            entry = state.imagined[WORK + RUNS + index, node]
            if entry.ends > begin and entry.time < end:
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
    begin, end = plan_of(state, when, lasts)
    for index in range(count):
        insert_plan(state, state.chosen[index], begin, end)


@compiled
def insert_plan(state: State, node: int, begin: float, end: float) -> None:
    """Keep a node for a while, among the plans for it by time; where there is no room for more it is left out."""
    count = state.imagined[WORK, node].open
    if count == PLANS:
        return
    state.imagined[WORK, node].open = count + 1
    index = count
    while index > 0 and state.imagined[WORK + RUNS + index - 1, node].time > begin:
        entry, before = state.imagined[WORK + RUNS + index, node], state.imagined[WORK + RUNS + index - 1, node]
        entry.time, entry.ends = before.time, before.ends
        index -= 1
    entry = state.imagined[WORK + RUNS + index, node]
    entry.time, entry.ends = begin, end

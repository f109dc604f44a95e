"""Backfill as Slurm 22.05 does it: a quick pass whenever something happens, and now and then a walk that plans.

The quick pass starts jobs in order and stops in a partition at the first that does not fit. The walk takes place
``bf_interval`` after the last one, if anything has happened since: in order, each job is started, or planned for the
first moment from which nodes are free for its whole limit, running jobs being gone by theirs. A plan keeps its nodes
whole, begins and ends at multiples of ``bf_resolution``, and is dropped when it begins later than ``bf_window``.

A plan matters only to who might start now, so the walk ends when nobody that is left could.
"""

from __future__ import annotations

import numpy as np

from ..replay.arrays import ENDED_JOBS, NOW, RUNNING_JOBS, WAITING_JOBS, WAKE, Ask, PlacementView, State
from ..replay.compiled import compiled, compiled_apart
from ..replay.moves import ask_of, part, site_with, start
from ..replay.node_selection import least
from ..replay.queue import NONE, following
from ..replay.queue_groups import SHARED_NODES
from ..replay.rules import Key, Place
from ..replay.state import ClusterState
from .registry import backfill
from .strict import start_heads

INTERVAL, WINDOW, RESOLUTION, TESTED = range(4)
"""Places in ``State.weights``."""
LAST, SEEN = 0, 1
"""Places in ``State.mood``: when the last walk was; what had happened by then."""
WORK, RUNS, PLANS = 1, 24, 48
"""Levels of ``State.imagined``: a site to choose nodes on; what running jobs give back, by node; plans, by node.

In the row of a node at the first level of these, ``busy`` counts what is given back and ``open`` plans.
"""
LEVELS = WORK + RUNS + PLANS
WINDOW_S = 30.0
"""Running jobs that end within this of each other are taken to end together, with the last; in Slurm's own look ahead
(``_will_run_test``) each further such window is twice as long, so that plans for far away begin late."""
SOON_S = 1.0
"""How much longer a job is expected to run that is past its limit."""


def ready(state: ClusterState) -> State:
    """Return the arrays with the site's settings of the backfill in them."""
    told = state.cluster.scheduling.backfill
    return state.arrays._replace(
        weights=np.array([told.interval_s, told.window_s, told.resolution_s, float(told.jobs_tested)]),
        mood=np.array([-np.inf, -1.0]))


@backfill("slurm-backfill", estimates=True, levels=LEVELS, lines=SHARED_NODES, turns=True, ready=ready)
def slurm_backfill(state: State, key: Key, place: Place) -> None:
    """Start jobs in order; when it is time for it, plan those that wait and start whoever delays none."""
    start_heads(state, place, True)
    seen = float(state.counts[ENDED_JOBS] * 2 + state.counts[RUNNING_JOBS] + state.counts[WAITING_JOBS])
    if state.counts[WAITING_JOBS] == 0 or seen == state.mood[SEEN]:
        return
    due = state.mood[LAST] + state.weights[INTERVAL]
    if state.clock[NOW] < due:
        state.clock[WAKE] = min(state.clock[WAKE], due)
        return
    walk_all(state, place)
    state.mood[LAST] = state.clock[NOW]
    state.mood[SEEN] = float(state.counts[ENDED_JOBS] * 2 + state.counts[RUNNING_JOBS] + state.counts[WAITING_JOBS])


@compiled_apart
def walk_all(state: State, place: Place) -> None:
    """Plan the jobs that wait, in order, as long as one of them might start now."""
    count, gpus = list_candidates(state)
    if count == 0:
        return
    lay_out(state)
    room = longest_room(state, gpus)
    for index in range(count):
        if room < state.keys[index]:
            return
        job = state.listed[index]
        ask, row_limit = ask_of(state, job), state.jobs[job].limit
        alone = ask.chunks + ask.rests == 1
        when = soonest(state, ask, row_limit) if alone else earliest(state, ask, row_limit)
        if when > state.clock[NOW] + state.weights[WINDOW]:
            continue
        if when > state.clock[NOW]:
            keep(state, place, ask, when, row_limit)
            room = longest_room(state, gpus)
        elif take_now(state, place, job, ask):
            room = longest_room(state, gpus)


@compiled
def list_candidates(state: State) -> tuple[int, int]:
    """List the jobs to look at, in order, up to the last that might start now.

    ``keys`` gets the shortest limit of those that might, from each on. Return how many are listed, and the fewest GPUs
    that one of those that might wants on a node.
    """
    gpus, cpus, memory = most_free(state)
    for line in range(state.lines.size):
        state.lines[line].head = following(state, line, 0)
    count, last, fewest = 0, 0, 1 << 40
    while count < state.weights[TESTED]:
        job = pop_first(state)
        if job == NONE:
            break
        row = state.jobs[job]
        state.listed[count] = job
        might = least(ask_of(state, job)) <= gpus and row.cpus <= cpus and row.memory <= memory
        might = might or (row.rests > 0 and row.rest <= gpus)
        state.keys[count] = row.limit if might else np.inf
        count += 1
        if might:
            last, fewest = count, min(fewest, least(ask_of(state, job)))
    for index in range(last - 2, -1, -1):
        state.keys[index] = min(state.keys[index], state.keys[index + 1])
    return last, fewest


@compiled
def most_free(state: State) -> tuple[int, int, int]:
    """Return the most GPUs, CPUs and bytes that are free on any open node."""
    gpus, cpus, memory = -1, -1, -1
    for node in range(state.nodes.size):
        row = state.nodes[node]
        if row.open == 1:
            gpus, cpus, memory = max(gpus, row.free_gpus), max(cpus, row.free_cpus), max(memory, row.free_memory)
    return gpus, cpus, memory


@compiled
def pop_first(state: State) -> int:
    """Return the next job in order of all lines; NONE when there is none."""
    best = NONE
    for line in range(state.lines.size):
        head = state.lines[line].head
        if head != NONE and (best == NONE or head < state.lines[best].head):
            best = line
    if best == NONE:
        return NONE
    rank = state.lines[best].head
    state.lines[best].head = following(state, best, rank + 1)
    return int(state.order[rank])


@compiled
def lay_out(state: State) -> None:
    """Write down by node what running jobs give back and when; nothing is planned yet."""
    counts = state.imagined[WORK]
    for node in range(counts.size):
        counts[node].busy = counts[node].open = 0
    index, window, running = 0, WINDOW_S, state.counts[RUNNING_JOBS]
    while index < running:
        first, last = state.jobs[state.estimates[index]].estimate, index
        while last + 1 < running and state.jobs[state.estimates[last + 1]].estimate <= first + window:
            last += 1
        end = max(state.jobs[state.estimates[last]].estimate, state.clock[NOW] + SOON_S)
        while index <= last:
            give_back(state, state.estimates[index], end)
            index += 1
        window *= 2.0


@compiled
def give_back(state: State, job: int, when: float) -> None:
    """Write down what a running job gives back and when, behind all that ended before it."""
    row = state.jobs[job]
    for index in range(row.held, row.held + row.nodes_held):
        share = state.held[index]
        count = min(state.imagined[WORK, share.node].busy, RUNS - 1)
        entry = state.imagined[WORK + count, share.node]
        if count == state.imagined[WORK, share.node].busy:
            entry.free_gpus = entry.free_cpus = entry.free_memory = 0
            state.imagined[WORK, share.node].busy += 1
        # Where more jobs run than there is room for, the last of them leave together.
        entry.time = when
        entry.free_gpus += share.gpus
        cpus, memory = row.cpus_held, row.memory_held
        if row.chunk > 0 and share.gpus != row.chunk:
            cpus, memory = -((-cpus * share.gpus) // row.chunk), -((-memory * share.gpus) // row.chunk)
        entry.free_cpus += state.nodes[share.node].cpus if row.whole == 1 else cpus
        entry.free_memory += memory


@compiled
def first_gap(state: State, node: int, time: float, lasts: float) -> float:
    """Return the first moment from ``time`` on at which no plan needs a node for so long."""
    for index in range(state.imagined[WORK, node].open):
        entry = state.imagined[WORK + RUNS + index, node]
        if entry.ends > time:
            if entry.time > time + lasts:
                return time
            time = entry.ends
    return time


@compiled
def free_from(state: State, node: int, ask: Ask, gpus: int, latest: float) -> float:
    """Return when running jobs leave a node enough for a part of a job; infinite if they do not by the latest."""
    row = state.nodes[node]
    if row.open == 0 or state.eligible[ask.pool, node] == 0 or row.gpus < gpus:
        return np.inf
    cpus, memory = part(ask.cpus, ask, gpus), part(ask.memory, ask, gpus)
    if ask.whole == 1:
        gpus, cpus = row.gpus, row.cpus
    left_gpus, left_cpus, left_memory = gpus - row.free_gpus, cpus - row.free_cpus, memory - row.free_memory
    time = state.clock[NOW]
    for index in range(state.imagined[WORK, node].busy):
        if left_gpus <= 0 and left_cpus <= 0 and left_memory <= 0:
            return time
        entry = state.imagined[WORK + index, node]
        left_gpus, left_cpus = left_gpus - entry.free_gpus, left_cpus - entry.free_cpus
        left_memory -= entry.free_memory
        time = entry.time
        if time > latest:
            return np.inf
    return time if left_gpus <= 0 and left_cpus <= 0 and left_memory <= 0 else np.inf


@compiled
def soonest(state: State, ask: Ask, lasts: float) -> float:
    """Return the same as :func:`earliest`, of a job on one node: nodes that are free later than another are passed."""
    nodes, best = state.imagined[0], state.clock[NOW] + state.weights[WINDOW]
    for node in range(nodes.size):
        row = nodes[node]
        time = free_from(state, node, ask, ask.gpus, best)
        if time < np.inf:
            time = first_gap(state, node, time, lasts)
        row.time = row.ends = time
        best = min(best, time)
    for node in range(nodes.size):
        if nodes[node].time == best:
            return best
    return np.inf


@compiled
def earliest(state: State, ask: Ask, lasts: float) -> float:
    """Return the first moment from which enough nodes are free for so long; infinite beyond the window.

    In ``imagined[0]`` of each node ``time`` and ``ends`` then tell from when it is free for a full part and a rest.
    """
    nodes, parts, horizon = state.imagined[0], ask.chunks + ask.rests, state.clock[NOW] + state.weights[WINDOW]
    for node in range(nodes.size):
        nodes[node].time = free_from(state, node, ask, ask.gpus, horizon)
        nodes[node].ends = free_from(state, node, ask, ask.rest, horizon) if ask.rests > 0 else nodes[node].time
    moment = state.clock[NOW]
    while moment <= horizon:
        full, some, upcoming = 0, 0, np.inf
        for node in range(nodes.size):
            row = nodes[node]
            if row.ends == np.inf and row.time == np.inf:
                continue
            row.time = first_gap(state, node, max(row.time, moment), lasts) if row.time < np.inf else np.inf
            row.ends = first_gap(state, node, max(row.ends, moment), lasts) if ask.rests > 0 else row.time
            full, some = full + (row.time <= moment), some + (row.ends <= moment)
            if row.ends > moment:
                upcoming = min(upcoming, row.ends)
            if row.time > moment:
                upcoming = min(upcoming, row.time)
        if full >= ask.chunks and some >= parts:
            return moment
        moment = upcoming
    return np.inf


@compiled
def open_up(state: State, when: float, now: bool) -> PlacementView:
    """Return the imagined site at a moment: open are the nodes that a job could have then."""
    nodes = state.imagined[0]
    for node in range(nodes.size):
        row, there = nodes[node], state.nodes[node]
        row.open = 1 if row.time <= when or row.ends <= when else 0
        row.free_gpus, row.free_cpus = (there.free_gpus, there.free_cpus) if now else (there.gpus, there.cpus)
        row.free_memory = there.free_memory if now else there.memory
    return site_with(state, nodes)


@compiled
def take_now(state: State, place: Place, job: int, ask: Ask) -> bool:
    """Start a job on nodes that nobody has planned for."""
    count = place(open_up(state, state.clock[NOW], True), ask, state.chosen)
    if count == 0:
        return False
    start(state, job, count)
    for index in range(count):
        insert_return(state, state.chosen[index], job, state.shares[index])
    return True


@compiled
def insert_return(state: State, node: int, job: int, gpus: int) -> None:
    """Write down what a job that starts now gives back, among the others by time."""
    row, count = state.jobs[job], state.imagined[WORK, node].busy
    if count < RUNS:
        state.imagined[WORK, node].busy = count + 1
    index = min(count, RUNS - 1)
    while index > 0 and state.imagined[WORK + index - 1, node].time > row.estimate:
        entry, before = state.imagined[WORK + index, node], state.imagined[WORK + index - 1, node]
        entry.time, entry.free_gpus = before.time, before.free_gpus
        entry.free_cpus, entry.free_memory = before.free_cpus, before.free_memory
        index -= 1
    entry = state.imagined[WORK + index, node]
    entry.time, entry.free_gpus = row.estimate, gpus
    entry.free_cpus = state.nodes[node].cpus if row.whole == 1 else row.cpus_held
    entry.free_memory = row.memory_held


@compiled
def keep(state: State, place: Place, ask: Ask, when: float, lasts: float) -> None:
    """Plan a job: keep its nodes whole from then until its limit."""
    count = place(open_up(state, when, False), ask, state.chosen)
    resolution = state.weights[RESOLUTION]
    begin, end = np.floor(when / resolution) * resolution, np.ceil((when + lasts) / resolution) * resolution
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


@compiled
def longest_room(state: State, gpus: int) -> float:
    """Return for how long any node with so many free GPUs, and CPUs and memory, is free of plans."""
    longest, now = -1.0, state.clock[NOW]
    for node in range(state.nodes.size):
        row, counts = state.nodes[node], state.imagined[WORK, node]
        if row.open == 1 and row.free_cpus > 0 and row.free_memory > 0 and row.free_gpus >= gpus:
            gap = np.inf if counts.open == 0 else state.imagined[WORK + RUNS, node].time - now
            longest = max(longest, gap)
    return longest

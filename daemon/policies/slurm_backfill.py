"""Backfill as Slurm 22.05 does it: a quick pass whenever something happens, and now and then a walk that plans.

The quick pass starts jobs in order and stops in a partition at the first that does not fit. The walk takes place
``bf_interval`` after the last one, if anything has happened since, to jobs or to nodes: in order, each job is started,
or planned for the first moment from which nodes are free for its whole limit, running jobs being gone by theirs. A plan
keeps its nodes whole, begins and ends at multiples of ``bf_resolution``, and is dropped when it begins later than
``bf_window``.

A plan matters only to jobs that might start now, so the walk ends when none that is left could: plans only take room.
"""

from __future__ import annotations

import numpy as np

from ..replay.arrays import CHANGED, ENDED_JOBS, NOW, RUNNING_JOBS, WAITING_JOBS, WAKE, State
from ..replay.compiled import compiled, compiled_apart
from ..replay.moves import ask_of, fits, site_of, start
from ..replay.node_selection import least
from ..replay.queue import NONE, following
from ..replay.queue_groups import SHARED_NODES
from ..replay.rules import Key, Place, Walk
from ..replay.state import ClusterState
from .registry import backfill
from .slurm_earliest_start import WORK, first_moment
from .slurm_plans import INTERVAL, LOOKS, TESTED, WINDOW, clear_plans, keep, plan_of
from .slurm_preemption import PREEMPTS, plan_or_start, ready_to_preempt, start_in_line, take_back
from .slurm_queue import let_preemptors_pass
from .slurm_tables import (
    AGAIN,
    AT_ONCE,
    CHOSEN,
    COLUMNS,
    LAST,
    SEEN,
    SIZE,
    BackfillTables,
    kind_of,
    list_returns,
    rooms,
    tables_of,
)
from .strict import start_heads


def ready(state: ClusterState) -> State:
    """Return the arrays with the site's settings of the backfill in them."""
    settings = state.cluster.scheduling.backfill
    arrays = ready_to_preempt(state, [settings.interval_s, settings.window_s, settings.resolution_s,
                                      float(settings.jobs_tested), settings.looks_s],
                              [settings.began_s, -1.0, 0.0, np.inf])
    longs, numbers = rooms(len(state.cluster), len(state.workload))
    scratch = np.zeros(numbers)
    scratch[:arrays.scratch.size] = arrays.scratch
    return arrays._replace(scratch=scratch, outlook=np.zeros(longs, np.int64))


def where_jobs_preempt(state: ClusterState, sorted_so: bool) -> Walk | None:
    """Return the walk that preempts others, where anybody may; it takes half a minute to compile."""
    if not state.arrays.weights[PREEMPTS]:
        return None
    return backfill_with_room if sorted_so else sort_and_backfill_with_room


@backfill("slurm-backfill", estimates=True, lines=SHARED_NODES, turns=True, ready=ready, instead=where_jobs_preempt)
def slurm_backfill(state: State, key: Key, place: Place) -> None:
    """Start jobs in order; when it is time for it, plan those that wait and start each that delays none."""
    if looks(state):
        start_heads(state, place, True)
    if walk_is_due(state):
        walk_all(state, place)
        note_walk(state)


@compiled
def looks(state: State) -> bool:
    """Tell whether the quick pass looks now; else see to it that it does when it is time."""
    every, now = state.weights[LOOKS], state.clock[NOW]
    if every == 0.0 or np.floor(now / every) * every == now:
        return True
    state.clock[WAKE] = min(state.clock[WAKE], (np.floor(now / every) + 1.0) * every)
    return False


@compiled
def next_walk(state: State) -> float:
    """Return when the next walk may be: an interval after the last, or so many looks later that it is not over yet."""
    due, every = state.scratch[LAST] + state.weights[INTERVAL], state.weights[LOOKS]
    if every == 0.0 or due >= state.clock[NOW] or state.scratch[LAST] == -np.inf:
        return float(due)
    return float(due + np.ceil((state.clock[NOW] - due) / every - 1e-6) * every)


@compiled
def walk_is_due(state: State) -> bool:
    """Tell whether to walk now; where that is too early, see to it that it is done when it is time."""
    if state.counts[CHANGED] == 1:  # numbers of jobs do not tell of nodes that came, failed or are reserved no more
        state.counts[CHANGED], state.scratch[SEEN] = 0, -1.0
    if state.counts[WAITING_JOBS] == 0 or happened(state) == state.scratch[SEEN]:
        return False
    due = next_walk(state)
    if state.clock[NOW] < due:
        state.clock[WAKE] = min(state.clock[WAKE], due)
    return state.clock[NOW] >= due


@compiled
def note_walk(state: State) -> None:
    """Note that a walk is over, and what had happened by then."""
    state.scratch[LAST], state.scratch[SEEN] = state.clock[NOW], happened(state)


@compiled
def happened(state: State) -> float:
    """Return a number that another one follows upon when a job comes, starts or ends."""
    return float(state.counts[ENDED_JOBS] * 2 + state.counts[RUNNING_JOBS] + state.counts[WAITING_JOBS])


def sort_and_backfill_with_room(state: State, key: Key, place: Place) -> None:
    """Let a job that may preempt another go before it, in an order that does not see to it; then start and plan."""
    take_back(state)
    let_preemptors_pass(state, key)
    start_and_plan(state, place)


def backfill_with_room(state: State, key: Key, place: Place) -> None:
    """Start jobs in order and plan those that wait, as ``slurm_backfill`` does, where jobs may preempt others."""
    take_back(state)
    start_and_plan(state, place)


@compiled_apart
def start_and_plan(state: State, place: Place) -> None:
    """Start jobs in order, and when it is time for it, plan those that wait."""
    if state.scratch[AGAIN] <= state.clock[NOW]:
        state.scratch[AGAIN], state.scratch[SEEN] = np.inf, -1.0
    if looks(state):
        start_in_line(state, place)
    if walk_is_due(state):
        made = walk_with_room(state, place)
        note_walk(state)
        if made:
            state.scratch[SEEN] = -1.0
            start_in_line(state, place)
            state.clock[WAKE] = min(state.clock[WAKE], state.clock[NOW] + state.weights[INTERVAL])
    state.clock[WAKE] = min(state.clock[WAKE], take_back(state), state.scratch[AGAIN])


@compiled
def walk_with_room(state: State, place: Place) -> bool:
    """Plan all jobs that wait, in order, or start them, or make room for them; tell whether room was made."""
    for line in range(state.lines.size):
        state.lines[line].head = following(state, line, 0)
    count, made = 0, False
    while count < state.weights[TESTED]:
        job = pop_first(state)
        if job == NONE:
            break
        state.listed[count] = job
        count += 1
    clear_plans(state)
    list_returns(state)
    for node in range(state.nodes.size):
        state.imagined[WORK, node].ends = -np.inf
    for index in range(count):
        made = plan_or_start(state, place, state.listed[index]) or made
    return made


@compiled_apart
def walk_all(state: State, place: Place) -> None:
    """Plan the jobs that wait, in order, as long as one of them might start now."""
    count, gpus = list_candidates(state)
    if count == 0:
        return
    clear_plans(state)
    list_returns(state)
    tables = tables_of(state)
    room, fresh = longest_room(state, tables, gpus), True
    for index in range(count):
        while fresh and count > index and not could_start(state, tables, state.listed[count - 1]):
            count -= 1
        if count == index or room < state.keys[index]:
            return
        job = state.listed[index]
        ask, row_limit = ask_of(state, job), state.jobs[job].limit
        when = first_moment(state, tables, place, ask, row_limit)
        fresh = False
        if when > state.clock[NOW] + state.weights[WINDOW]:
            continue
        nodes = int(state.scratch[CHOSEN])
        if when > state.clock[NOW]:
            fresh = takes_room(state, tables, gpus, nodes, plan_of(state, when, row_limit)[0])
            keep(state, nodes, when, row_limit)
        else:
            fresh = True
            start(state, job, nodes)
        if fresh:
            room = longest_room(state, tables, gpus)
            if index + 1 == count or room < state.keys[index + 1]:
                return
        if when <= state.clock[NOW]:
            list_returns(state)


@compiled
def takes_room(state: State, tables: BackfillTables, gpus: int, count: int, begin: float) -> bool:
    """Tell whether a plan is the first on any chosen node on which so many GPUs are free now."""
    takes = False
    for index in range(count):
        node = state.chosen[index]
        takes = takes or (state.nodes[node].free_gpus >= gpus and tables.first[node] > begin)
    return takes


@compiled
def could_start(state: State, tables: BackfillTables, job: int) -> bool:
    """Tell whether a job fits on what is free now on nodes on which nothing is planned until its limit."""
    ask, site, until = ask_of(state, job), site_of(state), state.clock[NOW] + state.jobs[job].limit
    kind, chunks, parts = kind_of(state, tables, ask), 0, 0
    begin = kind * state.nodes.size
    for index in range(begin, begin + tables.kinds[COLUMNS * kind + SIZE]):
        node = tables.ranked[index]
        if tables.needs[begin + node] != AT_ONCE or parts == ask.chunks + ask.rests == chunks:
            break
        if tables.first[node] > until or tables.plans_on[node] == 0:
            parts += 1
            chunks += ask.rests == 0 or fits(site, node, ask, ask.gpus)
    return chunks >= ask.chunks and parts >= ask.chunks + ask.rests


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
def longest_room(state: State, tables: BackfillTables, gpus: int) -> float:
    """Return for how long any node with so many free GPUs, and CPUs and memory, is free of plans."""
    longest, now = -1.0, state.clock[NOW]
    for node in range(state.nodes.size):
        row = state.nodes[node]
        if row.open == 1 and row.free_cpus > 0 and row.free_memory > 0 and row.free_gpus >= gpus:
            longest = max(longest, tables.first[node] - now)
    return longest

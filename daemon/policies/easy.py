"""EASY backfill: the first job that has to wait gets a reservation, others may pass it if they do not delay it.

Node level: the reservation is a set of nodes at the *shadow time*, when enough running jobs will have reached their
limits. A later job may start if it ends by then, or if it fits beside the reservation on the nodes it takes
(Lifka 1995; Mu'alem & Feitelson, TPDS 2001, there by counts). Partitions that share nodes are one line with one
reservation, so that none delays what another was promised.
"""

from __future__ import annotations

import numpy as np

from ..replay.arrays import DEPTH, MAX_STARTS, NOW, RUNNING_JOBS, STARTED, Ask, Longs, PlacementView, Records, State
from ..replay.compiled import compiled
from ..replay.moves import ask_of, fits, held_by, site_of, site_with, start, take
from ..replay.queue import NONE, following
from ..replay.queue_groups import SHARED_NODES
from ..replay.rules import Key, Place
from .registry import backfill
from .strict import start_heads


@compiled
def imagined(state: State, number: int) -> PlacementView:
    """Return a hypothetical copy of the present cluster; there are two, 0 and 1."""
    target = state.imagined[number]
    for node in range(target.size):
        row, now = target[node], state.nodes[node]
        row.open, row.free_gpus, row.ends = now.open, now.free_gpus, now.ends
        row.free_cpus, row.free_memory = now.free_cpus, now.free_memory
    return site_with(state, target)


@compiled
def give_back(state: State, site: PlacementView, job: int, ask: Ask) -> int:
    """Return to ``site`` what a running job holds; tell how many nodes can newly hold a chunk of ``ask``."""
    row, held, opened = state.jobs[job], held_by(state, job), 0
    for index in range(row.held, row.held + row.nodes_held):
        node = state.held[index].node
        before = fits(site, node, ask, ask.gpus)
        take(site.nodes, node, held, state.held[index].gpus, -1)
        if not before and fits(site, node, ask, ask.gpus):
            opened += 1
    return opened


@compiled
def reserve(state: State, place: Place, head: int, spare: PlacementView) -> float:
    """Return the shadow time of a blocked job, leaving in ``spare`` what is free then beside its reservation."""
    ask, able = ask_of(state, head), 0
    for node in range(spare.nodes.size):
        if fits(spare, node, ask, ask.gpus):
            able += 1
    for index in range(state.counts[RUNNING_JOBS]):
        job = state.estimates[index]
        opened = give_back(state, spare, job, ask)
        able += opened
        if able < ask.chunks or (opened == 0 and ask.rests == 0):
            continue
        count = place(spare, ask, state.chosen)
        if count > 0:
            book(spare.nodes, ask, state.chosen, count)
            return max(state.clock[NOW], state.jobs[job].estimate)
    return np.inf


@compiled
def narrow(state: State, spare: PlacementView, both: PlacementView) -> int:
    """Set ``both`` to what is free now and beside the reservation; return the most GPUs free on any open node now."""
    largest = 0
    for node in range(both.nodes.size):
        now, later, row = state.nodes[node], spare.nodes[node], both.nodes[node]
        row.free_gpus = min(now.free_gpus, later.free_gpus)
        row.free_cpus = min(now.free_cpus, later.free_cpus)
        row.free_memory = min(now.free_memory, later.free_memory)
        if now.open == 1 and now.free_gpus > largest:
            largest = now.free_gpus
    return largest


@compiled
def pass_head(state: State, place: Place, line: int, shadow: float, spare: PlacementView) -> None:
    """Start later jobs of a line that do not delay its reservation, looking at most ``DEPTH`` jobs behind it."""
    both = imagined(state, 1)
    largest = narrow(state, spare, both)
    rank = state.lines[line].blocked
    for _ in range(state.counts[DEPTH]):
        rank = following(state, line, rank + 1)
        if rank == NONE or state.counts[STARTED] >= state.counts[MAX_STARTS]:
            return
        job = state.order[rank]
        if state.jobs[job].chunk > largest:
            continue
        if start_beside(state, place, job, state.clock[NOW] + state.jobs[job].limit <= shadow, spare, both):
            largest = narrow(state, spare, both)


@compiled
def start_beside(state: State, place: Place, job: int, short: bool, spare: PlacementView, both: PlacementView) -> bool:
    """Start a job anywhere if it is gone by the shadow time, else only beside the reservation."""
    ask = ask_of(state, job)
    count = place(site_of(state) if short else both, ask, state.chosen)
    if count == 0:
        return False
    if not short:
        book(spare.nodes, ask, state.chosen, count)
    start(state, job, count)
    return True


@compiled
def book(nodes: Records, ask: Ask, chosen: Longs, count: int) -> None:
    """Take a job's needs away from what is free on imagined nodes."""
    for part in range(count):
        take(nodes, chosen[part], ask, ask.gpus if part < ask.chunks else ask.rest, 1)


@backfill("easy", estimates=True, lines=SHARED_NODES)
def easy(state: State, key: Key, place: Place) -> None:
    """Start jobs in order; when one has to wait, let others pass that do not delay its reservation."""
    go_through(state, place)


@compiled
def go_through(state: State, place: Place) -> None:
    """Backfill jobs that already stand in order."""
    start_heads(state, place, True)
    for line in range(state.lines.size):
        rank = state.lines[line].blocked
        if rank == NONE or following(state, line, rank + 1) == NONE:
            continue
        spare = imagined(state, 0)
        shadow = reserve(state, place, state.order[rank], spare)
        pass_head(state, place, line, shadow, spare)

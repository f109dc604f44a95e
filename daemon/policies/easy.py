"""EASY backfill: the first job that has to wait gets a reservation, others may pass it if they do not delay it.

Node level: the reservation is a set of nodes at the *shadow time*, when enough running jobs will have reached their
limits. A later job may start if it ends by then, or if it fits beside the reservation on the nodes it takes (Lifka 1995;
Mu'alem & Feitelson, TPDS 2001, there by counts). Each partition has its own reservation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..replay.arrays import DEPTH, MAX_STARTS, NOW, RUNNING_JOBS, STARTED, Ask, Longs, Nodes, State
from ..replay.compiled import compiled
from ..replay.moves import ask_of, fits, start, take
from ..replay.queue import NONE, following
from .registry import backfill
from .strict import start_heads


@compiled
def free_copy(nodes: Nodes) -> Nodes:
    """Return nodes whose free amounts can be tried on."""
    return Nodes(nodes.gpus, nodes.free_gpus.copy(), nodes.free_cpus.copy(), nodes.free_memory.copy(), nodes.open,
                 nodes.busy, nodes.leaf, nodes.spine, nodes.eligible, nodes.demand, nodes.random)


@compiled
def give_back(state: State, nodes: Nodes, job: int, ask: Ask) -> int:
    """Return to ``nodes`` what a running job holds; tell how many nodes can hold a chunk of ``ask`` that could not before."""
    progress, held, opened = state.progress, ask_of(state.jobs, job), 0
    for index in range(progress.offset[job], progress.offset[job] + progress.width[job]):
        node = progress.node[index]
        before = fits(nodes, node, ask, ask.gpus)
        take(nodes, node, held, progress.share[index], -1)
        if not before and fits(nodes, node, ask, ask.gpus):
            opened += 1
    return opened


@compiled
def reserve(state: State, place: Any, head: int, spare: Nodes) -> float:
    """Return the shadow time of a blocked job, leaving in ``spare`` what is free then beside its reservation."""
    ask, able = ask_of(state.jobs, head), 0
    for node in range(spare.gpus.size):
        if fits(spare, node, ask, ask.gpus):
            able += 1
    for index in range(state.count[RUNNING_JOBS]):
        job = state.running.estimates[index]
        opened = give_back(state, spare, job, ask)
        able += opened
        if able < ask.chunks or (opened == 0 and ask.rest == 0):
            continue
        count = place(spare, ask, state.chosen)
        if count > 0:
            for part in range(count):
                take(spare, state.chosen[part], ask, ask.gpus if part < ask.chunks else ask.rest, 1)
            return max(state.clock[NOW], state.progress.estimate[job])
    return np.inf


@compiled
def narrow(nodes: Nodes, spare: Nodes, both: Nodes) -> int:
    """Set ``both`` to what is free now and beside the reservation; return the most GPUs free on any open node now."""
    largest = 0
    for node in range(nodes.gpus.size):
        both.free_gpus[node] = min(nodes.free_gpus[node], spare.free_gpus[node])
        both.free_cpus[node] = min(nodes.free_cpus[node], spare.free_cpus[node])
        both.free_memory[node] = min(nodes.free_memory[node], spare.free_memory[node])
        if nodes.open[node] == 1 and nodes.free_gpus[node] > largest:
            largest = nodes.free_gpus[node]
    return largest


@compiled
def pass_head(state: State, place: Any, partition: int, shadow: float, spare: Nodes) -> None:
    """Start later jobs of a partition that do not delay its reservation, looking at most ``DEPTH`` jobs behind it."""
    queue, both = state.queue, free_copy(spare)
    largest = narrow(state.nodes, spare, both)
    rank = queue.blocked[partition]
    for _ in range(state.count[DEPTH]):
        rank = following(queue, partition, rank + 1)
        if rank == NONE or state.count[STARTED] >= state.count[MAX_STARTS]:
            return
        job = queue.job[rank]
        if state.jobs.chunk[job] > largest:
            continue
        if start_beside(state, place, job, state.clock[NOW] + state.jobs.limit[job] <= shadow, spare, both):
            largest = narrow(state.nodes, spare, both)


@compiled
def start_beside(state: State, place: Any, job: int, short: bool, spare: Nodes, both: Nodes) -> bool:
    """Start a job anywhere if it is gone by the shadow time, else only beside the reservation."""
    ask = ask_of(state.jobs, job)
    count = place(state.nodes if short else both, ask, state.chosen)
    if count == 0:
        return False
    if not short:
        book(spare, ask, state.chosen, count)
    start(state, job, state.chosen, count)
    return True


@compiled
def book(spare: Nodes, ask: Ask, chosen: Longs, count: int) -> None:
    """Take a job's needs away from what is spare beside the reservation."""
    for part in range(count):
        take(spare, chosen[part], ask, ask.gpus if part < ask.chunks else ask.rest, 1)


@backfill("easy", estimates=True)
def easy(state: State, key: Any, place: Any) -> None:
    """Start jobs in order; when one has to wait, let others pass that do not delay its reservation."""
    start_heads(state, place)
    for partition in range(state.queue.blocked.size):
        rank = state.queue.blocked[partition]
        if rank == NONE or following(state.queue, partition, rank + 1) == NONE:
            continue
        spare = free_copy(state.nodes)
        shadow = reserve(state, place, state.queue.job[rank], spare)
        pass_head(state, place, partition, shadow, spare)

"""The nodes that decide on single-node jobs, and the inputs of their agents, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...replay.arrays import Floats, Longs, Masks
from ...replay.compiled import compiled, compiled_apart
from ..demands import CHUNK, CPUS, MEMORY
from ..placing import FreeResourceArrays, line_up_all
from .levels import REQUESTED
from .network import ACTION_INPUTS, NOMINATED, OF_JOB

LEFTOVER, BESIDE, SPEED, SAVED, FIRST_LEVEL = (ACTION_INPUTS.index(name) for name in (
    "GPUs left over", "beside", "speed", "CPUs saved", "lean"))
MOST_CPUS = 4096
"""More than a node has, so that free GPUs decide a node's rank, and free CPUs only among equals."""


class QueueArrays(NamedTuple):
    """The considered jobs, and the properties of nodes that ``FreeResourceArrays`` lacks."""

    kinds: Longs
    """[job, level]."""
    available: Masks
    """[job, level] which levels are available."""
    demands: Longs
    """[job, level, ...]."""
    inputs: Floats
    """[job, ...] inputs of the job alone."""
    speed: Floats
    """[job, level] logarithm."""
    application: Longs
    total: Longs
    """[node, GPUs, CPUs and bytes], 1 at least."""
    beside: Floats
    """[node, group] jobs of each group that run there; empty where neighbours do not matter."""
    harm: Floats
    """[group, neighbour's] logarithm of the slowdown by such a neighbour."""


@compiled
def _fits(resources: FreeResourceArrays, queue: QueueArrays, job: int, level: int, node: int, beside: bool) -> bool:
    """Tell whether a job of one node fits at a level."""
    return bool(queue.available[job, level] and resources.fits[queue.kinds[job, level], node]
                and not (beside and resources.reserved[node]))


@compiled
def _fits_at_any_level(resources: FreeResourceArrays, queue: QueueArrays, job: int, node: int, beside: bool) -> bool:
    for level in range(queue.kinds.shape[1]):  # noqa: SIM110 (numba compiles no generators here)
        if _fits(resources, queue, job, level, node, beside):
            return True
    return False


@compiled
def _fits_on_any_node(resources: FreeResourceArrays, queue: QueueArrays, job: int, beside: bool) -> bool:
    for node in resources.near:  # noqa: SIM110 (numba compiles no generators here)
        if _fits_at_any_level(resources, queue, job, node, beside):
            return True
    return False


@compiled_apart
def fit_anywhere(resources: FreeResourceArrays, queue: QueueArrays, jobs: Longs, beside: Masks) -> int:
    """Return how many jobs of one node there are before the first that fits nowhere at any level."""
    for place in range(jobs.size):
        if not _fits_on_any_node(resources, queue, jobs[place], beside[place]):
            return place
    return jobs.size


@compiled_apart
def nominate(resources: FreeResourceArrays, queue: QueueArrays, batch: Longs, beside: Masks, nodes: Longs,
             able: Masks) -> int:
    """Fill in the nodes that decide, in rising order, and [node, task and level] what each can take; return how many.

    They are for each task those with the fewest free GPUs, and then CPUs.
    """
    count = 0
    for task in range(batch.size):
        for index in range(_nearest(resources, queue, batch[task], beside[task])):
            count = _insert(nodes, count, resources.place[index])
    levels = queue.kinds.shape[1]
    for agent in range(count):
        for task in range(batch.size):
            for level in range(levels):
                able[agent, task * levels + level] = _fits(resources, queue, batch[task], level, nodes[agent],
                                                           beside[task])
    return count


@compiled_apart
def _nearest(resources: FreeResourceArrays, queue: QueueArrays, job: int, beside: bool) -> int:
    """Fill ``place`` with the nodes that are nominated for a task; return how many."""
    count, place = 0, resources.place
    line_up_all(resources)
    for node in resources.order:
        if count == NOMINATED and resources.free[node, 0] > resources.free[place[count - 1], 0]:
            break
        if not _fits_at_any_level(resources, queue, job, node, beside):
            continue
        at = count
        while at > 0 and _rank(resources, place[at - 1]) > _rank(resources, node):
            at -= 1
        if at < NOMINATED:
            count = min(NOMINATED, count + 1)
            for index in range(count - 1, at, -1):
                place[index] = place[index - 1]
            place[at] = node
    return count


@compiled
def _rank(resources: FreeResourceArrays, node: int) -> int:
    rank: int = resources.free[node, 0] * MOST_CPUS + min(resources.free[node, 1], MOST_CPUS - 1)
    return rank


@compiled
def _insert(nodes: Longs, count: int, node: int) -> int:
    """Insert a node into those in rising order, unless it is among them; return how many there are."""
    at = count
    while at > 0 and nodes[at - 1] > node:
        at -= 1
    if at > 0 and nodes[at - 1] == node:
        return count
    for index in range(count, at, -1):
        nodes[index] = nodes[index - 1]
    nodes[at] = node
    return count + 1


@compiled_apart
def observe(resources: FreeResourceArrays, queue: QueueArrays, batch: Longs, nodes: Longs, node_inputs: Floats,
            actions: Floats) -> None:
    """Fill in the inputs of agents, [agent, input], and of each task at each level, [agent, action, input]."""
    levels = queue.kinds.shape[1]
    for agent in range(nodes.size):
        node = nodes[agent]
        for resource in range(3):
            node_inputs[agent, resource] = resources.free[node, resource] / queue.total[node, resource]
        node_inputs[agent, 3] = 0.3 * np.log1p(float(resources.busy[node]))
        node_inputs[agent, 4] = 1.0 if resources.busy[node] == 0 else 0.0
        node_inputs[agent, 5] = 1.0 if resources.reserved[node] else 0.0
        for task in range(batch.size):
            for level in range(levels):
                _fill_action_inputs(resources, queue, batch[task], level, node, actions[agent, task * levels + level])


@compiled
def _fill_action_inputs(resources: FreeResourceArrays, queue: QueueArrays, job: int, level: int, node: int,
                        row: Floats) -> None:
    """Fill in the inputs of taking a job at a level."""
    demand, total, free = queue.demands[job, level], queue.total[node], resources.free[node]
    for place in range(row.size):
        row[place] = queue.inputs[job, place] if place < OF_JOB else 0.0
    gpus = (free[0] - demand[CHUNK]) / total[0]
    cpus, memory = (free[1] - demand[CPUS]) / total[1], (free[2] - demand[MEMORY]) / total[2]
    row[LEFTOVER], row[LEFTOVER + 1] = gpus, 1.0 if gpus <= 0 else 0.0
    row[LEFTOVER + 2] = 1.0 if resources.busy[node] == 0 else 0.0
    row[LEFTOVER + 3], row[LEFTOVER + 4] = cpus, memory
    row[LEFTOVER + 5] = max(0.0, gpus - min(cpus, memory))
    application = queue.application[job]
    for group in range(queue.beside.shape[1]):
        row[BESIDE] += queue.beside[node, group] * queue.harm[application, group]
        row[BESIDE + 1] += queue.beside[node, group] * queue.harm[group, application]
    row[SPEED] = queue.speed[job, level]
    row[SAVED] = (queue.demands[job, REQUESTED, CPUS] - demand[CPUS]) / total[1]
    row[FIRST_LEVEL + level] = 1.0

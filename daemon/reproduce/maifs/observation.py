"""Compiled observations of node agents: the candidate nodes of a task, and their inputs on it and on themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...agents.maifs.graph import LEVELS
from ...replay.arrays import Floats, Longs
from ...replay.compiled import compiled, compiled_apart, compiled_with_arrays
from .kernel import (
    BEST,
    CPU,
    FAIR,
    GPU,
    MEMORY,
    THROUGHPUT,
    NodeArrays,
    Site,
    SubmittedJobs,
    beside,
    divide,
    floor_of,
    put,
    rate_of,
    take_off,
    whole,
)

TASKS, NOMINATED = 4, 8
"""Number of tasks of a joint decision, and of candidate nodes for each: at most 32 candidates."""
SURVEYED = 32
"""Number of candidate nodes for a task of several nodes, or twice its number of nodes if that is more."""
NODE_INPUTS = (
    "GPUs held", "CPUs free", "memory free", "jobs", "speed over fair", "CPUs wanted beyond those there are",
    "log remaining, mean", "jobs that one CPU feeds", "log remaining, longest", "speed that all CPUs would add",
    "image jobs", "language jobs", "speech jobs", "watts", "leaf switch: nodes in service", "leaf switch: nodes empty")
"""Inputs of an agent on its node, in the order of ``seen``; shares of the node, of its jobs or of the cluster."""
TASK_INPUTS = (
    "GPUs left over", "fills it", "harm to it", "harm to others", "was here", "speed that the node gains", "its speed",
    "CPUs left over", "log GPUs", "log remaining", "image", "language", "speech", "speed at 1 CPU", "at 2", "at 4",
    "at 6", "at 12", "with least memory", "leaf switch: empty nodes for it", "leaf switch: nodes that it could have",
    "leaf switch: empty nodes beyond it")
"""And of a task, in the order of ``pair``. The last three are told of tasks of several nodes, most of the first eight
of others; traits of its model (``Site.traits``) are in between."""
NODE_WIDTH, PAIR_INPUTS = len(NODE_INPUTS), len(TASK_INPUTS)
TYPES = 3
"""Number of first traits of a model, which encode its task; speeds with other shares follow."""
PRESENT, VACANT, OPEN = 0, 1, 2
"""Columns of what is known of leaf switches: nodes in service; those that are empty; those that no job has entirely."""


@compiled_apart
def pressure(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int) -> int:
    """Return the number of CPUs that the jobs of a node could use beyond those it has.

    Negative if CPUs are left over.
    """
    wanted = -site.shares
    for place in range(nodes.seated[node]):
        wanted += floor_of(site, jobs, nodes.members[node, place], BEST, 0)
    return wanted


@compiled
def nominate(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, tasks: Longs, crowd: Longs, candidates: Longs,
             requests: Longs) -> int:
    """Fill in the candidate nodes, and ``requests`` [candidate, task]; return the number of candidates.

    For each task those that it fills best, and those with the most CPUs to spare, as many of each. ``crowd`` [node] is
    scratch.
    """
    count = 0
    requests[:] = 0
    for node in range(site.nodes):
        crowd[node] = pressure(site, jobs, nodes, node)
    for task in range(tasks.size):
        for turn in range(NOMINATED):
            best, least = -1, 1e18
            for node in range(site.nodes):
                room = nodes.free[node, GPU] - jobs.gpus[tasks[task]]
                if room < 0 or nodes.owner[node] >= 0:
                    continue
                cost = 1e3 * room + crowd[node] if turn % 2 else 1e3 * crowd[node] + room
                if cost < least and not _is_asked(candidates, requests, count, node, task):
                    best, least = node, cost
            if best < 0:
                break
            count = _ask(candidates, requests, count, best, task)
    return count


@compiled
def _is_asked(candidates: Longs, requests: Longs, count: int, node: int, task: int) -> object:
    for index in range(count):
        if candidates[index] == node:
            return requests[index, task] == 1
    return False


@compiled
def _ask(candidates: Longs, requests: Longs, count: int, node: int, task: int) -> int:
    for index in range(count):
        if candidates[index] == node:
            requests[index, task] = 1
            return count
    candidates[count] = node
    requests[count, task] = 1
    return count + 1


@compiled_with_arrays
def survey(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int) -> Longs:
    """Return the candidate nodes of a task of several nodes: those that it disturbs least, close together."""
    wanted, known = whole(site, jobs.gpus[job]), leaves(site, nodes)
    cost = np.full(site.nodes, np.inf)
    for node in range(site.nodes):
        if nodes.owner[node] < 0:
            held = site.size - nodes.free[node, GPU]
            cost[node] = held - min(1.0, known[site.leaf[node], VACANT] / wanted)
    return np.argsort(cost, kind="mergesort")[:min(max(SURVEYED, 2 * wanted), np.isfinite(cost).sum())]


@compiled_with_arrays
def leaves(site: Site, nodes: NodeArrays) -> Floats:
    """Return the numbers of ``PRESENT``, ``VACANT`` and ``OPEN`` nodes of each leaf switch, [leaf, column]."""
    known = np.zeros((site.leaf.max() + 1, 3))
    for node in range(site.nodes):
        known[site.leaf[node], PRESENT] += 1.0
        if nodes.owner[node] < 0:
            known[site.leaf[node], OPEN] += 1.0
            known[site.leaf[node], VACANT] += nodes.seated[node] == 0
    return known


class CandidatePairs(NamedTuple):
    """The candidates of each task."""

    tasks: Longs
    candidates: Longs
    which: Longs
    """[candidate, task] 1 if the node is a candidate for the task."""


class AgentInputs(NamedTuple):
    """The inputs of candidates, filled in by ``observe``."""

    nodes: Floats
    """[candidate, ...] inputs on the node itself."""
    pair: Floats
    """[candidate, task, ...] inputs on each task."""
    able: Floats
    """[candidate, task, level] above 0 if the node can accept the task at the level."""


@compiled_with_arrays
def observe(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, pairs: CandidatePairs, taste: Floats,
            inputs: AgentInputs) -> None:
    """Fill in the inputs of candidates on themselves and on each task, and the levels at which they can accept it."""
    tasks, pair = pairs.tasks, inputs.pair
    pair[:] = 0.0
    inputs.able[:] = 0.0
    known = leaves(site, nodes)
    for index in range(pairs.candidates.size):
        node = pairs.candidates[index]
        speed = divide(site, jobs, nodes, node, THROUGHPUT, taste)
        _fill_node(site, jobs, nodes, node, speed, known[site.leaf[node]], inputs.nodes[index])
        for task in range(tasks.size):
            if pairs.which[index, task] == 1 and jobs.gpus[tasks[task]] <= nodes.free[node, GPU]:
                _see_request(site, jobs, tasks[task], pair[index, task])
                _see_task(site, jobs, nodes, node, tasks[task], speed, taste, pair[index, task])
                _mark_able(site, jobs, nodes, node, tasks[task], inputs.able[index, task])


@compiled_with_arrays
def observe_whole(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int, candidates: Longs, taste: Floats,
                  inputs: Floats,
                  pair: Floats) -> None:
    """Fill in the inputs for a task of several nodes, [candidate, 1, ...]; every candidate can take part."""
    pair[:] = 0.0
    known = leaves(site, nodes)
    for index in range(candidates.size):
        node = candidates[index]
        speed = divide(site, jobs, nodes, node, THROUGHPUT, taste)
        _fill_node(site, jobs, nodes, node, speed, known[site.leaf[node]], inputs[index])
        _see_request(site, jobs, job, pair[index, 0])
        _see_part(site, jobs, nodes, node, job, known[site.leaf[node]], pair[index, 0])


@compiled
def _fill_node(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, speed: float, known: Floats,
              inputs: Floats) -> None:
    """Fill in the inputs of a node, and of the nodes at its leaf switch (``known``)."""
    gpus = site.size - nodes.free[node, GPU]
    inputs[:] = 0.0
    for place in range(nodes.seated[node]):
        _fill_member(site, jobs, nodes.members[node, place], inputs)
    inputs[0] = gpus / site.size
    inputs[1] = nodes.free[node, CPU] / site.shares
    inputs[2] = nodes.free[node, MEMORY] / site.shares
    inputs[3] = nodes.seated[node] / site.size
    inputs[4] = speed / max(gpus, 1) - 1.0
    inputs[5] = pressure(site, jobs, nodes, node) / site.shares
    inputs[6] /= max(nodes.seated[node], 1)
    inputs[7] /= max(nodes.seated[node], 1)
    inputs[13] = site.draw[gpus]
    inputs[14] = known[PRESENT] / site.nodes
    inputs[15] = known[VACANT] / max(known[PRESENT], 1.0)


@compiled
def _fill_member(site: Site, jobs: SubmittedJobs, job: int, inputs: Floats) -> None:
    """Add the inputs of one job of the node: its remaining time, its sensitivity and its type."""
    log_left = np.log(jobs.left[job] + 60.0) / 10.0
    gpus, model = jobs.gpus[job], jobs.model[job]
    inputs[6] += log_left
    inputs[7] += 1.0 if floor_of(site, jobs, job, BEST, 0) <= gpus else 0.0
    inputs[8] = max(inputs[8], log_left)
    inputs[9] += (site.rates[model, gpus, -1, -1] - 1.0) * gpus / site.size
    for kind in range(TYPES):
        inputs[10 + kind] += site.traits[model, kind] / site.size


@compiled
def _see_request(site: Site, jobs: SubmittedJobs, job: int, pair: Floats) -> None:
    """Fill in the inputs of a task that are equal on every node: its size, run time, type and sensitivity."""
    pair[8] = np.log(jobs.gpus[job]) / 3.0
    pair[9] = np.log(jobs.left[job] + 60.0) / 10.0
    traits = site.traits[jobs.model[job]]
    for trait in range(traits.size):
        pair[10 + trait] = traits[trait]


@compiled
def _see_part(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, job: int, known: Floats,
              pair: Floats) -> None:
    """Fill in the inputs of a task of several nodes on one node: the disturbed jobs, and the nearby nodes."""
    wanted = whole(site, jobs.gpus[job])
    pair[1] = 1.0 if nodes.seated[node] == 0 else 0.0
    pair[4] = (jobs.before[job, 0] == node) * 1.0
    pair[5] = (nodes.free[node, GPU] - site.size) / site.size
    pair[19] = min(1.0, known[VACANT] / wanted)
    pair[20] = min(1.0, known[OPEN] / wanted)
    pair[21] = max(0.0, known[VACANT] - wanted) / max(known[PRESENT], 1.0)


@compiled
def _see_task(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, job: int, speed: float, taste: Floats,
              pair: Floats) -> None:
    """Fill in the inputs of a task on a node by a trial placement, which is undone."""
    gpus = jobs.gpus[job]
    pair[0] = (nodes.free[node, GPU] - gpus) / site.size
    pair[1] = 1.0 if nodes.free[node, GPU] == gpus else 0.0
    harm = 1.0
    for place in range(nodes.seated[node]):
        harm = min(harm, site.interference[jobs.model[nodes.members[node, place]], jobs.model[job]])
    pair[2] = 1.0 - beside(site, jobs, nodes, node, jobs.model[job], job)
    pair[3] = 1.0 - harm
    pair[4] = (jobs.before[job, 0] == node) * 1.0
    level, jobs.level[job] = jobs.level[job], FAIR
    put(jobs, nodes, job, node, 0, 0)
    pair[5] = (divide(site, jobs, nodes, node, THROUGHPUT, taste) - speed) / gpus - 1.0
    pair[6] = rate_of(site, jobs, job) - 1.0
    pair[7] = nodes.free[node, CPU] / site.shares
    take_off(site, jobs, nodes, job)
    jobs.level[job] = level
    divide(site, jobs, nodes, node, THROUGHPUT, taste)


@compiled
def _mark_able(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, job: int, able: Floats) -> None:
    """Mark the levels at which a node can accept a task, if its jobs are reduced to their fair share where needed."""
    cpus, memory = site.shares, site.shares
    for place in range(nodes.seated[node]):
        member = nodes.members[node, place]
        level = min(jobs.level[member], FAIR)
        cpus -= floor_of(site, jobs, member, level, 0)
        memory -= floor_of(site, jobs, member, level, 1)
    for level in range(LEVELS):
        if floor_of(site, jobs, job, level, 0) <= cpus and floor_of(site, jobs, job, level, 1) <= memory:
            able[level] = 1.0


@compiled
def accept(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int, node: int, level: int, taste: Floats) -> bool:
    """Place a task at a level and divide the node again; return False and change nothing if it does not fit."""
    if node < 0 or node >= site.nodes or nodes.owner[node] >= 0 or nodes.free[node, GPU] < jobs.gpus[job]:
        return False
    jobs.level[job] = level
    put(jobs, nodes, job, node, 0, 0)
    divide(site, jobs, nodes, node, THROUGHPUT, taste)
    return True

"""A live state in line with the gate: which jobs are barred, what nodes each may use, in what parts it would start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....storage.recommendations import Placement
from ....storage.records import Job, JobState
from .. import arrays as a
from .gate import Gate, Hold
from .node_resources import Mask
from .resource_demand import ResourceDemand, choices, special

TIER = 2.0**33
"""More than any priority within a tier: partitions of a higher tier come first."""
IN_RESERVATION = 2.0**50
"""More than any priority in any tier: Slurm looks at the jobs of reservations before all others."""


@dataclass
class Terms:
    """What the gate says of the waiting jobs, by row."""

    holds: dict[int, Hold]
    masks: dict[int, NDArray[np.bool_]]
    parts: dict[int, Placement]
    """How special jobs would be split now."""


def terms_of(gate: Gate, jobs: Sequence[Job]) -> Terms:
    """Return what the gate says of each waiting job; equal requests are looked at once."""
    terms, known = Terms({}, {}, {}), dict[object, tuple[Mask, Placement | None]]()
    tasks: dict[str, int] = {}
    for row, job in enumerate(jobs):
        if job.state is not JobState.PENDING:
            continue
        hold = gate.bars(job) or _task_bars(gate, job, tasks)
        if hold is not None:
            terms.holds[row] = hold
            continue
        key = gate.kind(job)
        if key not in known:
            known[key] = _nodes_of(gate, job)
        terms.masks[row], found = known[key]
        if found is not None:
            terms.parts[row] = found
    return terms


def _task_bars(gate: Gate, job: Job, tasks: dict[str, int]) -> Hold | None:
    """Hold back the tasks of an array beyond those that may run at once."""
    if job.array_limit is None:
        return None
    tasks[job.array] = tasks.get(job.array, 0) + 1
    if tasks[job.array] <= gate.room_for_tasks(job):
        return None
    return Hold("held", f"not eligible yet: the scheduler says JobArrayTaskLimit ({job.array_limit} at once)")


def _nodes_of(gate: Gate, job: Job) -> tuple[NDArray[np.bool_], Placement | None]:
    """Return which nodes a job may use now, and how it would be split if it started now and that is not plain."""
    demand, ways = gate.demand(job), gate.ways(job)
    mask = np.zeros(len(gate.resources.nodes), bool)
    for way in ways:
        mask |= way.usable
    if demand.plain and not demand.flexible and not special(job, demand):
        return mask, None
    found = gate.find(job)
    if isinstance(found, Hold):
        return mask, None
    if len(found.nodes) == 1:
        mask = mask & alone_on(gate, job, demand)
    elif special(job, demand):
        mask = mask & gate.resources.named(found.nodes)
    return mask, found


def alone_on(gate: Gate, job: Job, demand: ResourceDemand) -> NDArray[np.bool_]:
    """Return the nodes on each of which the whole of a job would find room now."""
    resources, found = gate.resources, np.zeros(len(gate.resources.nodes), bool)
    for features in choices(job.request.features):
        able = resources.suited(job, demand, features) & resources.shared(demand, job.user)
        fits, tasks, gpus = resources.capacity(demand, able, 1)
        found |= fits & (tasks >= demand.tasks) & ((gpus >= demand.gpus) | (demand.per_node > 0))
    return found & resources.named(job.request.required_nodes) if job.request.required_nodes else found


def applied(arrays: a.State, gate: Gate, jobs: Sequence[Job], terms: Terms) -> a.State:
    """Return the arrays with the nodes, the parts and the amounts that the gate says; before any job is placed."""
    eligible, pool = arrays.eligible, arrays.jobs.pool
    fresh, known = list(eligible), dict[tuple[int, bytes], int]()
    for row, mask in terms.masks.items():
        key = int(pool[row]), mask.tobytes()
        if key not in known:
            known[key] = len(fresh)
            fresh.append(eligible[key[0]] & mask)
        pool[row] = known[key]
    for row in terms.masks:
        if row in terms.parts:
            _split(arrays.jobs[row], terms.parts[row], gate.demand(jobs[row]))
        _amounts(arrays.jobs[row], gate, gate.demand(jobs[row]))
    _rank(arrays, gate, jobs)
    return _roomy(arrays)._replace(eligible=np.ascontiguousarray(np.array(fresh, np.int8)))


def _rank(arrays: a.State, gate: Gate, jobs: Sequence[Job]) -> None:
    """Let jobs in a reservation, and then those of a partition of higher tier, come first in the scheduler's order."""
    tiers = {name: partition.priority_tier for name, partition in gate.partitions.items()}
    for row, job in enumerate(jobs):
        arrays.jobs[row].priority += IN_RESERVATION * bool(job.request.reservation)
    if len(set(tiers.values())) > 1:
        for row, job in enumerate(jobs):
            arrays.jobs[row].priority += TIER * max(tiers.get(name, 1) for name in job.partition.split(","))


def _amounts(row: np.record, gate: Gate, demand: ResourceDemand) -> None:
    """Let the engine take CPUs and memory as the scheduler does, on each node of equal parts."""
    nodes = max(1, int(row.chunks + row.rests))
    gpus = np.full(len(gate.resources.nodes), int(row.chunk), np.int64)
    tasks = np.full(len(gpus), -(-demand.tasks // nodes), np.int64)
    cpus = gate.resources.cpus_for(demand, tasks, gpus)
    row.cpus = min(int(cpus.max(initial=1)), np.iinfo(np.int32).max)
    if not demand.whole_memory:
        row.memory = int(gate.resources.memory_for(demand, cpus, gpus, nodes).max(initial=0))
    else:
        row.memory = 0


def _split(row: np.record, found: Placement, demand: ResourceDemand) -> None:
    """Let the engine place a job in the parts that were found, the larger ones first."""
    shares = sorted(found.gpus, reverse=True)
    if demand.exclusive:
        return
    if demand.gpus == 0:
        row.chunk, row.chunks, row.rest, row.rests = 0, len(shares), 0, 0
        return
    if len(set(shares)) > 2:
        return
    row.chunk, row.chunks = shares[0], shares.count(shares[0])
    row.rest, row.rests = (shares[-1], len(shares) - int(row.chunks)) if shares[-1] != shares[0] else (0, 0)
    row.widest = max(int(row.widest), shares[0])
    if sum(shares) != row.gpus:  # else it may still be given other sizes that its like came with
        row.gpus = row.minimum = row.maximum = sum(shares)


def _roomy(arrays: a.State) -> a.State:
    """Return the arrays with a place for every node that a job can hold now."""
    jobs = arrays.jobs
    jobs.room = np.maximum(jobs.room, jobs.chunks + jobs.rests)
    jobs.held = np.cumsum(jobs.room) - jobs.room
    return arrays._replace(held=np.zeros(int(jobs.room.sum()), a.SHARE).view(np.recarray))

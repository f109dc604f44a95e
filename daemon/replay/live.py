"""A live snapshot in the engine's terms: which jobs there are, where they run, and which nodes they may use now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...storage.owners import OwnerKind
from ...storage.records import Job, JobState, Node, Request, SchedulerSnapshot
from . import arrays as a
from .admission.constraints import applied, terms_of
from .admission.gate import Gate, Hold
from .admission.hold_reason import could_ever
from .admission.resource_demand import counts
from .cluster import Cluster
from .learned_limits import learned
from .moves import join, run_on
from .workload import UNLIMITED_S, Workload, in_order

FREE, NO_GPU = -1, -2
"""Occupants of slots that hold no job."""
OVERRUN_S = 60.0
"""How much longer a live job is expected to run that is past its limit."""
ENDLESS_S = 12 * UNLIMITED_S
"""How long what never ends is taken to run: beyond every forecast."""
MOST_TASKS = 10_000
"""Array tasks that get a row of their own; those beyond would start far in the future."""


def jobs_of(snapshot: SchedulerSnapshot) -> list[Job]:
    """Return running and waiting jobs in the order of rows, each submission once, an array's waiting tasks one by one.

    What runs is there as it runs, not as it was requested: on so many nodes, whatever they are.
    """
    known = {job.key: job for job in snapshot.jobs if job.state.active or job.state is JobState.PENDING}
    return in_order([_as_it_runs(job) if job.state.active else job for job in _tasks(known.values())])


def _tasks(jobs: Iterable[Job]) -> list[Job]:
    """Repeat a record as often as it stands for a task, as far as there are rows left."""
    left, repeated = MOST_TASKS, list[Job]()
    for job in sorted(jobs, key=lambda job: job.submit_s):
        more = min(left, job.tasks - 1) if job.state is JobState.PENDING else 0
        left -= max(0, more)
        repeated += [job] * (1 + max(0, more))
    return repeated


def _as_it_runs(job: Job) -> Job:
    nodes = len(job.allocations)
    return replace(job, request=Request(sum(part.gpus for part in job.allocations), max(1, nodes)))


def nodes_of(snapshot: SchedulerSnapshot) -> tuple[Node, ...]:
    """Return the nodes, each name once."""
    return tuple({node.name: node for node in snapshot.nodes}.values())


def expected_run(job: Job, now: float) -> float:
    """Return how long a live job takes in all if it uses its whole limit."""
    limit = ENDLESS_S if job.limit_s is None else job.limit_s
    if job.state.active and job.start_s is not None:
        return max(limit, now + OVERRUN_S - job.start_s)
    return limit


def limits(work: Workload, jobs: Sequence[Job], now: float) -> NDArray[np.float64]:
    """Return the limits of live jobs in seconds, learned from similar jobs where they have none.

    A service has none, however long earlier ones ran: somebody ended them.
    """
    lasted = np.array([max(0.0, now - job.start_s) if job.state.active and job.start_s is not None else 0.0
                       for job in jobs])
    return np.where(np.isfinite(work.limit) | endless(jobs), work.limit, learned(work, lasted))


def endless(jobs: Sequence[Job]) -> NDArray[np.bool_]:
    """Return which jobs never end by themselves: services without a limit."""
    return np.array([job.owner_kind is OwnerKind.SERVICE and job.limit_s is None for job in jobs], bool)


def settle(arrays: a.State, cluster: Cluster, jobs: Sequence[Job], snapshot: SchedulerSnapshot, gate: Gate,
           ) -> tuple[a.State, dict[int, Hold]]:
    """Put live jobs where they are, and close what may not be used now, which is the time in ``clock``.

    Return the arrays, and why some jobs are held whatever is free.
    """
    row = {name: index for index, name in enumerate(cluster.names)}
    terms = terms_of(gate, jobs)
    arrays = applied(arrays, gate, jobs, terms)
    arrays.nodes.open[:] = gate.opened_to_any()
    holds, live = dict(terms.holds), _columns(arrays.jobs)
    for job, record in enumerate(jobs):
        if record.state.active:
            _hold(arrays, live, job, record, row)
        elif job in holds:
            live.status[job] = a.HELD if live.status[job] != a.REJECTED else a.REJECTED
        elif (live.status[job] != a.REJECTED or job in terms.parts or could_ever(gate, record)
              or counts(record.request.features)):
            # What is larger than one node to the engine may be split by Slurm, which reports all memory of the largest
            # node for a job that does not ask for any. It keeps nodes for one that counts features; that never starts.
            live.status[job] = a.FUTURE
            join(arrays, job)
    _seat(arrays, jobs, row)
    free = _columns(arrays.nodes)
    for index, node in enumerate(nodes_of(snapshot)):
        _correct(free, index, node)
    return arrays, holds


def _columns(records: a.Records) -> Any:
    """Return the fields of records as arrays: a record at a time takes many times as long."""
    return SimpleNamespace(**{name: records[name] for name in records.dtype.names})


def _hold(arrays: a.State, live: Any, job: int, record: Job, row: dict[str, int]) -> None:
    """Let a running job hold the nodes it holds in reality, and never more than they have."""
    now = arrays.clock[a.NOW]
    held = [part for part in {part.node: part for part in record.allocations}.values() if part.node in row]
    if not held:
        live.status[job] = a.REJECTED
        return
    started = now if record.start_s is None else min(record.start_s, now)
    for index, part in enumerate(held):
        arrays.chosen[index] = row[part.node]
        arrays.shares[index] = max(0, min(part.gpus, arrays.nodes["free_gpus"][row[part.node]]))
    live.chunk[job] = int(arrays.shares[:len(held)].max())
    live.cpus[job], live.memory[job] = max(part.cpus for part in held), max(part.memory_bytes for part in held)
    live.cpus_held[job], live.memory_held[job] = live.cpus[job], live.memory[job]
    live.limit[job] = max(live.limit[job], now + OVERRUN_S - started)
    live.start[job], live.attained[job] = started, (now - started) * int(arrays.shares[:len(held)].sum())
    live.remaining[job] = max(OVERRUN_S, live.remaining[job] - (now - started))
    live.whole[job] = 0  # what it took with it stands in its allocation
    run_on(arrays, job, len(held), 0.0)
    live.estimate[job] = started + live.limit[job]


def _seat(arrays: a.State, jobs: Sequence[Job], row: dict[str, int]) -> None:
    """Put running jobs on the very GPUs that they hold, on nodes where that is known of all of them."""
    status = arrays.jobs["status"]
    running = [job for job, record in enumerate(jobs) if record.state.active and status[job] == a.RUNNING]
    named: dict[int, list[tuple[int, int]]] = {}
    for job in running:
        for part in jobs[job].allocations:
            if part.node in row:
                named.setdefault(row[part.node], []).extend((index, job) for index in part.gpu_indexes or ())
    for node, seats in named.items():
        slots, taken = arrays.occupant[node], dict(seats)
        known = 0 < len(taken) == len(seats) == (slots >= 0).sum() and max(taken) < slots.size
        if known and (slots[list(taken)] != NO_GPU).all():
            slots[slots >= 0] = FREE
            slots[list(taken)] = list(taken.values())


def _correct(free: Any, index: int, node: Node) -> None:
    """Take away what the scheduler says is taken beyond the jobs we know."""
    free.free_gpus[index] = min(free.free_gpus[index], max(0, node.gpus - node.gpus_allocated))
    if node.cpus:
        free.free_cpus[index] = min(free.free_cpus[index], max(0, node.cpus - node.cpus_allocated))
    if node.memory_bytes:
        free.free_memory[index] = min(free.free_memory[index], max(0, node.memory_bytes - node.memory_allocated_bytes))

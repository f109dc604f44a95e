"""The arrays that compiled code works on: the cluster, its jobs, its queue, all as structures of arrays.

Indexes: ``node`` and ``job`` number the rows of a :class:`~.cluster.Cluster` and a :class:`~.workload.Workload`;
``pool`` numbers sets of nodes that a job may use (partition, GPU model, features, named nodes folded into one row).
Tuples of arrays because numba passes them by reference to their contents and caches their compiled users on disk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.int8]
Words = NDArray[np.uint64]

WAITING, RUNNING, ENDED, FUTURE, HELD, REJECTED = 0, 1, 2, 3, 4, 5
"""States of a job: not yet submitted is FUTURE, waiting for a dependency HELD, unable ever to run REJECTED."""

NOW, WAKE = 0, 1
"""Places in ``State.clock``: the present; when the order may change although nothing happens."""

RUNNING_JOBS, STARTED, MAX_STARTS, KEEP_ESTIMATES, DEPTH, WAITING_JOBS, PREEMPTIONS, ENDED_JOBS = range(8)
"""Places in ``State.count``."""


class Nodes(NamedTuple):
    """Nodes: what they have, what is free, who may use them."""

    gpus: Longs
    free_gpus: Longs
    free_cpus: Longs
    free_memory: Longs
    open: Bytes
    """1 where jobs may start now, 0 on a drained or failed node."""
    busy: Longs
    """Jobs running on the node."""
    leaf: Longs
    spine: Longs
    eligible: NDArray[np.int8]
    """[pool, node] 1 where jobs of the pool may run."""
    demand: Floats
    """[gpus] share of the workload's jobs that want this many GPUs on a node (for the fragmentation gradient)."""
    random: Words
    """State of the one random generator."""


class Ask(NamedTuple):
    """What one job needs: ``chunks`` different nodes with ``gpus`` each, and one more with ``rest``."""

    pool: int
    gpus: int
    cpus: int
    memory: int
    chunks: int
    rest: int


class Jobs(NamedTuple):
    """What was asked for; never changes during a run. One row per job, in order of (submit, id)."""

    submit: Floats
    run: Floats
    limit: Floats
    prediction: Floats
    priority: Floats
    gpus: Ints
    chunk: Ints
    chunks: Ints
    rest: Ints
    cpus: Longs
    memory: Longs
    pool: Ints
    partition: Ints
    user: Ints
    model: Ints
    dependency: Ints
    """Job that must end first; -1 for none."""
    first_child: Ints
    """First job that depends on this one; empty when nothing depends on anything."""
    next_child: Ints
    preemptible: Bytes


class Progress(NamedTuple):
    """How far each job has come."""

    status: Bytes
    remaining: Floats
    """Seconds of work left at speed 1, as of ``since``."""
    since: Floats
    """Time of the last start or resize."""
    start: Floats
    """First start; NaN until then."""
    end: Floats
    estimate: Floats
    """When the job ends at the latest by its limit."""
    rate: Floats
    attained: Floats
    """GPU-seconds received before ``since``."""
    width: Ints
    """Nodes held now."""
    size: Ints
    """GPUs held now, or last."""
    offset: Longs
    """Where the job's nodes start in ``node`` and ``share``."""
    node: Ints
    share: Ints
    """GPUs held on that node."""
    preempted: Ints


class Queue(NamedTuple):
    """Waiting jobs of each partition by rank: a 64-ary tree of bits, so the next job in order is a few words away."""

    rank: Ints
    job: Ints
    """Job of a rank."""
    leaves: Words
    branches: Words
    roots: Words
    head: Longs
    """[partition] scratch: rank under consideration."""
    blocked: Longs
    """[partition] scratch: rank of the first job that did not fit."""


class Running(NamedTuple):
    """Jobs that hold resources: a heap by end, a sorted list by estimated end, and GPU by GPU."""

    heap: Ints
    place: Ints
    """[job] position in the heap; -1 outside."""
    estimates: Ints
    """Jobs by (estimate, job); kept only where a rule asks for it."""
    occupant: NDArray[np.int32]
    """[node, slot] job on this GPU; -1 when free."""


class Speed(NamedTuple):
    """Relative speed of a job model by number of GPUs and by how far they are apart."""

    size: Floats
    """[model, GPUs]"""
    spread: Floats
    """[model, level]: one node, one leaf, one spine, further."""


class State(NamedTuple):
    """Everything, at one moment."""

    nodes: Nodes
    jobs: Jobs
    progress: Progress
    queue: Queue
    running: Running
    speed: Speed
    clock: Floats
    count: Longs
    overhead: Floats
    """[1] seconds that a preemption costs a job."""
    usage: Floats
    """[user, resource] share of the cluster's GPUs, CPUs and memory in use."""
    digest: Words
    log: Ints
    """Starts (job + 1) and preemptions (-job - 1) of the present decision, in order."""
    chosen: Longs
    """[node] scratch of placements."""


def contiguous(values: Any, kind: Any) -> Any:
    """Return ``values`` as a fresh writable array of exactly the type that compiled code expects."""
    return np.array(values, dtype=kind, order="C", copy=True)

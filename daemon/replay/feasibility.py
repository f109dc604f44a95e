"""Fit a workload to a cluster: give each job its shape and its pool of nodes, and reject what can never run."""

from __future__ import annotations

from typing import TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from ...storage.eligibility import same_model
from . import arrays as a
from .cluster import Cluster
from .speed import FLAT, SpeedError, SpeedTable
from .workload import Workload

Masks = NDArray[np.bool_]
Element = TypeVar("Element", bound=np.generic)


class Lines(TypedDict):
    """The fields of the state that are arrays of lines."""

    lines: a.Records
    leaves: NDArray[np.uint64]
    branches: NDArray[np.uint64]
    roots: NDArray[np.uint64]


Shapes = dict[str, NDArray[np.int64]]
"""What each job needs, by the name of the column of its record."""


class ReplayOptions(TypedDict, total=False):
    """Options of a replay; one that is left out costs nothing and changes nothing."""

    preemption_s: float
    """What a preempted job pays in extra work."""
    resize_s: float
    """How long an elastic job pauses when its GPUs change."""
    grant_s: float
    """How long a job pauses when only its CPUs or memory change."""
    slot_s: float
    """Decisions are taken at multiples of this only, as long as anything runs; else whenever something happens."""
    power_down_s: float
    """A node that is empty for so long is powered down until it is needed."""
    wake_s: float
    """How long a job waits on its nodes when one of them was powered down."""
    speed: SpeedTable
    """How fast jobs really run."""
    known: SpeedTable
    """The speeds that policies know; ``speed`` where it is left out."""


def pools(cluster: Cluster, workload: Workload) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return each job's pool and the [pool, node] matrix of which jobs may run where."""
    keys = np.stack([workload.partition, workload.model, workload.eligible], axis=1)
    unique, pool = distinct(keys)
    rows = [_eligible(cluster, workload, *map(int, key)) for key in unique]
    matrix = np.array(rows, np.int8) if rows else np.zeros((1, len(cluster)), np.int8)
    return pool.astype(np.int32), np.ascontiguousarray(matrix)


def distinct(rows: NDArray[Element]) -> tuple[NDArray[Element], NDArray[np.int64]]:
    """Return the distinct rows, and which of them each row is; ten times as fast as ``unique(axis=0)``."""
    kind = np.zeros(len(rows), np.int64)
    first = np.zeros(min(1, len(rows)), np.int64)
    for column in rows.T:
        _, code = np.unique(column, return_inverse=True)
        _, first, kind = np.unique(kind * (int(code.max(initial=0)) + 1) + code, return_index=True, return_inverse=True)
    return rows[first], kind


def _eligible(cluster: Cluster, workload: Workload, partition: int, model: int, constraint: int) -> Masks:
    several = _members(cluster, workload.partition_names[partition]) if partition >= 0 else []
    if several:
        mask = np.logical_or.reduce(several)
    elif partition < 0 or workload.partition_names == ("default",):
        mask = next(iter(cluster.partitions.values()), np.ones(len(cluster), bool)).copy()
    else:
        return np.zeros(len(cluster), bool)
    if model >= 0:
        mask &= np.array([same_model(workload.model_names[model], node) for node in cluster.model])
    if constraint >= 0:
        mask &= np.array([workload.constraints[constraint].admits(node, features)
                          for node, features in zip(cluster.names, cluster.features, strict=True)])
    return mask


def _members(cluster: Cluster, name: str) -> list[Masks]:
    """Return the nodes of each partition that a job names, perhaps several with commas; unknown ones have none."""
    return [cluster.partitions[part] for part in (name, *name.split(",")) if part in cluster.partitions]


def shape(cluster: Cluster, workload: Workload, pool: NDArray[np.int32], matrix: NDArray[np.int8]) -> Shapes:
    """Return chunk, chunks, rest, rests, cpus, memory and widest of each job.

    A job that lets the scheduler choose gets one node if one can hold it, else full nodes and one for the rest. One
    that names a number of nodes is spread evenly: 9 GPUs over 4 nodes are 3 + 2 + 2 + 2.
    """
    largest = np.array([cluster.gpus[row == 1].max(initial=0) for row in matrix], np.int64)[pool]
    gpus, requested = workload.gpus.astype(np.int64), workload.nodes.astype(np.int64)
    # A node without a share of the GPUs is not held, so nobody gets more nodes than GPUs.
    nodes = np.where(gpus > 0, np.minimum(requested, gpus), requested)
    chunk = np.where(nodes > 0, -(-gpus // np.maximum(nodes, 1)), np.minimum(gpus, np.maximum(largest, 1)))
    packed = np.where(chunk > 0, gpus // np.maximum(chunk, 1), 1)
    fuller = np.where(gpus % np.maximum(nodes, 1) > 0, gpus % np.maximum(nodes, 1), nodes)
    chunks = np.where(nodes > 0, fuller, packed)
    rests = np.where(nodes > 0, nodes - chunks, gpus > chunk * chunks)
    rest = (gpus - chunk * chunks) // np.maximum(rests, 1)
    part, total = np.where(gpus > 0, chunk, 1), np.where(gpus > 0, gpus, np.maximum(chunks, 1))
    widest = np.where(nodes > 0, chunk, np.minimum(workload.maximum, np.maximum(largest, 1)))
    small = {"chunk": chunk, "chunks": chunks, "rest": rest, "rests": rests, "widest": widest}
    return {**{name: column.astype(np.int32) for name, column in small.items()},
            "cpus": -(-workload.cpus * part // total), "memory": -(-workload.memory * part // total)}


def rejections(cluster: Cluster, workload: Workload, pool: NDArray[np.int32], matrix: NDArray[np.int8],
               shapes: Shapes) -> dict[int, str]:
    """Return the jobs that can never run, each with its first reason."""
    reasons: dict[int, str] = {}

    def reject(mask: Masks, reason: str) -> None:
        for job in np.flatnonzero(mask):
            reasons.setdefault(int(job), reason)

    reject(~np.isfinite(workload.submit), "submit time is no number")
    reject(~(workload.run >= 0), "negative run time")
    reject(~(workload.limit > 0) & ~((workload.limit == 0) & (workload.run == 0)), "time limit is not positive")
    reject(workload.gpus < 0, "negative number of GPUs")
    least, most = workload.minimum, workload.maximum
    reject((least > workload.gpus) | (most < workload.gpus) | ((least < 1) & (workload.gpus > 0)),
           "asks for fewer GPUs than its least or more than its most")
    reachable: Masks = np.asarray(matrix.any(axis=1))
    strange = np.array([*(not _members(cluster, name) for name in workload.partition_names), False])
    reject(~reachable[pool] & strange[workload.partition], "the cluster has no such partition")
    reject(~reachable[pool], "no node of the partition meets what it asks for (model, features, list of nodes)")
    reject(_too_large(cluster, pool, matrix, shapes), "larger than the cluster")
    _reject_dependents(workload.dependency, reasons)
    return reasons


def _too_large(cluster: Cluster, pool: NDArray[np.int32], matrix: NDArray[np.int8], shapes: Shapes) -> Masks:
    """Tell which jobs would not fit even on an empty cluster; asks each different shape once."""
    sizes = (shapes[name] for name in ("chunk", "chunks", "rest", "rests", "cpus", "memory"))
    columns = np.stack([pool, *sizes], axis=1)
    unique, kind = distinct(columns)
    large = [not _holds(cluster, matrix[p] == 1, *needs) for p, *needs in unique.tolist()]
    return np.array(large, bool)[kind]


def _holds(cluster: Cluster, members: Masks, chunk: int, chunks: int, rest: int, rests: int, cpus: int,
           memory: int) -> bool:
    full = members & (cluster.gpus >= chunk) & (cluster.cpus >= cpus) & (cluster.memory >= memory)
    if rests <= 0:
        return bool(full.sum() >= chunks)
    scale = max(chunk, 1)
    last = (members & (cluster.gpus >= rest) & (cluster.cpus >= -(-cpus * rest // scale))
            & (cluster.memory >= -(-memory * rest // scale)))
    return bool(full.sum() >= chunks and last.sum() >= chunks + rests)


def _reject_dependents(dependency: NDArray[np.int32], rejected: dict[int, str]) -> None:
    """Reject jobs that wait for themselves in a circle, or for a job that never runs."""
    settled = np.ones(dependency.size, bool)
    settled[dependency >= 0] = False
    for job in np.flatnonzero(dependency >= 0):
        trail: list[int] = []
        seen: set[int] = set()
        step = int(job)
        while step not in seen and not settled[step]:
            trail.append(step)
            seen.add(step)
            step = int(dependency[step])
        if step in seen:
            rejected.update({link: "its dependencies form a circle" for link in trail if link not in rejected})
        elif step in rejected:
            rejected.update({link: "depends on a job that can never run" for link in trail if link not in rejected})
        for link in trail:
            settled[link] = True
    for job in np.flatnonzero(dependency >= 0):
        if int(dependency[job]) in rejected:
            rejected.setdefault(int(job), "depends on a job that can never run")


def state_arrays(cluster: Cluster, workload: Workload, seed: int, **terms: Unpack[ReplayOptions],
                 ) -> tuple[a.State, dict[int, str]]:
    """Return fresh arrays for a run, and why some jobs are rejected."""
    speed = terms.get("speed", FLAT)
    tables = _tables(workload, speed)
    occupant, islands = _slots(cluster)
    pool, matrix = pools(cluster, workload)
    shapes = shape(cluster, workload, pool, matrix)
    refused = rejections(cluster, workload, pool, matrix, shapes)
    nodes, jobs = _nodes(cluster), _jobs(cluster, workload, pool, shapes)
    jobs.status[list(refused)] = a.REJECTED
    size = len(workload)
    lines = empty_lines(int(jobs.queue.max(initial=0)) + 1, size)
    demand = np.bincount(np.maximum(jobs.chunk, 0), minlength=int(cluster.gpus.max()) + 1).astype(np.float64)
    return a.State(
        nodes, np.array(matrix, np.int8), demand / max(1.0, demand.sum()),
        jobs, _records(int(jobs.room.sum()), a.SHARE), np.arange(size, dtype=np.int32),
        lines["leaves"], lines["branches"], lines["roots"], lines["lines"],
        np.zeros(size + 1, np.int32), np.zeros(size + 1, np.int32), occupant, islands,
        tables["size"], tables["spread"], tables["company"], tables["grants"], np.array([-np.inf, np.inf]),
        _counts(cluster, speed), np.array([seed & (2**64 - 1), 0], np.uint64), _costs(terms, speed),
        _meters(cluster, workload),
        usage=np.zeros((int(jobs.user.max(initial=0)) + 1, 3)), log=np.zeros(3 * size + 3, np.int32),
        chosen=np.zeros(len(cluster) + 1, np.int64), shares=np.zeros(len(cluster) + 1, np.int64),
        imagined=np.stack([nodes, nodes]).view(np.recarray),
        listed=np.zeros(size + 1, np.int32), keys=np.zeros(size), weights=np.zeros(0), kin=np.zeros(0),
        traits=np.zeros((0, 0)), scratch=np.zeros(0), outlook=np.zeros(0, np.int64)), refused


def _tables(workload: Workload, speed: SpeedTable) -> dict[str, NDArray[np.float64]]:
    """Return the speed tables with a row for each application; a single row serves all."""
    rows = int(workload.application.max(initial=0)) + 1
    tables = {name: np.array(getattr(speed, name), np.float64) for name in ("size", "spread", "company", "grants")}
    for name, table in tables.items():
        if 1 < len(table) < rows or workload.application.min(initial=0) < 0:
            raise SpeedError(f"jobs follow application {rows - 1}, and {name} has {len(table)} rows")
        if len(table) < rows:
            shape = (rows, rows) if name == "company" else (rows, *table.shape[1:])
            # Row by row in memory, which compiled rules insist on.
            tables[name] = np.ascontiguousarray(np.broadcast_to(table, shape))
    return tables


def _counts(cluster: Cluster, speed: SpeedTable) -> NDArray[np.int64]:
    counts = np.zeros(14, np.int64)
    counts[a.MAX_STARTS], counts[a.DEPTH], counts[a.CHANGED] = np.iinfo(np.int64).max, 100, 1
    counts[a.COUPLED], counts[a.DIVIDED] = speed.coupled, bool(cluster.islands)
    return counts


def _costs(terms: ReplayOptions, speed: SpeedTable) -> NDArray[np.float64]:
    costs = np.zeros(7)
    costs[a.OVERHEAD], costs[a.POWER_DOWN] = terms.get("preemption_s", 0.0), terms.get("power_down_s", np.inf)
    costs[a.RESIZE], costs[a.GRANT] = terms.get("resize_s", 0.0), terms.get("grant_s", 0.0)
    costs[a.SLOT], costs[a.STEP], costs[a.WAKE_UP] = terms.get("slot_s", 0.0), speed.step, terms.get("wake_s", 0.0)
    return costs


def _records(shape: int | tuple[int, ...], kind: np.dtype[np.void]) -> a.Records:
    return np.zeros(shape, kind).view(np.recarray)


def empty_lines(number: int, jobs: int) -> Lines:
    """Return the arrays of this many empty queue lines."""
    lines = _records(number, a.LINE)
    lines.head = lines.blocked = -1
    leaves, branches, roots = (np.zeros((number, (jobs >> 6 * level) + 1), np.uint64) for level in (1, 2, 3))
    return {"lines": lines, "leaves": leaves, "branches": branches, "roots": roots}


def _nodes(cluster: Cluster) -> a.Records:
    nodes = _records(len(cluster), a.NODE)
    nodes.gpus = nodes.free_gpus = cluster.gpus
    nodes.cpus = nodes.free_cpus = cluster.cpus
    nodes.memory = nodes.free_memory = cluster.memory
    nodes.open = cluster.up
    nodes.leaf, nodes.spine = cluster.leaf, cluster.spine
    nodes.joined[:cluster.joined.size] = cluster.joined
    return nodes


def _jobs(cluster: Cluster, workload: Workload, pool: NDArray[np.int32], shapes: Shapes) -> a.Records:
    room = _room(cluster, workload, shapes)
    jobs = _records(len(workload), a.JOB)
    for name in list(shapes):  # the largest arrays there are: free each as soon as it is copied
        jobs[name] = np.clip(shapes.pop(name), 0, np.iinfo(a.JOB[name]).max)
    for name in ("submit", "run", "limit", "prediction", "priority", "gpus", "minimum", "maximum", "dependency",
                 "preemptible", "load", "draw"):
        jobs[name] = getattr(workload, name)
    jobs.pool, jobs.queue, jobs.user, jobs.model = (
        pool, np.maximum(workload.partition, 0), workload.user + 1, workload.application)
    jobs.whole, jobs.tasked = workload.exclusive, workload.tasked
    jobs.first_child, jobs.next_child = _children(workload.dependency)
    jobs.status, jobs.place, jobs.rank = a.FUTURE, -1, np.arange(len(workload))
    jobs.start = jobs.end = np.nan
    jobs.remaining, jobs.rate = workload.run, 1.0
    jobs.room, jobs.held = room, np.cumsum(room)
    jobs.held -= room
    return jobs


def _meters(cluster: Cluster, workload: Workload) -> object:
    meters = _records(len(cluster), a.METER)
    meters.changed = workload.submit[np.isfinite(workload.submit)].min(initial=np.inf)
    meters.slept, meters.ready = np.inf, -np.inf
    return meters


def _children(dependency: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the dependents of each job as linked lists in order of rows."""
    first = np.full(dependency.size, -1, np.int32)
    following = np.full(dependency.size, -1, np.int32)
    for job in np.flatnonzero(dependency >= 0)[::-1]:
        following[job], first[dependency[job]] = first[dependency[job]], job
    return first, following


def _room(cluster: Cluster, workload: Workload, shapes: Shapes) -> NDArray[np.int32]:
    """Return the most nodes each job can ever hold."""
    rigid = shapes["chunks"] + shapes["rests"]
    widest = np.where(workload.maximum > workload.gpus, np.maximum(rigid, workload.maximum), rigid)
    return np.clip(np.maximum(widest, workload.nodes), 1, len(cluster)).astype(np.int32)


def _slots(cluster: Cluster) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the occupants and the islands of slots, [node, slot]; without islands GPUs are numbered from 0."""
    islands = [cluster.islands.get(name, (tuple(range(gpus)),))
               for name, gpus in zip(cluster.names, cluster.gpus.tolist(), strict=True)]
    slots = 1 + max((index for parts in islands for part in parts for index in part), default=0)
    occupant, island = np.full((len(cluster), slots), -2, np.int32), np.zeros((len(cluster), slots), np.int32)
    for node, parts in enumerate(islands):
        for number, part in enumerate(parts):
            occupant[node, list(part)], island[node, list(part)] = -1, number
    return occupant, island

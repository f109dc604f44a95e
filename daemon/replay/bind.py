"""Fit a workload to a cluster: give each job its shape and its pool of nodes, and reject what can never run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import arrays as a
from .cluster import PLENTY, Cluster
from .workload import Workload

Masks = NDArray[np.bool_]


def pools(cluster: Cluster, workload: Workload) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return each job's pool and the [pool, node] matrix of who may run where."""
    keys = np.stack([workload.partition, workload.model, workload.eligible], axis=1)
    unique, pool = np.unique(keys, axis=0, return_inverse=True) if len(keys) else (keys, np.zeros(0, int))
    rows = [_eligible(cluster, workload, *map(int, key)) for key in unique]
    matrix = np.array(rows, np.int8) if rows else np.zeros((1, len(cluster)), np.int8)
    return pool.reshape(-1).astype(np.int32), np.ascontiguousarray(matrix)


def _eligible(cluster: Cluster, workload: Workload, partition: int, model: int, allowed: int) -> Masks:
    members = cluster.partitions
    name = workload.partition_names[partition] if partition >= 0 else ""
    if name in members:
        mask = members[name].copy()
    elif partition < 0 or workload.partition_names == ("default",):
        mask = next(iter(members.values()), np.ones(len(cluster), bool)).copy()
    else:
        return np.zeros(len(cluster), bool)
    if model >= 0:
        mask &= np.array([_same_model(workload.model_names[model], node) for node in cluster.model])
    if allowed >= 0:
        mask &= np.array([node in workload.allowed[allowed] for node in cluster.names])
    return mask


def _same_model(wanted: str, node: str) -> bool:
    return wanted.lower() == node.lower()


def shape(cluster: Cluster, workload: Workload, pool: NDArray[np.int32], matrix: NDArray[np.int8]) -> dict[str, Any]:
    """Return chunk, chunks, rest, cpus and memory of each job.

    A job that lets the scheduler choose gets one node if one can hold it, else full nodes and one for the rest.
    """
    largest = np.array([cluster.gpus[row == 1].max(initial=0) for row in matrix], np.int64)[pool]
    gpus, asked = workload.gpus.astype(np.int64), workload.nodes.astype(np.int64)
    spread = asked > 0
    chunk = np.where(spread, -(-gpus // np.maximum(asked, 1)), np.minimum(gpus, np.maximum(largest, 1)))
    chunks = np.where(chunk > 0, gpus // np.maximum(chunk, 1), np.maximum(asked, 1))
    rest = gpus - chunk * chunks
    whole = np.maximum(gpus, 1)
    per_chunk = np.where(gpus > 0, chunk, np.maximum(1, whole // np.maximum(chunks, 1)))
    return {"chunk": chunk, "chunks": chunks, "rest": rest,
            "cpus": -(-workload.cpus * per_chunk // whole), "memory": -(-workload.memory * per_chunk // whole)}


def rejections(cluster: Cluster, workload: Workload, pool: NDArray[np.int32], matrix: NDArray[np.int8],
               shapes: dict[str, Any]) -> dict[int, str]:
    """Return the jobs that can never run, each with its first reason."""
    found: dict[int, str] = {}

    def reject(mask: Masks, reason: str) -> None:
        for job in np.flatnonzero(mask):
            found.setdefault(int(job), reason)

    reject(~np.isfinite(workload.submit), "submit time is no number")
    reject(~(workload.run >= 0), "negative run time")
    reject(~(workload.limit > 0) & ~((workload.limit == 0) & (workload.run == 0)), "time limit is not positive")
    reject(workload.gpus < 0, "negative number of GPUs")
    reject(~matrix.any(axis=1)[pool], "no node of the partition, model or list of nodes that it asks for")
    reject(_too_large(cluster, pool, matrix, shapes), "larger than the cluster")
    _reject_dependents(workload.dependency, found)
    return found


def _too_large(cluster: Cluster, pool: NDArray[np.int32], matrix: NDArray[np.int8], shapes: dict[str, Any]) -> Masks:
    """Tell which jobs would not fit even on an empty cluster; asks each different shape once."""
    columns = np.stack([pool, shapes["chunk"], shapes["chunks"], shapes["rest"], shapes["cpus"], shapes["memory"]], axis=1)
    if not len(columns):
        return np.zeros(0, bool)
    unique, kind = np.unique(columns, axis=0, return_inverse=True)
    large = [not _holds(cluster, matrix[p] == 1, *sizes) for p, *sizes in unique.tolist()]
    return np.array(large, bool)[kind.reshape(-1)]


def _holds(cluster: Cluster, members: Masks, chunk: int, chunks: int, rest: int, cpus: int, memory: int) -> bool:
    full = members & (cluster.gpus >= chunk) & (cluster.cpus >= cpus) & (cluster.memory >= memory)
    if rest <= 0:
        return bool(full.sum() >= chunks)
    scale = max(chunk, 1)
    last = (members & (cluster.gpus >= rest) & (cluster.cpus >= -(-cpus * rest // scale))
            & (cluster.memory >= -(-memory * rest // scale)))
    return bool(full.sum() >= chunks and last.sum() >= chunks + 1)


def _reject_dependents(dependency: NDArray[np.int32], found: dict[int, str]) -> None:
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
            found.update({link: "its dependencies form a circle" for link in trail if link not in found})
        elif step in found:
            found.update({link: "depends on a job that can never run" for link in trail if link not in found})
        for link in trail:
            settled[link] = True
    for job in np.flatnonzero(dependency >= 0):
        if int(dependency[job]) in found:
            found.setdefault(int(job), "depends on a job that can never run")


def state_arrays(cluster: Cluster, workload: Workload, seed: int, preemption_s: float,
                 speed: a.Speed) -> tuple[a.State, dict[int, str]]:
    """Return fresh arrays for a run, and why some jobs are rejected."""
    pool, matrix = pools(cluster, workload)
    shapes = shape(cluster, workload, pool, matrix)
    refused = rejections(cluster, workload, pool, matrix, shapes)
    jobs = _jobs(workload, pool, shapes)
    progress = _progress(workload, shapes, len(cluster))
    progress.status[list(refused)] = a.REJECTED
    partitions = max(1, int(jobs.partition.max(initial=0)) + 1)
    state = a.State(
        _nodes(cluster, matrix, jobs, seed), jobs, progress, _queue(len(workload), partitions),
        _running(len(workload), cluster), a.Speed(*(a.contiguous(table, np.float64) for table in speed)),
        clock=np.array([-np.inf, np.inf]), count=np.array([0, 0, np.iinfo(np.int64).max, 0, 100, 0, 0, 0], np.int64),
        overhead=np.array([preemption_s]), usage=np.zeros((int(jobs.user.max(initial=0)) + 1, 3)),
        digest=np.zeros(1, np.uint64), log=np.zeros(2 * len(workload) + 2, np.int32),
        chosen=np.zeros(len(cluster), np.int64))
    return state, refused


def _nodes(cluster: Cluster, matrix: NDArray[np.int8], jobs: a.Jobs, seed: int) -> a.Nodes:
    demand = np.bincount(jobs.chunk, minlength=int(cluster.gpus.max()) + 1).astype(np.float64)
    return a.Nodes(
        gpus=a.contiguous(cluster.gpus, np.int64), free_gpus=a.contiguous(cluster.gpus, np.int64),
        free_cpus=a.contiguous(cluster.cpus, np.int64), free_memory=a.contiguous(cluster.memory, np.int64),
        open=a.contiguous(cluster.up, np.int8), busy=np.zeros(len(cluster), np.int64),
        leaf=a.contiguous(cluster.leaf, np.int64), spine=a.contiguous(cluster.spine, np.int64),
        eligible=a.contiguous(matrix, np.int8), demand=demand / max(1.0, demand.sum()),
        random=np.array([seed & (2**64 - 1)], np.uint64))


def _jobs(workload: Workload, pool: NDArray[np.int32], shapes: dict[str, Any]) -> a.Jobs:
    ints = {name: a.contiguous(shapes[name], np.int32) for name in ("chunk", "chunks", "rest")}
    first, following = _children(workload.dependency)
    return a.Jobs(
        submit=a.contiguous(workload.submit, np.float64), run=a.contiguous(workload.run, np.float64),
        limit=a.contiguous(workload.limit, np.float64), prediction=a.contiguous(workload.prediction, np.float64),
        priority=a.contiguous(workload.priority, np.float64), gpus=a.contiguous(workload.gpus, np.int32),
        cpus=a.contiguous(np.minimum(shapes["cpus"], PLENTY), np.int64), memory=a.contiguous(shapes["memory"], np.int64),
        pool=a.contiguous(pool, np.int32), partition=a.contiguous(np.maximum(workload.partition, 0), np.int32),
        user=a.contiguous(workload.user + 1, np.int32), model=a.contiguous(workload.application, np.int32),
        dependency=a.contiguous(workload.dependency, np.int32), first_child=first, next_child=following,
        preemptible=a.contiguous(workload.preemptible, np.int8), **ints)


def _children(dependency: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the dependents of each job as linked lists in order of rows; empty when there are none."""
    if not (dependency >= 0).any():
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    first = np.full(dependency.size, -1, np.int32)
    following = np.full(dependency.size, -1, np.int32)
    for job in np.flatnonzero(dependency >= 0)[::-1]:
        following[job], first[dependency[job]] = first[dependency[job]], job
    return first, following


def _progress(workload: Workload, shapes: dict[str, Any], nodes: int) -> a.Progress:
    size = len(workload)
    widest = np.maximum(shapes["chunks"] + (shapes["rest"] > 0), workload.maximum > workload.gpus)
    elastic = np.minimum(np.maximum(workload.maximum, widest), nodes)
    room = np.where(workload.maximum > workload.gpus, elastic, np.clip(widest, 1, nodes))
    offset = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    zeros = np.zeros(size)
    return a.Progress(
        status=np.full(size, a.FUTURE, np.int8), remaining=a.contiguous(workload.run, np.float64), since=zeros.copy(),
        start=np.full(size, np.nan), end=np.full(size, np.nan), estimate=zeros.copy(), rate=np.ones(size),
        attained=zeros.copy(), width=np.zeros(size, np.int32), size=np.zeros(size, np.int32), offset=offset,
        node=np.zeros(offset[-1], np.int32), share=np.zeros(offset[-1], np.int32), preempted=np.zeros(size, np.int32))


def _queue(jobs: int, partitions: int) -> a.Queue:
    def words(level: int) -> NDArray[np.uint64]:
        return np.zeros((partitions, (jobs >> 6 * level) + 1), np.uint64)

    order = np.arange(jobs, dtype=np.int32)
    return a.Queue(order, order.copy(), words(1), words(2), words(3), np.zeros(partitions, np.int64),
                   np.zeros(partitions, np.int64))


def _running(jobs: int, cluster: Cluster) -> a.Running:
    occupant = np.full((len(cluster), max(1, int(cluster.gpus.max(initial=0)))), -1, np.int32)
    for node, gpus in enumerate(cluster.gpus):
        occupant[node, gpus:] = -2
    return a.Running(np.zeros(jobs + 1, np.int32), np.full(jobs, -1, np.int32), np.zeros(jobs + 1, np.int32), occupant)

"""Which jobs stand in line together; rules choose. A line that is blocked is left alone until something is released.

The jobs of a partition form a line where partitions are independent. Partitions that share nodes form one line where
no job may take what another was promised. Jobs that ask for exactly the same make a line where whatever
fits may start: if the first of them does not fit, none does, and a million need not be tried one by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import ALIKE
from .feasibility import distinct, empty_lines
from .queue import insert
from .state import ClusterState

Lines = NDArray[np.int32]

PARTITION, SHARED_NODES, KIND = "partition", "shared nodes", "kind"

MOST_BITS = 1 << 29
"""Lines times jobs that are kept apart (64 MB); with more kinds of jobs than that they stand by partition again."""
_REQUEST_COLUMNS = ("pool", "chunk", "chunks", "rest", "rests", "cpus", "memory", "whole")


def by_partition(state: ClusterState) -> Lines:
    """Return a line for each partition that was named."""
    return np.maximum(state.workload.partition, 0)


def by_shared_nodes(state: ClusterState) -> Lines:
    """Return a line for each set of partitions that are tied together by nodes open to jobs of several."""
    partition = by_partition(state)
    if not partition.any():
        return partition
    pairs, _ = distinct(np.stack([partition, state.arrays.jobs.pool], axis=1))
    reach = np.zeros((int(partition.max(initial=0)) + 1, len(state.cluster)), np.float32)
    np.maximum.at(reach, pairs[:, 0], state.arrays.eligible[pairs[:, 1]])
    touching = (reach @ reach.T > 0) | np.eye(len(reach), dtype=bool)
    first = np.arange(len(reach))
    while (np.where(touching, first, len(first)).min(axis=1) < first).any():
        first = np.where(touching, first, len(first)).min(axis=1)
    return np.unique(first, return_inverse=True)[1].astype(np.int32)[partition]


def by_kind(state: ClusterState) -> Lines:
    """Return a line for all jobs that ask for the same on the same nodes."""
    jobs = state.arrays.jobs
    return distinct(np.stack([jobs[name].astype(np.int64) for name in _REQUEST_COLUMNS], axis=1))[1].astype(np.int32)


_LINES = {PARTITION: by_partition, SHARED_NODES: by_shared_nodes, KIND: by_kind}


def _number(lines: Lines) -> int:
    return int(lines.max(initial=0)) + 1


def assign_queues(state: ClusterState, by: str) -> None:
    """Assign all jobs to these lines, also those that wait already."""
    lines = _LINES[by](state)
    same_kind = by == KIND and _number(lines) * lines.size <= MOST_BITS
    if by == KIND and not same_kind:
        lines = by_partition(state)
    arrays = state.arrays
    arrays.counts[ALIKE] = same_kind
    if np.array_equal(lines, arrays.jobs.queue):
        return
    state.arrays = arrays = arrays._replace(**empty_lines(_number(lines), lines.size))
    arrays.jobs.queue = lines
    for job in state.waiting:
        insert(arrays, lines[job], arrays.jobs.rank[job])

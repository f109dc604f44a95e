"""What jobs did where they really ran, turned into the work that it took: a run time depends on the placement.

A job that ran for ten hours on GPUs that left it half its speed has five hours of work, and runs for five where it is
placed well. ``work = run time x mean speed there``, by the same table that gives the speed elsewhere, so that
a replay which gives every job its recorded place gives it its recorded run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .cluster import Cluster
from .execution_rate import SLOWEST
from .speed import FLAT, SpeedTable
from .workload import Workload

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@dataclass(frozen=True)
class HeldNodes:
    """Where jobs ran: a row for each node that a job held, those of one run together."""

    job: Longs
    """Row of the workload; -1 for a job that is only a neighbour of others."""
    node: Longs
    """Row of the cluster; -1 for a node that it does not have."""
    gpus: Longs
    begin: Floats
    end: Floats
    """Seconds."""
    application: Longs
    """Row of the speed table."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.job)


def as_work(workload: Workload, cluster: Cluster, table: SpeedTable, held: HeldNodes) -> tuple[Workload,
                                                                                               NDArray[np.bool_]]:
    """Return the workload with run times turned into work, and which jobs' places are recorded; others stay as is."""
    if table is FLAT:
        return workload, np.ones(len(workload), bool)
    speed = speeds_there(workload, cluster, table, held)
    known = np.isfinite(speed)
    return replace(workload, run=np.where(known, workload.run * speed, workload.run)), known


def speeds_there(workload: Workload, cluster: Cluster, table: SpeedTable, held: HeldNodes) -> Floats:
    """Return the mean speed of each job where it ran, relative to its request; NaN where that is not recorded."""
    speeds = np.full(len(workload), np.nan)
    order = np.argsort(held.job, kind="stable")
    order = order[held.job[order] >= 0]
    if not len(order):
        return speeds
    job, node = held.job[order], held.node[order]
    first = np.flatnonzero(np.diff(job, prepend=-1))
    rows, gpus = job[first], np.add.reduceat(held.gpus[order], first)
    level = levels(cluster, node, first)
    speed = sizes(table, workload.application[rows], gpus, workload.gpus[rows])
    speed = speed * _of(table.spread, workload.application[rows])[np.arange(len(rows)), level]
    speed[np.minimum.reduceat(node, first) < 0] = np.nan
    if table.company.size > 1:
        speed = speed * _company(held, order, first, table)
    speeds[rows] = speed
    return speeds


def levels(cluster: Cluster, node: Longs, first: Longs) -> Longs:
    """Return the columns of ``LEVELS`` of placements: nodes one after the other, each beginning at ``first``.

    A placement on one node counts as one island: which of its GPUs a job had is ignored.
    """
    if not len(first):
        return np.zeros(0, np.int64)
    leaf, spine = cluster.leaf[node], cluster.spine[node]
    count = np.diff(np.append(first, len(node)))
    differs = [np.maximum.reduceat(column, first) != np.minimum.reduceat(column, first) for column in (leaf, spine)]
    return np.where(count == 1, 0, np.where(differs[1], 4, np.where(differs[0], 3, 2)))


def sizes(table: SpeedTable, row: NDArray[np.integer], held: NDArray[np.integer],
          wanted: NDArray[np.integer]) -> Floats:
    """Return the speed with so many GPUs over that with as many as were requested."""
    size, last = _of(table.size, row), table.size.shape[1] - 1
    each = np.arange(len(row))
    requested = size[each, np.minimum(wanted, last)]
    return np.where(requested > 0, size[each, np.minimum(held, last)] / np.where(requested > 0, requested, 1.0), 1.0)


def _of(part: Floats, row: NDArray[np.integer]) -> Floats:
    """Return the rows of a table; a single one serves all."""
    return part[row] if len(part) > 1 else np.broadcast_to(part[0], (len(row), *part.shape[1:]))


def _company(held: HeldNodes, order: Longs, first: Longs, table: SpeedTable) -> Floats:
    """Return the mean part of its speed that neighbours left to each job."""
    nodes = Neighbours(held)
    ends = np.append(first[1:], len(order))
    return np.array([_left([list(nodes.beside(int(row))) for row in order[begin:end]], held, int(order[begin]), table)
                     for begin, end in zip(first.tolist(), ends.tolist(), strict=True)])


def _left(beside: list[list[tuple[int, float, float]]], held: HeldNodes, row: int, table: SpeedTable) -> float:
    """Return the mean over a run of what was left of its speed on the node where least was, at each moment."""
    keeps, begin, end = table.company[held.application[row]], float(held.begin[row]), float(held.end[row])
    harm = [[(low, high, keeps[held.application[other]]) for other, low, high in node
             if keeps[held.application[other]] != 1] for node in beside]
    if not any(harm) or end <= begin:
        return 1.0
    moments = np.unique([begin, end, *(moment for node in harm for low, high, _ in node for moment in (low, high))])
    left = np.ones((len(harm), len(moments) - 1))
    for index, node in enumerate(harm):
        for low, high, kept in node:
            left[index, (moments[:-1] >= low) & (moments[1:] <= high)] *= kept
    least = np.clip(left.min(axis=0), SLOWEST, 1.0)  # as the engine has it: neighbours make nobody faster
    return float((least * np.diff(moments)).sum() / (end - begin))


class Neighbours:
    """Which jobs shared nodes with which others, and when."""

    def __init__(self, held: HeldNodes) -> None:
        self._held = held
        # Jobs without a GPU disturb nobody.
        rows = np.flatnonzero((held.node >= 0) & (held.gpus > 0) & (held.end > held.begin))
        rows = rows[np.lexsort((held.begin[rows], held.node[rows]))]
        self._rows, self._node, self._begin = rows, held.node[rows], held.begin[rows]

    def beside(self, row: int) -> Iterator[tuple[int, float, float]]:
        """Yield the others on a row's node while it ran, by row, each with the time that they shared."""
        held = self._held
        begin, end = held.begin[row], held.end[row]
        low, high = np.searchsorted(self._node, [held.node[row], held.node[row] + 1])
        last = low + int(np.searchsorted(self._begin[low:high], end, side="left"))
        others = self._rows[low:last]
        others = others[(held.end[others] > begin) & ((held.job[others] != held.job[row]) | (held.job[others] < 0))]
        for other in others[others != row].tolist():
            yield other, float(max(begin, held.begin[other])), float(min(end, held.end[other]))

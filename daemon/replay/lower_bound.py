"""How far a policy is from what is possible: beside the best schedule of a few jobs, or a bound for many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cluster import Cluster
from .feasibility import pools, rejections, shape
from .optimum import OptimumError, best_schedule, jct_mean_bound
from .workload import COLUMNS, Workload

FEW = 10
"""The most jobs whose best schedule is searched for; for more jobs there is a bound."""
STATES = 100_000
"""Looked at for that, some three seconds."""
MANY = 3_000_000
"""More jobs than this have no bound: it takes three seconds a million."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """The least mean job completion time, s; None where none is known, and ``why``."""

    bound_s: float | None
    """No policy is below it."""
    uninterrupted_s: float | None
    """Nor is one below this that never interrupts a job."""
    exact: bool = False
    """Whether there is a schedule without interruptions that takes just ``uninterrupted_s``."""
    why: str = ""

    def row(self, jct_mean_s: float, *, preemptions: int, ended: bool) -> dict[str, object]:
        """Return the columns of a policy; ``distance`` is 0 at the lower bound and 1 at twice its time.

        ``jct_bound_kind`` is ``optimum`` or ``bound``, else it says why there is none.
        """
        least = self.bound_s if preemptions else self.uninterrupted_s
        known = least is not None and least > 0 and ended
        kind = self.why if least is None else "bound"
        return {"jct_bound_s": least, "jct_bound_kind": "optimum" if self.exact and not preemptions else kind,
                "distance": jct_mean_s / least - 1.0 if known and least else None}


def lower_bound(cluster: Cluster, workload: Workload) -> LowerBound:
    """Return the lower bound of the jobs that can run at all; outages and dependencies only add to it."""
    pool, matrix = pools(cluster, workload)
    runnable = np.ones(len(workload), bool)
    runnable[list(rejections(cluster, workload, pool, matrix, shape(cluster, workload, pool, matrix)))] = False
    jobs = _only(workload, runnable)
    if not len(jobs):
        return LowerBound(None, None, why="no job can run")
    if len(jobs) > MANY:
        return LowerBound(None, None, why=f"no bound is sought for more than {MANY} jobs")
    if (jobs.maximum > jobs.gpus).any():
        return LowerBound(None, None, why="elastic jobs can be faster than they were")
    parts = [(len(some), jct_mean_bound(some, gpus))
             for some, gpus in _independent_parts(cluster, jobs, pool[runnable], matrix)]
    bound_s = sum(count * mean for count, mean in parts) / len(jobs)
    if len(jobs) > FEW:
        return LowerBound(bound_s, bound_s)
    free = not cluster.events and bool(cluster.up.all()) and not (workload.dependency[runnable] >= 0).any()
    return _searched(cluster, jobs, bound_s, whole=free and not jobs.exclusive.any())


def _only(workload: Workload, kept: NDArray[np.bool_]) -> Workload:
    """Return some of the jobs, which wait for none of the others."""
    columns: dict[str, Any] = {name: getattr(workload, name)[kept] for name in COLUMNS}
    columns["dependency"] = np.full(int(kept.sum()), -1, np.int32)
    charged = workload.charged and workload.charged.of_rows(np.flatnonzero(kept))
    return replace(workload, ids=range(int(kept.sum())), charged=charged, **columns)


def _independent_parts(cluster: Cluster, jobs: Workload, pool: NDArray[np.int32],
                       matrix: NDArray[np.int8]) -> Iterator[tuple[Workload, int]]:
    """Yield the jobs that share no node with others, and the GPUs of their nodes: each part has its own bound."""
    parts: list[tuple[set[int], NDArray[np.bool_]]] = []
    for row in np.unique(pool).tolist():
        members, nodes = {row}, matrix[row] == 1
        for other in [part for part in parts if (part[1] & nodes).any()]:
            parts.remove(other)
            members, nodes = members | other[0], nodes | other[1]
        parts.append((members, nodes))
    for members, nodes in parts:
        mine = np.isin(pool, sorted(members))
        yield (jobs if mine.all() else _only(jobs, mine)), int(cluster.gpus[nodes].sum())


def _searched(cluster: Cluster, jobs: Workload, bound_s: float, *, whole: bool) -> LowerBound:
    """Return the lower bound of a few jobs by search, which is exact where it knows the ``whole`` of their limits."""
    try:
        schedule = best_schedule(cluster, jobs, states=STATES)
    except OptimumError:
        return LowerBound(bound_s, bound_s)
    return LowerBound(bound_s, max(bound_s, schedule.bound), exact=schedule.proven and whole)

"""Which job comes first: one that may preempt the other, one of higher tier, of higher priority, the earlier one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .preemption import BY_QOS, Group, SchedulerPreemption, in_turn
from .site import Scheduling

if TYPE_CHECKING:
    from ..workload import Workload

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]
Ranking = Callable[[Rows, Floats, Floats], Rows]
"""(rows by number, their priorities, when they came) -> the rows in order."""


def ranking_of(scheduling: Scheduling, workload: Workload) -> Ranking:
    """Return how a scheduler sorts the jobs of a workload."""
    tier, preemption = tiers(scheduling, workload), scheduling.preemption
    if not preemption.takes_place and (tier == tier[:1]).all():
        return lambda rows, priority, came: rows[np.argsort(-priority, kind="stable")]
    if preemption.by != BY_QOS or not preemption.takes_place or workload.charged is None:
        return lambda rows, priority, came: by_level(tier, rows, priority, came)
    names, code = np.unique(np.array(workload.charged.qos, str), return_inverse=True)
    level = preemption.level(names.tolist())
    if level is not None:
        above = level[code] * (1 << 32) + tier
        return lambda rows, priority, came: by_level(above, rows, priority, came)
    over = _over(preemption, names.tolist())
    return lambda rows, priority, came: by_pairs(
        rows, code[rows], over, list(zip((-tier[rows]).tolist(), (-priority).tolist(), came.tolist(), rows.tolist(),
                                         strict=True)))


def tiers(scheduling: Scheduling, workload: Workload) -> NDArray[np.int64]:
    """Return the tier of each job, the highest of its partitions."""
    known = [max(scheduling.tiers.get(part, 1) for part in name.split(",")) for name in workload.partition_names]
    # A code of -1 is the last one: no partition.
    return np.array([*known, 1], np.int64)[workload.partition]


def by_level(level: NDArray[np.int64], rows: Rows, priority: Floats, came: Floats) -> Rows:
    """Sort by level, then by priority, ties by arrival."""
    return rows[np.lexsort((came, -priority, -level[rows]))]


def _over(preemption: SchedulerPreemption, names: list[str]) -> NDArray[np.bool_]:
    groups = [preemption.groups.get(name, Group()) for name in names]
    return np.array([[name in group.over for name in names] for group in groups], bool)


def by_pairs(rows: Rows, code: Rows, over: NDArray[np.bool_], worth: list[tuple[float, ...]]) -> Rows:
    """Sort two by two: a job that may preempt the other goes first, else the one whose ``worth`` is less."""
    group, above = code.tolist(), over.tolist()

    def before(one: int, other: int) -> bool:
        if above[group[one]][group[other]]:
            return True
        return not above[group[other]][group[one]] and worth[one] < worth[other]

    return rows[np.array(in_turn(before, list(range(len(rows)))), np.intp)]

"""Lower bound of the mean completion time on the held-out weeks, for policies that may resize jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...agents.kinds import TraceWindow
from ...agents.observation import of_application
from ...replay.optimum import elastic_jct_mean_bound


def jct_bound_s(windows: Sequence[TraceWindow]) -> float:
    """Return a lower bound of the mean completion time of the jobs that count, s.

    The bound assumes that earlier jobs are gone, that distance and neighbours cost nothing, and that nodes never fail.
    """
    bounds, counts = zip(*(_bound(window) for window in windows), strict=True)
    return float(np.average(bounds, weights=counts))


def _bound(window: TraceWindow) -> tuple[float, int]:
    work, cluster = window.workload, window.cluster
    rows = np.flatnonzero((work.submit >= window.since_s) & (work.gpus <= cluster.gpus.sum()))
    speed = of_application(window.speeds.table.size, work.application[rows].astype(np.int64))
    wanted, sizes = work.gpus[rows], np.arange(speed.shape[1])
    last = speed.shape[1] - 1
    run = work.run[rows, None] * np.take_along_axis(speed, np.minimum(wanted, last)[:, None], 1)
    low, high = (np.minimum(column[rows], last)[:, None] for column in (work.minimum, work.maximum))
    may = (sizes >= low) & (sizes <= high)
    took = np.divide(run, speed, out=np.full(speed.shape, np.inf), where=may & (speed > 0))
    rigid = (work.minimum[rows] == work.maximum[rows]) | (wanted > last)
    fastest = np.where(rigid, work.run[rows], took.min(axis=1))
    least = np.where(rigid, work.run[rows] * wanted, (took * np.where(may, sizes, 1)).min(axis=1))
    return elastic_jct_mean_bound(work.submit[rows], fastest, least, int(cluster.gpus.sum())), len(rows)

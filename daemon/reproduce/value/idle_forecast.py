"""Check of the forecast of when empty nodes are needed again, repeated along a replayed trace.

Live advice to power nodes down uses the same forecast. Here it gets only data from before each moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...advice.node_demand import HORIZON, STEP_S, demands, passages
from ...policies import named
from ...replay import engine
from ...replay.cluster import Cluster
from ...replay.workload import Workload
from ...settings.recommenders import PowerDownSettings
from .tried import INCUMBENT

Counts = NDArray[np.intp]

EVERY = int(2 * 3600 / STEP_S)
"""Number of steps between two forecasts."""
PAST = int(PowerDownSettings().past / STEP_S)
"""Number of past steps that a forecast uses."""


@dataclass(frozen=True, slots=True)
class ForecastCheck:
    """Results of forecasts for the first, the middle and the last of the nodes that were empty at each moment."""

    asked: int
    estimated: int
    """Number of forecasts with an estimate; the other forecasts had too little past data."""
    early: int
    """Number of nodes that were needed before the interval that should cover nine in ten."""
    late: int

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Return the cells of a table."""
        if not self.estimated:
            return str(self.asked), "0", "", ""
        inside = self.estimated - self.early - self.late
        return (str(self.asked), str(self.estimated), f"{inside / self.estimated:.0%}",
                f"{self.early / self.estimated:.0%}, {self.late / self.estimated:.0%}")


def in_use(cluster: Cluster, work: Workload) -> Counts:
    """Return the number of nodes in use in each step under the incumbent, from the first to the last submission."""
    done = engine.run(cluster, work, named(INCUMBENT))
    since_s, steps = float(work.submit[0]), int(np.ptp(work.submit) // STEP_S)
    change = np.zeros((len(cluster), steps + 1), np.int32)
    for job in np.flatnonzero(np.isfinite(done.start)).tolist():
        first = min(steps, int((done.start[job] - since_s) // STEP_S))
        last = min(steps, int(np.ceil((done.end[job] - since_s) / STEP_S)))
        nodes = done.state.held(job).node
        change[nodes, first] += 1
        change[nodes, max(first, last)] -= 1
    return np.asarray((change.cumsum(axis=1)[:, :-1] > 0).sum(axis=0))


def checked(used: Counts, nodes: int) -> ForecastCheck:
    """Return the results of forecasts every two hours, each with its whole horizon in the trace."""
    forecasts = estimated = early = late = 0
    for now in range(EVERY, len(used) - HORIZON, EVERY):
        empty = nodes - int(used[now])
        if empty < 1:
            continue
        more = np.unique([1, (empty + 1) // 2, empty])
        first = max(0, now + 1 - PAST)
        estimates = demands([used[first:now + 1]], first * STEP_S, now * STEP_S, nodes, more)
        for demand, after_s in zip(estimates, passages(used, now, nodes, more), strict=True):
            forecasts += 1
            if demand is not None:
                estimated += 1
                early += bool(after_s < demand.after_s[0])
                late += bool(after_s > demand.after_s[2])
    return ForecastCheck(forecasts, estimated, early, late)

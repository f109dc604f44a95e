"""Power-down of empty nodes by a forecast of demand, with power-up before the nodes are needed.

The forecast is the number of additional nodes that jobs need within the boot time of a node, from its frequency
in the last two weeks. So many empty nodes stay on that waiting for a boot costs jobs no more than a
given share of their mean completion time. The other nodes are powered down, those that are filled last first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...replay import arrays as a

STEP_S = 300.0
"""Interval at which the empty nodes are checked, s."""
LOOKED_BACK = int(14 * 86400 / STEP_S)
"""Number of past steps from which demand is forecast."""
FEWEST = int(86400 / STEP_S)
"""Least number of past steps for a forecast; with fewer, a node is powered down after ``TIMER_S``."""
TIMER_S = 1800.0
"""Time for which a node must be empty before it is powered down without a forecast, s."""
HARM = 0.004
"""Largest cost of waiting for booting nodes, as a share of the mean completion time."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand in one step."""

    more: int
    """Increase of nodes in use since the step in which nodes would have had to be powered up for it."""
    starts: int
    """Number of jobs that started."""


@dataclass
class Forecast:
    """Forecast of the additional nodes that jobs need at once, from recent steps."""

    wake_s: float
    past: deque[Demand] = field(default_factory=lambda: deque(maxlen=LOOKED_BACK))
    _busy: deque[int] = field(default_factory=deque)

    def note(self, busy: int, starts: int) -> None:
        """Add one step: the nodes in use at its end, and the number of jobs that started in it."""
        ahead = 1 + int(np.ceil(self.wake_s / STEP_S))
        if self._busy:
            self.past.append(Demand(max(0, busy - min(self._busy)), starts))
        self._busy.append(busy)
        while len(self._busy) > ahead:
            self._busy.popleft()

    @property
    def known(self) -> bool:
        """Return whether there are enough past steps for a forecast."""
        return len(self.past) >= FEWEST

    def reserve(self, jct_mean_s: float, nodes: int) -> int:
        """Return the number of empty nodes that stay on."""
        more = np.array([step.more for step in self.past])
        starts = np.array([step.starts for step in self.past], np.float64)
        bearable = HARM * jct_mean_s / max(self.wake_s, 1.0)
        late = np.bincount(np.minimum(more, nodes), weights=starts, minlength=nodes + 1) / max(1.0, starts.sum())
        beyond = late.sum() - np.cumsum(late)  # share of starts that want more than so many further nodes
        return int(np.argmax(beyond <= bearable))  # nobody wants more than all


class Keeper:
    """Powers nodes of a replay down and up by a forecast, between two of its decisions."""

    def __init__(self, wake_s: float) -> None:
        """Create a keeper for nodes with a given boot time."""
        self._forecast, self._started = Forecast(wake_s), 0
        self._wake_s = wake_s

    def attend(self, state: a.State, now: float) -> None:
        """Check the nodes at the present moment of the replay, and power nodes down and up."""
        nodes, meters, jobs = state.nodes, state.meters, state.jobs
        started = int((jobs.start <= now).sum())
        self._forecast.note(int((nodes.busy > 0).sum()), started - self._started)
        self._started = started
        ended = jobs.status == a.ENDED
        known = self._forecast.known and bool(ended.any())
        reserve = self._forecast.reserve(float((jobs.end - jobs.submit)[ended].mean()), len(nodes)) if known else 0
        empty = (nodes.busy == 0) & (nodes.open == 1)
        asleep, up = empty & (meters.slept <= now), empty & (meters.slept > now)
        spare = int(up.sum()) - reserve
        if spare > 0:
            idle_s = self._wake_s if known else TIMER_S
            rested = np.flatnonzero(up & (now - meters.changed >= idle_s) & (meters.ready <= now))
            meters.slept[rested[::-1][:spare]] = now
        elif spare < 0:
            self._wake(state, np.flatnonzero(asleep)[:-spare], now)

    def _wake(self, state: a.State, rows: NDArray[np.intp], now: float) -> None:
        """Power nodes up before jobs need them; during the boot they draw the power of an empty node."""
        for row in rows.tolist():
            meter = state.meters[row]
            meter.empty += max(0.0, meter.slept - meter.changed)
            meter.down += now - max(meter.slept, meter.changed)
            meter.changed, meter.slept, meter.ready = now, np.inf, now + self._wake_s
            meter.woken += 1

"""Which empty nodes are powered down, and up again beforehand: those that a forecast of demand says nobody needs soon.

What is forecast is how many more nodes are wanted within the time that one takes to come up, from how often that
happened in the last two weeks. So many empty nodes stay on that waiting for one to come up costs jobs no more than a
stated share of their mean completion time; the others are powered down, those that are filled last first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...replay import arrays as a

STEP_S = 300.0
"""How often it is looked at which nodes are empty."""
LOOKED_BACK = int(14 * 86400 / STEP_S)
"""Steps from which demand is forecast."""
FEWEST = int(86400 / STEP_S)
"""With fewer of them nothing is forecast, and a node is powered down after it has been empty for a while."""
TIMER_S = 1800.0
"""So long, then."""
HARM = 0.004
"""Waiting for nodes that come up may cost so much of the mean completion time."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What happened in one step."""

    more: int
    """Nodes in use beyond those of when a node would have had to be woken for it."""
    starts: int
    """Jobs that started."""


@dataclass
class Forecast:
    """How many more nodes are wanted at once, and by how many jobs, from what happened lately."""

    wake_s: float
    past: deque[Demand] = field(default_factory=lambda: deque(maxlen=LOOKED_BACK))
    _busy: deque[int] = field(default_factory=deque)

    def note(self, busy: int, starts: int) -> None:
        """Take in one step: nodes in use at its end, and the jobs that started in it."""
        ahead = 1 + int(np.ceil(self.wake_s / STEP_S))
        if self._busy:
            self.past.append(Demand(max(0, busy - min(self._busy)), starts))
        self._busy.append(busy)
        while len(self._busy) > ahead:
            self._busy.popleft()

    @property
    def known(self) -> bool:
        """Tell whether enough has been seen to forecast anything."""
        return len(self.past) >= FEWEST

    def reserve(self, jct_mean_s: float, nodes: int) -> int:
        """Return how many of so many nodes stay on though they are empty."""
        more = np.array([step.more for step in self.past])
        starts = np.array([step.starts for step in self.past], np.float64)
        bearable = HARM * jct_mean_s / max(self.wake_s, 1.0)
        late = np.bincount(np.minimum(more, nodes), weights=starts, minlength=nodes + 1) / max(1.0, starts.sum())
        beyond = late.sum() - np.cumsum(late)  # share of starts that want more than so many further nodes
        return int(np.argmax(beyond <= bearable))  # nobody wants more than all


class Keeper:
    """Powers nodes of a replay down and up by a forecast, between two of its decisions."""

    def __init__(self, wake_s: float) -> None:
        """Know how long a node takes to come up."""
        self._forecast, self._started = Forecast(wake_s), 0
        self._wake_s = wake_s

    def attend(self, state: a.State, now: float) -> None:
        """Look at the nodes at a moment to which the replay has come, and change which of them are on."""
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
        """Power nodes up before anybody needs them; until they are up they draw what an empty node does."""
        for row in rows.tolist():
            meter = state.meters[row]
            meter.empty += max(0.0, meter.slept - meter.changed)
            meter.down += now - max(meter.slept, meter.changed)
            meter.changed, meter.slept, meter.ready = now, np.inf, now + self._wake_s
            meter.woken += 1

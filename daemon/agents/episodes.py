"""Episodes: some hundred jobs of a history that followed each other, where somebody waits; and what they cost.

What a decision cost is told by what came after it in its own replay and in others of the same episode (input-dependent
baseline, Mao et al. 2019): which jobs came when is the same in all of them, and cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..policies import named
from ..replay import arrays as a
from ..replay.arrays import Floats
from ..replay.engine import Run
from ..replay.outcome import SHORT_S
from .histories import taken
from .kinds import Objective, TraceWindow

JOBS = 240
"""Of an episode; learning replays thousands of them."""
FILLING = 0.2
"""Share of an episode that fills the cluster and does not count."""
HORIZON = 4.0
"""What comes later than so many mean completion times is not a decision's doing."""


@dataclass(frozen=True)
class Episode:
    """Some hundred jobs of a trace window, and what the incumbent made of them."""

    window: TraceWindow
    weight: Floats
    """[job] what a second in the system costs, so that under the incumbent all of them cost 1 together."""
    horizon_s: float

    def cost(self, done: Run) -> float:
        """Return what a replay cost, relative to the incumbent's."""
        return float(self.weight @ self._spent(done, np.array([np.inf]))[0])

    def later(self, done: Run, times: Floats) -> Floats:
        """Return what a replay cost within the horizon after each of these moments."""
        return np.asarray((self._spent(done, times + self.horizon_s) - self._spent(done, times)) @ self.weight)

    def _spent(self, done: Run, until: Floats) -> Floats:
        """Return how long each job was in the system until some moments, [moment, job]; a job that never ends stays."""
        submit, end = self.window.workload.submit, np.nan_to_num(done.end, nan=done.state.now)
        return np.asarray(np.clip(until[:, None] - submit, 0.0, np.maximum(0.0, end - submit)))


def episode_of(window: TraceWindow, incumbent: str, objective: Objective, random: np.random.Generator) -> Episode:
    """Return an episode of a trace window, more often where jobs wait for long."""
    done = window.replayed(named(incumbent))
    first = _beginning(np.nan_to_num(done.start - window.workload.submit), random)
    rows = np.arange(first, min(len(window.workload), first + JOBS))
    work = taken(window.workload, rows)
    part = replace(window, workload=work, since_s=float(work.submit[int(FILLING * len(rows))]))
    return weighted(part, incumbent, objective)


def weighted(window: TraceWindow, incumbent: str, objective: Objective) -> Episode:
    """Return a whole trace window as an episode, with what a job's time in it costs, by the objective."""
    done, work = window.replayed(named(incumbent)), window.workload
    counted = (done.state.arrays.jobs.status != a.REJECTED) & (work.submit >= window.since_s)
    jct = np.nan_to_num(done.end, nan=done.state.now) - work.submit
    short = np.maximum(work.run, SHORT_S)
    mean = max(1.0, float(jct[counted].mean())) if counted.any() else 1.0
    slow = float((jct / short)[counted].mean()) if counted.any() else 1.0
    # The tail has no price per second; learning leaves it to later history, which chooses by the whole objective.
    weight = counted * (objective.jct_mean / mean + objective.slowdown_mean / (short * max(1.0, slow)))
    total = float(weight @ jct)
    return Episode(window, weight / total if total > 0 else weight, HORIZON * mean)


def _beginning(wait: Floats, random: np.random.Generator) -> int:
    """Return the first row of an episode, by how long the jobs of an episode that begins there wait."""
    last = max(1, len(wait) - JOBS + 1)
    waited = np.cumsum(np.concatenate([[0.0], wait]))
    odds = waited[np.minimum(np.arange(last) + JOBS, len(wait))] - waited[:last] + 1.0
    return int(random.choice(last, p=odds / odds.sum()))

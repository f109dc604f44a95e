"""Episodes: some hundred consecutive jobs of a history in which jobs wait; and their cost.

The advantage of a decision is the cost that followed it in its own replay, compared with other replays of the same
episode (input-dependent baseline, Mao et al. 2019): all of them have the same arrivals, whose effect cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..policies import named
from ..replay import arrays as a
from ..replay.arrays import Floats
from ..replay.engine import Run
from ..replay.outcome import SHORT_S
from .histories import subset
from .kinds import SMOOTHING_S, Objective, TraceWindow

JOBS = 240
"""Jobs of an episode; training replays thousands of episodes."""
FILLING = 0.2
"""Share of an episode that only fills the cluster and is not counted."""
HORIZON = 4.0
"""Costs later than so many mean completion times are not attributed to a decision."""


@dataclass(frozen=True)
class Episode:
    """Some hundred jobs of a trace window, with weights relative to the incumbent's results."""

    window: TraceWindow
    weight: Floats
    """[job] cost of a second in the system; the total under the incumbent is 1."""
    horizon_s: float

    def cost(self, done: Run) -> float:
        """Return the cost of a replay, relative to the incumbent's."""
        return float(self.weight @ self._spent(done, np.array([np.inf]))[0])

    def later(self, done: Run, times: Floats) -> Floats:
        """Return the cost of a replay within the horizon after each of these moments."""
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
    work = subset(window.workload, rows)
    part = replace(window, workload=work, since_s=float(work.submit[int(FILLING * len(rows))]))
    return weighted(part, incumbent, objective)


def weighted(window: TraceWindow, incumbent: str, objective: Objective) -> Episode:
    """Return a whole trace window as an episode, with what a job's time in it costs, by the objective."""
    done, work = window.replayed(named(incumbent)), window.workload
    counted = (done.state.arrays.jobs.status != a.REJECTED) & (work.submit >= window.since_s)
    jct = np.nan_to_num(done.end, nan=done.state.now) - work.submit
    short, aim = np.maximum(work.run, SHORT_S), _by_time(objective)
    mean = max(1.0, _mean(jct, counted))
    # As in ``Figures.relative``: a wait of two seconds instead of one is no loss.
    waited = _mean(np.maximum(0.0, jct - work.run), counted) + SMOOTHING_S
    weight = counted * (aim.jct_mean / mean + aim.slowdown_mean / (short * max(1.0, _mean(jct / short, counted)))
                        + aim.wait_mean / waited)
    total = float(weight @ jct)
    return Episode(window, weight / total if total > 0 else weight, HORIZON * mean)


def _by_time(objective: Objective) -> Objective:
    """Return the objective that learning follows: one of which a part has a cost per second in the system.

    Validation on later history chooses by the whole objective in any case.
    """
    if objective.jct_mean or objective.slowdown_mean or objective.wait_mean:
        return objective
    # No second of one job has a part in a percentile, in use or in energy; without a direction nothing is learned.
    return replace(objective, wait_mean=objective.wait_p99) if objective.wait_p99 else Objective()


def _mean(values: Floats, counted: NDArray[np.bool_]) -> float:
    """Return the mean of what counts; 1 where nothing does."""
    return float(values[counted].mean()) if counted.any() else 1.0


def _beginning(wait: Floats, random: np.random.Generator) -> int:
    """Draw the first row of an episode, with odds by the total wait of the jobs that follow it."""
    last = max(1, len(wait) - JOBS + 1)
    waited = np.cumsum(np.concatenate([[0.0], wait]))
    odds = waited[np.minimum(np.arange(last) + JOBS, len(wait))] - waited[:last] + 1.0
    return int(random.choice(last, p=odds / odds.sum()))

"""What a replay of a stretch was worth to an operator, relative to another one: what candidates are chosen by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..replay import arrays as a
from ..replay import engine
from ..replay.outcome import SHORT_S, paper_utilization
from ..replay.power import PowerModel, energy
from .kinds import Objective

SMOOTHING_S = 60.0
"""Added to waits before they are divided: from one second to two is no loss."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of a replay, over the jobs that count."""

    jct_mean_s: float
    slowdown_mean: float
    wait_p99_s: float
    wait_mean_s: float
    wasted_joules: float | None
    """None where it was not asked for: to count it takes longer than all else."""
    utilization: float = float("nan")
    """The mean over partitions, from when jobs count to the last submission: Eq. (5) of the GIST AI-X paper."""
    makespan_s: float = float("nan")
    """From when jobs count to the last end."""
    joules: float | None = None
    """At the wall; None where it was not asked for."""

    def relative(self, other: Figures, objective: Objective) -> float:
        """Return the objective, relative to another replay of the same jobs: below 1 is better.

        A weighted geometric mean of ratios: which of two replays is better does not depend on the one that both are
        compared with, and 2 % matter as much where queues are long as where they are short.
        """
        parts = [(objective.jct_mean, self.jct_mean_s, other.jct_mean_s),
                 (objective.slowdown_mean, self.slowdown_mean, other.slowdown_mean),
                 (objective.wait_p99, self.wait_p99_s + SMOOTHING_S, other.wait_p99_s + SMOOTHING_S),
                 (objective.wait_mean, self.wait_mean_s + SMOOTHING_S, other.wait_mean_s + SMOOTHING_S),
                 (objective.utilization, other.utilization, self.utilization),  # more of it is better
                 (objective.makespan, self.makespan_s, other.makespan_s),
                 *self._energies(other, objective)]
        logs = sum(weight * math.log(ours / theirs) for weight, ours, theirs in parts if weight)
        return math.exp(logs / sum(part[0] for part in parts))

    def _energies(self, other: Figures, objective: Objective) -> list[tuple[float, float, float]]:
        """Return the parts of the objective that are energies."""
        parts = []
        for weight, ours, theirs in ((objective.energy_wasted, self.wasted_joules, other.wasted_joules),
                                     (objective.energy, self.joules, other.joules)):
            if weight and (ours is None or theirs is None):
                raise ValueError("the objective wants energy, which was not counted: figures(…, watts=MODEL)")
            if ours is not None and theirs is not None:
                parts.append((weight, ours, theirs))
        return parts


def figures(run: engine.Run, since_s: float, *, watts: PowerModel | None = None) -> Figures:
    """Return the figures of a run over the jobs submitted since a moment; whoever has not ended ends with the run."""
    jobs = run.state.arrays.jobs
    counted = (jobs.status != a.REJECTED) & (jobs.submit >= since_s)
    submit, end = jobs.submit[counted], run.end[counted]
    jct = np.where(np.isnan(end), max(run.state.now, float(np.nanmax(end, initial=0.0))), end) - submit
    wait = np.maximum(0.0, jct - jobs.run[counted])
    slowdown = np.maximum(1.0, jct / np.maximum(jobs.run[counted], SHORT_S))
    spent = None if watts is None else energy(run, watts)
    until_s = float(submit.max(initial=since_s))
    return Figures(float(jct.mean()), float(slowdown.mean()), float(np.quantile(wait, 0.99)), float(wait.mean()),
                   None if spent is None else spent.wasted, paper_utilization(run, since_s, until_s),
                   max(1.0, float((jct + submit).max()) - since_s), None if spent is None else spent.total)

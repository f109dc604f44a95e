"""Our rule: a bundle for everybody, then the task that does most for what it takes; and plans that look ahead by it.

It reads what is left of each job, and the true speeds unless it is told others; no site knows either exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Floats, Longs
from ...replay.compiled import compiled, compiled_apart, compiled_with_arrays
from .kernel import SERVER, WORKER, ArenaCluster, ArrivedJobs, grant, waiting

FIRST, ANY = 5.0, 10.0
"""Added to scores: first bundles go first, and every task is worth giving as long as it fits."""
LEAST = 1e-4
"""Share of a job's full speed that a task counts as, at least."""
HORIZON = 12
"""Slots that a plan is played for."""
BELIEVED = 0.95
"""A task that leaves a job less of its speed is not given; a smaller fall may be the error of the speeds' fit."""
CLOSED = -1e300
"""Score of what cannot be given any more in this slot, for room is never given back in one."""
CHANGED, SPREAD = 2.0, 2.0
"""Jobs whose favour a plan changes, on average, and by how much."""


@dataclass
class LookAhead:
    """The rule as a policy of the arena."""

    plans: int = 0
    """To try in each slot, all by what is here now; 0 takes the rule at its word."""
    believed: Floats | None = None
    """[model, servers, workers] speeds that it goes by; true ones when None (an oracle)."""
    decisions: int = 0
    """Taken so far, those in plans included."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give jobs their tasks, highest score first."""
        known = cluster if self.believed is None else cluster._replace(rates=self.believed)
        if self.plans:
            self.decisions += int(look_ahead(known, jobs, used, self._changes(jobs)))
        else:
            self.decisions += int(by_score(known, jobs, used, *np.zeros((2, len(jobs.model), 3))))

    def _changes(self, jobs: ArrivedJobs) -> Floats:
        """Draw favours to try, [plan, job, what]: the same for the same situation. The first are the rule's own."""
        count = len(jobs.model)
        draw = np.random.default_rng([count, int(jobs.stay.sum())])
        changed = draw.random((self.plans, count, 1)) < CHANGED / max(count, 1)
        changed[0] = False
        return np.where(changed, SPREAD * draw.standard_normal((self.plans, count, 3)), 0.0)


@compiled_apart
def by_score(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, favour: Floats, scores: Floats) -> int:
    """Give the next task to the job that the rule rates highest, while any can be given; return the decisions.

    ``favour`` [job, what] is added to scores where they are compared. Only the job that was given something
    is rated again. ``scores`` [job, what] is scratch.
    """
    for job in range(jobs.model.size):
        scores[job, 0] = scores[job, 1] = scores[job, 2] = 0.0
        rate(cluster, jobs, job, scores)
    decisions = 0
    while True:
        best, most, what = -1, -np.inf, 0
        for job in range(jobs.model.size):
            for kind in range(3):
                if scores[job, kind] > 0.0 and scores[job, kind] + favour[job, kind] > most:
                    best, most, what = job, scores[job, kind] + favour[job, kind], kind
        decisions += 1
        if best < 0:
            return decisions
        if grant(cluster, jobs, used, best, what, True):
            rate(cluster, jobs, best, scores)
        else:
            scores[best, what] = CLOSED


@compiled_with_arrays
def look_ahead(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, changes: Floats) -> int:
    """Give tasks by the plan for this slot that ends the jobs here soonest, were nobody else to come.

    Plan after plan adds a row of ``changes`` [plan, job, what] to the favours of the best so far, and is played to its
    end with the rule as it is in all later slots. Return the decisions.
    """
    favour, best, decisions = np.zeros((jobs.model.size, 3)), np.inf, 0
    scores = np.empty((jobs.model.size, 3))
    for plan in range(len(changes)):
        tried = favour + changes[plan]
        now = _anew(cluster, jobs, jobs.remaining, 0.0)
        decisions += by_score(cluster, now, np.zeros_like(used), tried, scores)
        worth, further = _played(cluster, now, scores)
        decisions += further
        if worth < best:
            favour, best = tried, worth
    return decisions + by_score(cluster, jobs, used, favour, scores)


@compiled_with_arrays
def _anew(cluster: ArenaCluster, jobs: ArrivedJobs, remaining: Floats, later: float) -> ArrivedJobs:
    """Return the jobs that are not done so much later, without tasks."""
    live = np.flatnonzero(remaining > 0.0)
    return waiting(cluster, jobs.number[live], jobs.model[live], jobs.stay[live] + later, remaining[live],
                   jobs.epochs[live])


@compiled_with_arrays
def _played(cluster: ArenaCluster, jobs: ArrivedJobs, scores: Floats) -> tuple[float, int]:
    """Return the slots that jobs take from now on, summed, and the decisions.

    A job that is not done at the horizon is taken to run at its best speed from there on.
    """
    total, decisions = 0.0, 0
    for _ in range(HORIZON):
        remaining = jobs.remaining.copy()
        for job in range(jobs.model.size):
            done = cluster.rates[jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]]
            total += min(1.0, remaining[job] / max(done, 1e-12))
            remaining[job] -= done
        jobs = _anew(cluster, jobs, remaining, 1.0)
        if jobs.model.size == 0:
            return total, decisions
        decisions += by_score(cluster, jobs, np.zeros((cluster.nodes, 2), np.int64),
                              np.zeros((jobs.model.size, 3)), scores)
    for job in range(jobs.model.size):
        total += jobs.remaining[job] / max(cluster.rates[jobs.model[job], cluster.most, cluster.most], 1e-12)
    return total, decisions


@compiled
def rate(cluster: ArenaCluster, jobs: ArrivedJobs, job: int, scores: Floats) -> None:
    """Write down the scores of what a job may be given."""
    for what in range(3):
        if scores[job, what] != CLOSED:
            scores[job, what] = _score(cluster, jobs, job, what)
    if jobs.tasks[job, SERVER] == 0 or jobs.tasks[job, WORKER] == 0:
        scores[job, SERVER] = scores[job, WORKER] = -1.0  # neither moves it alone


@compiled
def _score(cluster: ArenaCluster, jobs: ArrivedJobs, job: int, what: int) -> float:
    """Return what a task is worth: the share of its full speed that a job gains in this slot, for the room it takes.

    ``CLOSED`` where the job may have no more, or would be slowed.
    """
    model, servers, workers = jobs.model[job], jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
    then, also = servers + np.int64(what != WORKER), workers + np.int64(what != SERVER)
    if then > cluster.most or also > cluster.most:
        return CLOSED
    first = servers == 0 or workers == 0
    after = max(cluster.rates[model, then, also], 1e-9)
    before = after / np.e if first else max(cluster.rates[model, servers, workers], 1e-9)
    if after < BELIEVED * before:
        return CLOSED
    room = cluster.demand[model, what, 0] / cluster.slots + cluster.demand[model, what, 1] / cluster.slots
    fastest = max(cluster.rates[model, cluster.most, cluster.most], 1e-9)
    gain = min(after, jobs.remaining[job]) - (0.0 if first else min(before, jobs.remaining[job]))
    return ANY + (FIRST if first else 0.0) + np.log(max(gain / fastest, LEAST) / room)

"""Our rule: a bundle for every job, then the task with the most gain for its resources; and plans that look ahead.

The rule uses the remaining work of each job and the true speeds or given ones; no site knows either exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Floats, Longs
from ...replay.compiled import compiled, compiled_apart, compiled_with_arrays
from .kernel import SERVER, WORKER, ArenaCluster, ArrivedJobs, grant, waiting

FIRST, ANY = 5.0, 10.0
"""Added to scores, so that first bundles go first and every task that fits is given."""
LEAST = 1e-4
"""Least gain that a task counts as, as a share of the job's full speed."""
HORIZON = 12
"""Number of slots that a plan is simulated for."""
BELIEVED = 0.95
"""A task that reduces a job's speed below this share is not given; a smaller fall may be an error of the fit."""
CLOSED = -1e300
"""Score of a task that cannot be given any more in this slot, because room is never returned within a slot."""
CHANGED, SPREAD = 2.0, 2.0
"""Mean number of jobs whose favour a plan changes, and the spread of the changes."""


@dataclass
class LookAhead:
    """The rule as a policy of DL2's simulator, with or without looking ahead."""

    plans: int = 0
    """Number of plans to try in each slot, for the jobs that are there; 0 uses the rule without looking ahead."""
    believed: Floats | None = None
    """[model, servers, workers] speeds that the rule uses; the true speeds if None (an oracle)."""
    decisions: int = 0
    """Number of decisions so far, including those in plans."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give jobs their tasks for a slot, highest score first."""
        known = cluster if self.believed is None else cluster._replace(rates=self.believed)
        if self.plans:
            self.decisions += int(look_ahead(known, jobs, used, self._changes(jobs)))
        else:
            self.decisions += int(by_score(known, jobs, used, *np.zeros((2, len(jobs.model), 3))))

    def _changes(self, jobs: ArrivedJobs) -> Floats:
        """Draw the favours to try, [plan, job, kind of task]; equal states give equal draws.

        The first plan is the rule.
        """
        count = len(jobs.model)
        draw = np.random.default_rng([count, int(jobs.stay.sum())])
        changed = draw.random((self.plans, count, 1)) < CHANGED / max(count, 1)
        changed[0] = False
        return np.where(changed, SPREAD * draw.standard_normal((self.plans, count, 3)), 0.0)


@compiled_apart
def by_score(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, favour: Floats, scores: Floats) -> int:
    """Give the next task to the job that the rule rates highest, while any can be given; return the decisions.

    ``favour`` [job, kind of task] is added to scores when they are compared. Only the job that received a task
    is rated again. ``scores`` [job, kind of task] is scratch.
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
    """Give tasks by the plan that minimises the completion times of the present jobs if no other jobs arrive.

    Each plan adds a row of ``changes`` [plan, job, kind of task] to the favours of the best plan so far. The plan
    is simulated to its end, with the unchanged rule in all later slots. Return the number of decisions.
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
    """Return the jobs that are not done after so many slots, without tasks."""
    live = np.flatnonzero(remaining > 0.0)
    return waiting(cluster, jobs.number[live], jobs.model[live], jobs.stay[live] + later, remaining[live],
                   jobs.epochs[live])


@compiled_with_arrays
def _played(cluster: ArenaCluster, jobs: ArrivedJobs, scores: Floats) -> tuple[float, int]:
    """Return the sum of the jobs' remaining slots, and the number of decisions.

    A job that is not done at the horizon counts as running at its best speed afterwards.
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
    """Write the scores of the tasks that a job may be given."""
    for what in range(3):
        if scores[job, what] != CLOSED:
            scores[job, what] = _score(cluster, jobs, job, what)
    if jobs.tasks[job, SERVER] == 0 or jobs.tasks[job, WORKER] == 0:
        scores[job, SERVER] = scores[job, WORKER] = -1.0  # neither moves it alone


@compiled
def _score(cluster: ArenaCluster, jobs: ArrivedJobs, job: int, what: int) -> float:
    """Return the score of a task: the share of its full speed that a job gains in this slot, over the room taken.

    The score is ``CLOSED`` if the job may have no more tasks, or if the task would slow it.
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

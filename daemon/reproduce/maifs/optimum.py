"""Linear programmes with the pooled CPUs and memory of all nodes: the first of Synergy's "opt", and an upper bound.

Neighbours have no effect, and a job may have any mixture of the grants that one node can give. In Synergy's programme,
jobs of a kind run at least as fast as with their fair share. A policy that slows some jobs, as ours may, can be better.
Without that condition, no policy can be better with the same jobs in the same round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

from ...replay.arrays import Floats, Longs
from . import kernel, placing
from .arena import Round
from .baselines import Order, chosen
from .kernel import Site
from .placing import TUNE


class InfeasibleError(Exception):
    """The nodes cannot give all jobs the least speed; the message says so."""


FAIR, ANY = 1.0, 0.0
"""The least mean speed of jobs of a kind: in Synergy's programme, and in the bound."""


@dataclass(frozen=True)
class OptimalSpeeds:
    """A policy: jobs by an order, placed as Synergy-tune does, with the speeds of a linear programme."""

    order: Order
    least: float = FAIR
    known: dict[bytes, Floats] = field(default_factory=dict)
    """Cached solutions, by the numbers of jobs of each model and size and the number of shared nodes."""

    def decide(self, round: Round) -> None:
        """Place jobs as Synergy-tune does, by GPUs only, and give them the best speeds."""
        queue, count = chosen(round, self.order(round))
        placing.place_all(round.site, round.jobs, round.nodes, queue, count, TUNE)
        kernel.update_speeds(round.site, round.jobs, round.nodes, round.live)
        sharing = _sharing(round)
        round.jobs.speed[sharing] = self.speeds(round)

    def speeds(self, round: Round) -> Floats:
        """Return the best speeds of the jobs that share nodes."""
        jobs, sharing = round.jobs, _sharing(round)
        count = np.zeros(round.site.rates.shape[:2])
        np.add.at(count, (jobs.model[sharing], jobs.gpus[sharing]), 1.0)
        shared = int((round.nodes.owner < 0).sum())
        key = np.append(count, shared).tobytes()
        if key not in self.known:
            self.known[key] = solve(round.site, count, shared, self.least)
        return np.asarray(self.known[key][jobs.model[sharing], jobs.gpus[sharing]])


def _sharing(round: Round) -> Longs:
    """Return the running jobs on shared nodes."""
    jobs, live = round.jobs, round.live
    return live[(jobs.node[live] >= 0) & (jobs.gpus[live] <= round.site.size)]


def solve(site: Site, count: Floats, nodes: int, least: float = FAIR) -> Floats:
    """Return the best speeds [model, GPUs] for given numbers of jobs; InfeasibleError below the least speed."""
    speeds, rows = np.ones(count.shape), np.argwhere(count > 0)
    if not len(rows):
        return speeds
    kinds, grants = zip(*[(kind, grant) for kind, (model, gpus) in enumerate(rows)
                          for grant in site.options[model, gpus] if grant[0]], strict=True)
    kind, grant, membership = np.array(kinds), np.array(grants), np.eye(len(rows))[:, list(kinds)]
    rate = site.rates[rows[kind, 0], rows[kind, 1], grant[:, 0], grant[:, 1]]
    number = count[rows[:, 0], rows[:, 1]]
    solution = linprog(-rate * rows[kind, 1], A_ub=np.vstack([grant.T, -membership * rate]),
                       b_ub=np.concatenate([[nodes * site.shares] * 2, -least * number]), A_eq=membership, b_eq=number,
                       method="highs")
    if not solution.success:
        raise InfeasibleError(f"{number.sum():g} jobs do not have {least:g} of their fair share on {nodes} nodes: "
                              f"{solution.message}")
    speeds[rows[:, 0], rows[:, 1]] = membership @ (solution.x * rate) / number
    return speeds


def throughput(round: Round) -> float:
    """Return the throughput of the jobs on shared nodes, in GPUs at their fair share."""
    sharing = _sharing(round)
    return float((round.jobs.speed[sharing] * round.jobs.gpus[sharing]).sum())


def best_throughput(optimum: OptimalSpeeds, round: Round) -> float:
    """Return the throughput of the jobs on shared nodes with the speeds of a linear programme, in GPUs."""
    return float((optimum.speeds(round) * round.jobs.gpus[_sharing(round)]).sum())

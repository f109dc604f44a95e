"""The policies that MAIFS is compared with: Synergy's, and those of the field, with the same jobs and nodes.

They differ in the jobs of a round (``Order``), in the placement and in the grants. Placement is the
same for all but the random baseline: most GPUs first, on the former node, else on the node with the fewest free GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...agents.maifs.graph import LEVELS
from ...replay.arrays import Floats, Longs
from . import kernel, placing
from .arena import Round, RoundPolicy
from .kernel import SAVED, WAITING
from .placing import GREEDY, PROPORTIONAL, TUNE

Order = Callable[[Round], Floats]
"""Returns a key for each live job; the lowest goes first, ties by submission."""
QUEUE_S = 3250.0
"""GPU-seconds after which Tiresias (with two queues) demotes jobs, from its public code."""
EVEN = np.zeros(3)
"""Taste of a policy that divides a node only by speed."""


def fifo(round: Round) -> Floats:
    """First come, first served."""
    return round.jobs.submit[round.live]


def srtf(round: Round) -> Floats:
    """Shortest remaining time first, by the true remaining work."""
    return round.jobs.left[round.live]


def srsf(round: Round) -> Floats:
    """Shortest remaining service first: remaining time times GPUs."""
    return round.jobs.left[round.live] * round.jobs.gpus[round.live]


def las(round: Round) -> Floats:
    """Least attained service first."""
    return round.jobs.attained[round.live]


def tiresias(round: Round) -> Floats:
    """Two queues by attained service, each first come, first served."""
    return (round.jobs.attained[round.live] > QUEUE_S) * 1e12 + round.jobs.submit[round.live]


def chosen(round: Round, keys: Floats) -> tuple[Longs, int]:
    """Keep the first jobs by an order, stop the others; return the queue of jobs to place, and their number."""
    queue = np.empty(2 * len(round.jobs.gpus) + 1, np.int64)
    order = round.live[np.argsort(keys, kind="stable")]
    return queue, placing.select(round.site, round.jobs, round.nodes, order, queue)


@dataclass(frozen=True)
class Synergy:
    """One of Synergy's heuristics (Mohan et al., OSDI'22): ``rule`` is PROPORTIONAL, GREEDY or TUNE."""

    order: Order
    rule: int
    anew: bool = False
    """Whether TUNE places running jobs again in every round, as published; a job whose best is on its node stays."""

    def decide(self, round: Round) -> None:
        """Choose jobs by order and GPUs, then place them with the grants of the rule."""
        queue, count = chosen(round, self.order(round))
        if self.rule == TUNE and self.anew:
            count = placing.release(round.site, round.jobs, round.nodes, round.live, queue, count)
        placing.place_all(round.site, round.jobs, round.nodes, queue, count, self.rule)
        if self.rule == TUNE:
            placing.grow(round.site, round.jobs, round.nodes)
        kernel.update_speeds(round.site, round.jobs, round.nodes, round.live)


@dataclass(frozen=True)
class Marginal:
    """A policy that gives shares beyond the fair share one by one to the job with the largest gain by ``form``."""

    order: Order
    form: int

    def decide(self, round: Round) -> None:
        """Place at the fair share, then divide every node."""
        queue, count = chosen(round, self.order(round))
        placing.place_all(round.site, round.jobs, round.nodes, queue, count, PROPORTIONAL)
        kernel.divide_all(round.site, round.jobs, round.nodes, self.form, EVEN)
        kernel.update_speeds(round.site, round.jobs, round.nodes, round.live)


class RandomFeasible:
    """The random baseline: a random job on a random node with room, at a random level."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def decide(self, round: Round) -> None:
        """Keep running jobs, and start others at random."""
        site, jobs, nodes = round.site, round.jobs, round.nodes
        waiting = round.live[jobs.node[round.live] == WAITING]
        for job in self._draw.permutation(waiting).tolist():
            gpus = int(jobs.gpus[job])
            if kernel.whole(site, gpus):
                if (nodes.free[:, kernel.GPU] == site.size).sum() >= kernel.whole(site, gpus):
                    placing.seat_whole(site, jobs, nodes, np.array([job]), 0, 1)
                continue
            room = np.flatnonzero(nodes.free[:, kernel.GPU] >= gpus)
            if room.size:
                self._seat(round, job, int(self._draw.choice(room)), int(self._draw.integers(LEVELS)))
        kernel.update_speeds(site, jobs, nodes, round.live)

    def _seat(self, round: Round, job: int, node: int, level: int) -> None:
        """Place a job, unless there is no room for the drawn level."""
        share = [int(kernel.floor_of(round.site, round.jobs, job, level, what)) for what in range(2)]
        if (round.nodes.free[node, kernel.CPU:] >= share).all():
            kernel.put(round.jobs, round.nodes, job, node, *share)


def baselines(seed: int = 0) -> Mapping[str, RoundPolicy]:
    """Return every untrained policy by its name in the report; SRTF and SRSF know the true work."""
    orders = {"FIFO": fifo, "SRTF": srtf, "SRSF": srsf, "LAS": las}
    rules = {"proportional": PROPORTIONAL, "greedy": GREEDY, "tune": TUNE}
    synergy = {f"Synergy {rule}, {order}": Synergy(by, how) for rule, how in rules.items()
               for order, by in orders.items()}
    return {**synergy, "Synergy tune, SRSF, all placed anew": Synergy(srsf, TUNE, anew=True),
            "Tiresias": Synergy(tiresias, PROPORTIONAL), "Optimus": Marginal(srtf, SAVED),
            "random-feasible": RandomFeasible(seed)}

"""Training of the agent on windows, by completion time and makespan relative to Synergy-tune's.

Training starts with Synergy-tune's choices and a rule of thumb (:func:`.network.initial`). The order of jobs is
trained first, because it has most effect and few weights. Completion time counts three times, because few jobs set
the makespan. Half of the windows have jobs as submitted; in the other half all jobs are there at the beginning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Floats
from ..evolution import EvolutionConfig, Momentum, Score
from ..failures import ZeroProgressError
from . import network
from .agent import SCHEMA, ArenaMaifs
from .arena import ArenaTrace, ReplayResult, RoundPolicy, replay
from .kernel import Site

HOPELESS = 1.0
"""Log ratio of a candidate under which some job never ends."""

WORTH = np.array([0.75, 0.25])
"""Weights of completion time and makespan in the score."""

Task = tuple[Site, ArenaTrace]
"""A window, and the cluster that it is replayed on."""


@dataclass(frozen=True)
class WindowBench:
    """Training windows, and windows for selection."""

    draw: Callable[[int], Task]
    """Returns training window number ``n``; the same number gives the same window."""
    judges: Sequence[Task]
    """Windows for selection among candidates."""
    teacher: RoundPolicy
    """The policy that results are relative to."""
    agent: Callable[[Floats], RoundPolicy] = ArenaMaifs
    """Makes a policy from weights; an ablation makes another policy."""
    seed: int = 1

    @property
    def described(self) -> Mapping[str, object]:
        """Return everything that defines the replays, as values that JSON can hold."""
        works = b"".join(trace.work.tobytes() for _, trace in self.judges)
        return {**SCHEMA, "judges": hashlib.sha256(works).hexdigest()}

    def initial(self) -> Floats:
        """Return the weights that training starts with."""
        return network.initial(self.seed)

    def learned_from(self, numbers: Sequence[int]) -> Score:
        """Return the mean log of completion time and makespan (``WORTH``) over the teacher's on these windows."""
        return self._on([self.draw(number) for number in numbers])

    def chosen_by(self) -> Score:
        """Return the mean log ratio of completion time and makespan to the teacher's on the windows for selection."""
        return self._on(self.judges)

    def _on(self, tasks: Sequence[Task]) -> Score:
        known = [figures(replay(*task, self.teacher)) for task in tasks]
        return lambda weights: score(self.agent(weights), tasks, known)


def noise() -> Floats:
    """Return the perturbation of each weight: large for weights that act alone, smaller within the network."""
    spreads = {"direct": 0.15, "order_direct": 0.15, "taste": 0.15, "ally": 0.15}
    return np.concatenate([np.full(int(np.prod(shape)), spreads.get(name, 0.02))
                           for name, shape in network.ALL_SHAPES.items()])


def order_only() -> Floats:
    """Return 1 for the weights of the order of jobs, 0 for the others."""
    return np.concatenate([np.full(int(np.prod(shape)), float(name == "order_direct"))
                           for name, shape in network.ALL_SHAPES.items()])


def figures(outcome: ReplayResult) -> Floats:
    """Return the logs of completion time and makespan of a replay."""
    return np.asarray(np.log([outcome.jct.mean(), outcome.makespan]))


def score(policy: RoundPolicy, tasks: Sequence[Task], known: Sequence[Floats]) -> float:
    """Return a policy's mean log ratio to the teacher's figures, by ``WORTH``; below 0 is better."""
    ratios = []
    for (site, trace), teacher in zip(tasks, known, strict=True):
        try:
            ratios.append(float((figures(replay(site, trace, policy)) - teacher) @ WORTH))
        except ZeroProgressError:
            ratios.append(HOPELESS)
    return float(np.mean(ratios))


def evolution_config(seed: int, rounds: int) -> EvolutionConfig:
    """Return the settings of the evolution strategies; a step is as long as the noise."""
    return EvolutionConfig(seed, rounds, pairs=6, at_once=20, chosen_every=5, noise=noise(), rate=noise(),
                           optimiser=Momentum, first=order_only(), first_rounds=0.7, goes_back=True)

"""What the agent is evolved on: windows, by completion time and makespan relative to Synergy-tune's on the same ones.

It sets out from what Synergy-tune does and from a rule of thumb (:func:`.network.initial`). The order of jobs is
learned before the rest: it decides most, by few weights. Completion time counts thrice, for a few jobs make the
makespan. Half of the windows are as submitted, half have all jobs at the beginning.
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
"""Log of the ratio that stands for a candidate under which some job never ends."""

WORTH = np.array([0.75, 0.25])
"""Of completion time and makespan."""

Task = tuple[Site, ArenaTrace]
"""A window, and the cluster that it is replayed on."""


@dataclass(frozen=True)
class WindowBench:
    """Windows to learn from, and those to choose by."""

    draw: Callable[[int], Task]
    """Returns the window number ``n`` to learn from; the same number gives the same one."""
    judges: Sequence[Task]
    """Windows that choose among candidates."""
    teacher: RoundPolicy
    """The policy that results are relative to."""
    agent: Callable[[Floats], RoundPolicy] = ArenaMaifs
    """Makes a policy of weights; an ablation makes another one."""
    seed: int = 1

    @property
    def described(self) -> Mapping[str, object]:
        """Return all that the replays are made of."""
        works = b"".join(trace.work.tobytes() for _, trace in self.judges)
        return {**SCHEMA, "judges": hashlib.sha256(works).hexdigest()}

    def initial(self) -> Floats:
        """Return the weights that training sets out from."""
        return network.initial(self.seed)

    def learned_from(self, numbers: Sequence[int]) -> Score:
        """Return the mean log of completion time and makespan (``WORTH``) over the teacher's on these windows."""
        return self._on([self.draw(number) for number in numbers])

    def chosen_by(self) -> Score:
        """Return the same on the windows to choose by."""
        return self._on(self.judges)

    def _on(self, tasks: Sequence[Task]) -> Score:
        known = [figures(replay(*task, self.teacher)) for task in tasks]
        return lambda weights: score(self.agent(weights), tasks, known)


def noise() -> Floats:
    """Return how far each weight is moved: far where it acts by itself, less within the network."""
    own = {"direct": 0.15, "order_direct": 0.15, "taste": 0.15, "ally": 0.15}
    return np.concatenate([np.full(int(np.prod(shape)), own.get(name, 0.02))
                           for name, shape in network.ALL_SHAPES.items()])


def order_only() -> Floats:
    """Return 1 for the weights that order jobs by themselves, 0 for the others."""
    return np.concatenate([np.full(int(np.prod(shape)), float(name == "order_direct"))
                           for name, shape in network.ALL_SHAPES.items()])


def figures(outcome: ReplayResult) -> Floats:
    """Return the logs of what is compared."""
    return np.asarray(np.log([outcome.jct.mean(), outcome.makespan]))


def score(policy: RoundPolicy, tasks: Sequence[Task], known: Sequence[Floats]) -> float:
    """Return the mean log ratio of a policy to what is known of the teacher, by ``WORTH``; below 0 is better."""
    found = []
    for (site, trace), theirs in zip(tasks, known, strict=True):
        try:
            found.append(float((figures(replay(site, trace, policy)) - theirs) @ WORTH))
        except ZeroProgressError:
            found.append(HOPELESS)
    return float(np.mean(found))


def evolution_config(seed: int, rounds: int) -> EvolutionConfig:
    """Return how weights are evolved: a step is as long as the noise."""
    return EvolutionConfig(seed, rounds, pairs=6, at_once=20, chosen_every=5, noise=noise(), rate=noise(),
                           optimiser=Momentum, first=order_only(), first_rounds=0.7, goes_back=True)

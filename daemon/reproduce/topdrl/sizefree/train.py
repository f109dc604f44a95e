"""Training of the size-invariant agent by evolution strategies on whole episodes of the benchmark.

The score of an episode is relative to the rule that training starts with, so that long episodes count no more than
short ones. It combines completion time and throughput; waiting for close GPUs improves the latter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from ....replay.arrays import Floats
from ...evolution import EvolutionConfig, Score, stream_of_each
from ..arena import MIXES, ArenaEpisode, EpisodeResult, described, made_up, outcome
from .agent import SCHEMA, SizeFree
from .kernel import OUT
from .network import initial

POOL = 320
TRAINED_ON = (64, 64, 64, 128)
"""Numbers of GPUs of the training clusters, in turns; larger clusters are for the test."""

Judged = Sequence[tuple[ArenaEpisode, EpisodeResult]]
"""Episodes, each with the result of the initial rule."""


@dataclass(frozen=True)
class QueueBench:
    """Training episodes of a seed, and selection episodes of the next seed; test episodes have seed 0.

    Only the last weights are trained. The layers before keep their random weights: a dozen pairs give more
    information on 62 directions than on 270.
    """

    seed: int = 1
    pool: int = POOL
    judges: int = 48
    throughput: float = 1.0
    """Weight of one per cent of throughput, in per cent of completion time."""

    @property
    def described(self) -> Mapping[str, object]:
        """Return everything that defines the replays, as values that JSON can hold."""
        return {**SCHEMA, **asdict(self), "sizes": TRAINED_ON, "bench": described()}

    def initial(self) -> Floats:
        """Return the weights that training starts with."""
        return initial(self.seed)[OUT:]

    def agent(self, weights: Floats) -> SizeFree:
        """Return the agent with given weights."""
        return SizeFree(np.concatenate([initial(self.seed)[:OUT], weights]))

    def learned_from(self, numbers: Sequence[int]) -> Score:
        """Return the log ratio of the objective to the initial rule's, on the training episodes with these numbers."""
        return self._on([self._pool[number] for number in numbers])

    def chosen_by(self) -> Score:
        """Return the log ratio of the objective to the initial rule's, on the episodes for selection."""
        return self._on(_judged(self.seed + 1, self.judges))

    @cached_property
    def _pool(self) -> Judged:
        return _judged(self.seed, self.pool)

    def _on(self, judged: Judged) -> Score:
        def score(weights: Floats) -> float:
            agent = self.agent(weights)
            return float(np.mean([self._relative(outcome(episode, agent.replay(episode)), known)
                                  for episode, known in judged]))
        return score

    def _relative(self, ours: EpisodeResult, reference: EpisodeResult) -> float:
        return float(np.log(ours.jct_s / reference.jct_s)
                     - self.throughput * np.log(ours.throughput / reference.throughput))


def _judged(seed: int, count: int) -> Judged:
    first = SizeFree(initial(0))
    episodes = [made_up(seed, number, TRAINED_ON[number // len(MIXES) % len(TRAINED_ON)], MIXES[number % len(MIXES)])
                for number in range(count)]
    return [(episode, outcome(episode, first.replay(episode))) for episode in episodes]


def evolution_config(seed: int, rounds: int) -> EvolutionConfig:
    """Return the settings of the evolution strategies."""
    return EvolutionConfig(seed, rounds, pairs=16, at_once=10, chosen_every=20, noise=0.15, rate=0.06, pool=POOL,
                           random_streams=stream_of_each)

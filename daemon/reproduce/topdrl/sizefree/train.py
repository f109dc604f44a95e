"""What the size-free agent is evolved on: whole episodes of the bench.

What an episode is worth is relative to the rule that training sets out from, so that long ones count no more than short
ones: completion times, and throughput, which waiting for close GPUs is for.
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
"""GPUs, in turns; larger clusters are for the test."""

Judged = Sequence[tuple[ArenaEpisode, EpisodeResult]]
"""Episodes, each with what the first rule makes of it."""


@dataclass(frozen=True)
class QueueBench:
    """Episodes to learn from, and those of the next seed to choose by; those of tests have 0.

    Evolved are the last weights alone. The layers before stay as chance drew them: a dozen pairs tell more about 62
    directions than about 270.
    """

    seed: int = 1
    pool: int = POOL
    judges: int = 48
    throughput: float = 1.0
    """What a per cent of throughput is worth in per cents of completion time."""

    @property
    def described(self) -> Mapping[str, object]:
        """Return all that the replays are made of."""
        return {**SCHEMA, **asdict(self), "sizes": TRAINED_ON, "bench": described()}

    def initial(self) -> Floats:
        """Return the weights that training sets out from."""
        return initial(self.seed)[OUT:]

    def agent(self, weights: Floats) -> SizeFree:
        """Return the agent of some weights."""
        return SizeFree(np.concatenate([initial(self.seed)[:OUT], weights]))

    def learned_from(self, numbers: Sequence[int]) -> Score:
        """Return the logarithm of the objective, relative to the first rule's, on these episodes."""
        return self._on([self._pool[number] for number in numbers])

    def chosen_by(self) -> Score:
        """Return the same on episodes to choose by."""
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

    def _relative(self, ours: EpisodeResult, theirs: EpisodeResult) -> float:
        return float(np.log(ours.jct_s / theirs.jct_s) - self.throughput * np.log(ours.throughput / theirs.throughput))


def _judged(seed: int, count: int) -> Judged:
    first = SizeFree(initial(0))
    episodes = [made_up(seed, number, TRAINED_ON[number // len(MIXES) % len(TRAINED_ON)], MIXES[number % len(MIXES)])
                for number in range(count)]
    return [(episode, outcome(episode, first.replay(episode))) for episode in episodes]


def evolution_config(seed: int, rounds: int) -> EvolutionConfig:
    """Return how weights are evolved."""
    return EvolutionConfig(seed, rounds, pairs=16, at_once=10, chosen_every=20, noise=0.15, rate=0.06, pool=POOL,
                           random_streams=stream_of_each)

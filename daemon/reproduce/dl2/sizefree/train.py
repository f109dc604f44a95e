"""What the agent is evolved on: whole traces of DL2's generator, by their mean completion time.

DL2's actor-critic gives every task of a slot that slot's reward; with a hundred tasks to a slot it learns nothing that
chance does not know. Here the reward is what the operator is after: the mean completion time of a trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from ....replay.arrays import Floats
from ...evolution import EvolutionConfig, Score
from ..arena import ArenaTrace, mean_jct, traces
from ..kernel import ArenaCluster
from .agent import SCHEMA, SizeFree
from .network import initial

POOL = 300


@dataclass(frozen=True)
class ElasticBench:
    """Traces to learn from, and those of the next seed to choose by; never the paper's."""

    cluster: ArenaCluster
    seed: int = 1
    pool: int = POOL
    judges: int = 30

    @property
    def described(self) -> Mapping[str, object]:
        """Return all that the replays are made of."""
        speeds = hashlib.sha256(self.cluster.rates.tobytes()).hexdigest()
        return {**SCHEMA, "most": self.cluster.most, "judges": self.judges, "speeds": speeds}

    def initial(self) -> Floats:
        """Return the weights that training sets out from."""
        return initial(self.seed)

    @cached_property
    def _pool(self) -> Sequence[ArenaTrace]:
        return list(islice(traces(self.seed), self.pool))

    def learned_from(self, numbers: Sequence[int]) -> Score:
        """Return the mean completion time, in slots, on these traces."""
        return self._on([self._pool[number] for number in numbers])

    def chosen_by(self) -> Score:
        """Return the same on traces to choose by."""
        return self._on(list(islice(traces(self.seed + 1), self.judges)))

    def _on(self, tried_on: Sequence[ArenaTrace]) -> Score:
        return lambda weights: float(mean_jct(self.cluster, SizeFree(weights), tried_on).mean())


def course(seed: int, rounds: int) -> EvolutionConfig:
    """Return how weights are evolved."""
    return EvolutionConfig(seed, rounds, pairs=12, at_once=8, chosen_every=15, noise=0.2, rate=0.08, pool=POOL)

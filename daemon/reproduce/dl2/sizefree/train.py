"""How the agent learns: evolution strategies on whole replays, every candidate on the same traces.

DL2's actor-critic gives every task of a slot that slot's reward; with a hundred tasks to a slot it learns nothing that
chance does not know. Here the reward is what the operator is after: the mean completion time of a trace.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice

import numpy as np

from .....storage.records import ModelCard
from ....agents.adam import Adam
from ....replay.arrays import Floats
from ...evolution import rising
from ..arena import Trace, mean_jct, traces
from ..kernel import Cluster
from .agent import SizeFree
from .kernel import SIZE
from .network import initial


@dataclass(frozen=True)
class ElasticTrainingConfig:
    """Everything that a training is given; the same course gives the same agent."""

    cluster: Cluster
    seed: int = 1
    """Of the traces to learn from, and of the noise; those to choose by have the next one. Never the paper's."""
    rounds: int = 240
    pairs: int = 12
    at_once: int = 8
    """Traces that every candidate of a round is tried on: common random numbers."""
    pool: int = 300
    chosen_by: int = 30
    chosen_every: int = 15
    noise: float = 0.2
    rate: float = 0.08
    """Of learning, at first; it falls to 0."""


@dataclass(frozen=True)
class ElasticTrainingProgress:
    """How far a training has come."""

    round: int
    jct: float
    """Mean completion time, in slots, on the traces to choose by."""
    best: Floats
    """Weights of the best candidate so far."""


def train(course: ElasticTrainingConfig) -> Iterator[ElasticTrainingProgress]:
    """Train and yield now and then; whoever stops asking keeps the best so far."""
    draw = np.random.default_rng(course.seed)
    pool = list(islice(traces(course.seed), course.pool))
    judges = list(islice(traces(course.seed + 1), course.chosen_by))
    weights, adam = initial(course.seed), Adam.of(SIZE)
    best, best_jct = weights, float(mean_jct(course.cluster, SizeFree(weights), judges).mean())
    yield ElasticTrainingProgress(0, best_jct, best)
    for number in range(1, course.rounds + 1):
        rate = course.rate * (1 - (number - 1) / course.rounds)
        weights = weights - rate * adam.direction(_gradient(course, weights, pool, draw))
        if number % course.chosen_every == 0 or number == course.rounds:
            now = float(mean_jct(course.cluster, SizeFree(weights), judges).mean())
            if now < best_jct:
                best, best_jct = weights.copy(), now
            yield ElasticTrainingProgress(number, now, best)


def _gradient(course: ElasticTrainingConfig, weights: Floats, pool: Sequence[Trace],
              draw: np.random.Generator) -> Floats:
    """Return where completion times rise, from antithetic pairs on the same few traces."""
    tried_on = [pool[place] for place in draw.choice(len(pool), course.at_once, replace=False)]

    def jct(tried: Floats) -> float:
        return float(mean_jct(course.cluster, SizeFree(tried), tried_on).mean())
    return rising(jct, weights, course.noise, draw.standard_normal((course.pairs, SIZE)))


def card_of(course: ElasticTrainingConfig, steps: Sequence[ElasticTrainingProgress]) -> ModelCard:
    """Return what is known of an agent after its training."""
    curve = tuple((step.round / max(course.rounds, 1), step.jct) for step in steps)
    return ModelCard("dl2", "1", time.time(), course.seed, version("idlewatt"), "", "", kind="dl2", curve=curve,
                     metrics={"jct_slots": min(step.jct for step in steps)},
                     source=f"{course.pool} traces of DL2's generator, seed {course.seed}")

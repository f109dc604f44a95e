"""How the agent learns: evolution strategies on whole replays, every candidate on the same windows.

It sets out from what Synergy-tune does and from a rule of thumb (:func:`.network.initial`). Who goes first is learned
before the rest: it decides most, by few weights. A candidate is judged by completion time and makespan, relative to
Synergy-tune by shortest remaining service on the same window; the former counts thrice, for a few jobs make the latter.
Half of the windows are as submitted, half have all jobs at the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from ....storage.records import ModelCard
from ...replay.arrays import Floats
from ..evolution import rising
from ..failures import ZeroProgressError
from . import network
from .agent import Maifs
from .arena import Policy, ReplayResult, Trace, replay
from .kernel import Site

HOPELESS = 1.0
"""Log of the ratio that stands for a candidate under which some job never ends."""

WORTH = np.array([0.75, 0.25])
"""Of completion time and makespan."""

Task = tuple[Site, Trace]
"""A window, and the cluster that it is replayed on."""


@dataclass(frozen=True)
class MaifsTrainingConfig:
    """Everything that a training is given; the same course gives the same agent."""

    draw: Callable[[int], Task]
    """Returns the window number ``n`` to learn from; the same number gives the same one."""
    judges: Sequence[Task]
    """Windows that choose among candidates."""
    teacher: Policy
    """Whom results are relative to."""
    agent: Callable[[Floats], Policy] = Maifs
    """Makes a policy of weights; an ablation makes another one."""
    seed: int = 1
    rounds: int = 40
    order_rounds: float = 0.7
    """Share of the rounds, at first, in which only who goes first is learned."""
    pairs: int = 6
    at_once: int = 20
    """Windows that every candidate of a round is tried on: common random numbers."""
    chosen_every: int = 5
    rate: float = 1.0
    """Of learning, at first and relative to the noise; it falls to 0."""


@dataclass(frozen=True)
class MaifsTrainingProgress:
    """How far a training has come."""

    round: int
    score: float
    """Mean log of completion time and makespan (``WORTH``) over the teacher's, on the windows to choose by."""
    best: Floats
    """Weights of the best candidate so far."""


def noise() -> Floats:
    """Return how far each weight is moved: far where it acts by itself, less within the network."""
    own = {"direct": 0.15, "order_direct": 0.15, "taste": 0.15, "ally": 0.15}
    return np.concatenate([np.full(int(np.prod(shape)), own.get(name, 0.02))
                           for name, shape in network.ALL_SHAPES.items()])


def order_only() -> Floats:
    """Return 1 for the weights that say who goes first by themselves, 0 for the others."""
    return np.concatenate([np.full(int(np.prod(shape)), float(name == "order_direct"))
                           for name, shape in network.ALL_SHAPES.items()])


def figures(outcome: ReplayResult) -> Floats:
    """Return the logs of what is compared."""
    return np.asarray(np.log([outcome.jct.mean(), outcome.makespan]))


def score(policy: Policy, tasks: Sequence[Task], known: Sequence[Floats]) -> float:
    """Return the mean log ratio of a policy to what is known of the teacher, by ``WORTH``; below 0 is better."""
    found = []
    for (site, trace), theirs in zip(tasks, known, strict=True):
        try:
            found.append(float((figures(replay(site, trace, policy)) - theirs) @ WORTH))
        except ZeroProgressError:
            found.append(HOPELESS)
    return float(np.mean(found))


def train(course: MaifsTrainingConfig) -> Iterator[MaifsTrainingProgress]:
    """Train and yield now and then, each time going on from the best so far; whoever stops asking keeps that."""
    random = np.random.default_rng(course.seed)
    known = [figures(replay(*task, course.teacher)) for task in course.judges]
    weights = network.initial(course.seed)
    best, least = weights, score(course.agent(weights), course.judges, known)
    momentum = np.zeros_like(weights)
    yield MaifsTrainingProgress(0, least, best)
    for number in range(1, course.rounds + 1):
        spread = noise() * (order_only() if number <= course.order_rounds * course.rounds else 1.0)
        momentum = 0.8 * momentum + 0.2 * _gradient(course, weights, spread, random, number)
        weights = weights - course.rate * (1 - (number - 1) / course.rounds) * spread * momentum
        if number % course.chosen_every == 0 or number == course.rounds:
            now = score(course.agent(weights), course.judges, known)
            if now < least:
                best, least = weights, now
            else:
                weights, momentum = best, np.zeros_like(best)
            yield MaifsTrainingProgress(number, now, best)


def _gradient(course: MaifsTrainingConfig, weights: Floats, spread: Floats, random: np.random.Generator,
              number: int) -> Floats:
    """Return where candidates get worse, from antithetic pairs on the same few windows, in units of the noise."""
    tasks = [course.draw(number * course.at_once + place) for place in range(course.at_once)]
    known = [figures(replay(*task, course.teacher)) for task in tasks]
    return rising(lambda tried: score(course.agent(tried), tasks, known), weights, spread,
                  random.standard_normal((course.pairs, weights.size)))


def card_of(course: MaifsTrainingConfig, steps: Sequence[MaifsTrainingProgress], source: str) -> ModelCard:
    """Return what is known of an agent after its training."""
    curve = tuple((step.round / max(course.rounds, 1), step.score) for step in steps)
    return ModelCard("maifs", "1", time.time(), course.seed, version("idlewatt"), "", "", kind="maifs", curve=curve,
                     metrics={"log_ratio_to_tune": min(step.score for step in steps)}, source=source)

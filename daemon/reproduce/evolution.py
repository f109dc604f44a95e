"""Evolution strategies (Salimans et al., arXiv 1703.03864): training that uses only the scores of whole replays.

All papers use this one trainer. A :class:`Bench` defines the replays and scores weights on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import count, islice, repeat
from pathlib import Path
from typing import Protocol

import numpy as np
from rich.progress import Progress

from ...storage.records import ModelCard
from ..agents.adam import Adam
from ..agents.checkpoint import read_unfinished, schema_hash, write_unfinished
from ..replay.arrays import Floats

STATE = "training.safetensors"

Score = Callable[[Floats], float]
"""Returns the score of weights; lower is better."""


class Bench(Protocol):
    """The replays of a paper, by which weights are scored."""

    @property
    def described(self) -> Mapping[str, object]:
        """Return everything that defines the replays, as values that JSON can hold."""

    def initial(self) -> Floats:
        """Return the weights that training starts with."""

    def learned_from(self, numbers: Sequence[int]) -> Score:
        """Return the score on the training replays with these numbers; all candidates of a round share them."""

    def chosen_by(self) -> Score:
        """Return the score that selects weights, on replays that training does not use."""


class Momentum(Adam):
    """Plain momentum: an exponential mean of past gradients."""

    def direction(self, gradient: Floats) -> Floats:
        """Update the mean with a gradient; return the direction to step against."""
        self.steps += 1
        self.first = 0.8 * self.first + 0.2 * gradient
        return self.first


def one_stream(seed: int) -> Iterator[np.random.Generator]:
    """Yield the same random generator for every round; it continues its stream."""
    return repeat(np.random.default_rng(seed))


def stream_of_each(seed: int) -> Iterator[np.random.Generator]:
    """Yield a new random generator for every round, seeded with the seed and the round."""
    return (np.random.default_rng([seed, number]) for number in count())


@dataclass(frozen=True)
class EvolutionConfig:
    """Settings of a training by evolution strategies; the same seed gives the same weights."""

    seed: int
    rounds: int
    pairs: int
    at_once: int
    """Number of replays that score every candidate of a round (common random numbers)."""
    chosen_every: int
    """Number of rounds between two selections of weights."""
    noise: float | Floats
    """Standard deviation of the perturbation of weights."""
    rate: float | Floats
    """Learning rate of the first round; it falls linearly to 0."""
    pool: int | None = None
    """Number of replays to draw from; with None every round has new replays."""
    optimiser: type[Adam] = Adam
    random_streams: Callable[[int], Iterator[np.random.Generator]] = one_stream
    first: float | Floats = 1.0
    """1 for the weights that are trained in the first rounds, 0 for the others."""
    first_rounds: float = 0.0
    """Share of the rounds in which only the weights marked by ``first`` are trained."""
    goes_back: bool = False
    """Whether training returns to the best weights after each selection that finds no better ones."""

    @property
    def described(self) -> Mapping[str, object]:
        """Return the numeric settings that identify this training."""
        return {name: value for name, value in vars(self).items() if isinstance(value, (int, float))}


@dataclass(frozen=True)
class EvolutionProgress:
    """Progress of a training: its scores so far, the best weights and the first weights."""

    curve: Sequence[tuple[int, float]]
    """(round, score) of all selections so far."""
    best: Floats
    """Weights with the lowest score so far."""
    first: Floats
    """Weights that training started with."""

    @property
    def round(self) -> int:
        """Return the number of rounds so far."""
        return self.curve[-1][0]

    @property
    def score(self) -> float:
        """Return the score of the present weights (lower is better)."""
        return self.curve[-1][1]

    @property
    def least(self) -> float:
        """Return the lowest score so far."""
        return min(score for _, score in self.curve)


def rising(score: Score, weights: Floats, noise: float | Floats, steps: Floats) -> Floats:
    """Estimate the gradient of a score, in units of the noise, from antithetic pairs of perturbations.

    ``steps`` [pair, weight] are standard normal. The estimate is divided by the spread of the score differences. All
    pairs should be scored on the same traces (common random numbers).
    """
    more = np.array([score(weights + noise * step) - score(weights - noise * step) for step in steps])
    return np.asarray((more / (more.std() + 1e-9)) @ steps / len(steps))


@dataclass
class EvolutionTraining:
    """State of a training; a saved training continues exactly where it stopped."""

    config: EvolutionConfig
    first: Floats
    weights: Floats
    best: Floats
    optimiser: Adam
    round: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)

    @classmethod
    def of(cls, config: EvolutionConfig, bench: Bench, folder: Path | None) -> EvolutionTraining:
        """Return the training saved in a folder, or a new one; ``CheckpointError`` if its settings differ."""
        weights = bench.initial()
        training = cls(config, weights, weights, weights, config.optimiser.of(weights.size))
        if folder is None or not (folder / STATE).exists():
            return training
        state, arrays = read_unfinished(folder / STATE, _plan(config, bench), "other settings")
        return replace(training, weights=arrays["weights"], best=arrays["best"], round=state["round"],
                       optimiser=config.optimiser(arrays["first"], arrays["second"], state["steps"]),
                       curve=[(int(number), float(score)) for number, score in state["curve"]])

    def save(self, folder: Path, plan: str) -> None:
        """Write everything that the training needs to continue."""
        write_unfinished(folder / STATE, {
            "plan": plan, "round": self.round, "steps": self.optimiser.steps, "curve": self.curve}, {
            "weights": self.weights, "best": self.best, "first": self.optimiser.first,
            "second": self.optimiser.second})

    def look(self, chosen_by: Score) -> EvolutionProgress:
        """Score the present weights; keep them if no earlier weights were as good."""
        score = chosen_by(self.weights)
        if all(score < known for _, known in self.curve):
            self.best = self.weights
        elif self.config.goes_back:
            self.weights, self.optimiser = self.best, self.config.optimiser.of(self.best.size)
        self.curve.append((self.round, score))
        return self.latest()

    def latest(self) -> EvolutionProgress:
        """Return the progress of this training."""
        return EvolutionProgress(tuple(self.curve), self.best, self.first)

    def step(self, score: Score, steps: Floats) -> None:
        """Update the weights by one step of evolution strategies; ``steps`` [pair, weight] are standard normal."""
        config, left = self.config, 1.0 - self.round / self.config.rounds
        self.round += 1
        learned = config.first if self.round <= config.first_rounds * config.rounds else 1.0
        worse = rising(score, self.weights, config.noise * learned, steps)
        self.weights = self.weights - config.rate * left * learned * self.optimiser.direction(worse)


def train(config: EvolutionConfig, bench: Bench, folder: Path | None = None) -> Iterator[EvolutionProgress]:
    """Train and yield the progress at each selection; resume from ``folder`` and save there."""
    training, plan = EvolutionTraining.of(config, bench, folder), _plan(config, bench)
    if training.curve:
        yield training.latest()
        if training.round >= config.rounds:
            return
    chosen_by = bench.chosen_by()
    if not training.curve:
        yield training.look(chosen_by)
    for numbers, steps in islice(_draws(config, training.weights.size), training.round, config.rounds):
        training.step(bench.learned_from(numbers), steps)
        if training.round % config.chosen_every == 0 or training.round == config.rounds:
            step = training.look(chosen_by)
            if folder is not None:
                training.save(folder, plan)
            yield step


def followed(name: str, config: EvolutionConfig, bench: Bench, folder: Path, bar: Progress) -> EvolutionProgress:
    """Train to the end with a progress bar; return the final progress."""
    task = bar.add_task(name, total=max(config.rounds, 1))
    for step in train(config, bench, folder):
        bar.update(task, completed=step.round, description=f"{name}: {step.score:+.4f}")
    return step


def _draws(config: EvolutionConfig, size: int) -> Iterator[tuple[Sequence[int], Floats]]:
    """Yield for every round the numbers of its replays and the perturbations, [pair, weight]."""
    for number, random in enumerate(config.random_streams(config.seed), start=1):
        numbers: Sequence[int] = range(number * config.at_once, (number + 1) * config.at_once)
        if config.pool is not None:
            numbers = random.choice(config.pool, config.at_once, replace=False).tolist()
        yield numbers, random.standard_normal((config.pairs, size))


def _plan(config: EvolutionConfig, bench: Bench) -> str:
    """Return the digest of all settings that identify this training."""
    return schema_hash({**bench.described, "evolution": config.described})


def card_of(kind: str, config: EvolutionConfig, step: EvolutionProgress, metric: str, source: str) -> ModelCard:
    """Return the model card of a trained agent; ``metric`` names the score."""
    curve = tuple((number / max(config.rounds, 1), score) for number, score in step.curve)
    return ModelCard(kind, "1", time.time(), config.seed, version("idlewatt"), "", "", kind=kind, curve=curve,
                     metrics={metric: step.least}, source=source)

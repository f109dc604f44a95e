"""How the size-free agent learns: evolution strategies on whole episodes, every candidate on the same ones.

What an episode is worth is relative to the rule that training sets out from, so that long ones count no more than short
ones: completion times, and throughput, which waiting for close GPUs is for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .....storage.records import ModelCard
from ....agents.adam import Adam
from ....agents.checkpoint import CheckpointError, read_unfinished, schema_hash, write_unfinished
from ....replay.arrays import Floats
from ...evolution import rising
from ..arena import MIXES, EpisodeResult, described, made_up, outcome
from .agent import SCHEMA, SizeFree
from .kernel import OUT, SIZE
from .network import initial

STATE = "training.safetensors"
EVOLVED = SIZE - OUT
"""Weights that evolution changes, the last ones. The layers before stay as chance drew them: a dozen pairs tell more
about 62 directions than about 270."""
TRAINED_ON = (64, 64, 64, 128)
"""GPUs, in turns; larger clusters are for the test."""


@dataclass(frozen=True)
class QueueTrainingConfig:
    """Everything that a training is given; the same course gives the same agent."""

    seed: int = 1
    """Of the noise and of the episodes to learn from; those to choose by have the next one, those of tests 0."""
    rounds: int = 160
    pairs: int = 16
    at_once: int = 10
    """Episodes that every candidate of a round is tried on: common random numbers."""
    pool: int = 320
    chosen_by: int = 48
    chosen_every: int = 20
    noise: float = 0.15
    rate: float = 0.06
    """Of learning, at first; it falls to 0."""
    throughput: float = 1.0
    """What a per cent of throughput is worth in per cents of completion time."""


@dataclass(frozen=True)
class QueueTrainingProgress:
    """How far a training has come."""

    round: int
    worth: float
    """Logarithm of the objective on the episodes to choose by, relative to the first rule's: below 0 is better."""
    best: Floats
    """Weights of the best candidate so far."""
    curve: Sequence[tuple[int, float]]
    """(round, worth) of all looks so far."""


class JudgedEpisodes:
    """Episodes, each with what the first rule makes of it."""

    def __init__(self, course: QueueTrainingConfig, seed: int, count: int) -> None:
        self._course = course
        self.episodes = [made_up(seed, number, TRAINED_ON[number // len(MIXES) % len(TRAINED_ON)],
                                 MIXES[number % len(MIXES)]) for number in range(count)]
        first = SizeFree(initial(0))
        self.known = [outcome(episode, first.replay(episode)) for episode in self.episodes]

    def worth(self, weights: Floats, numbers: Sequence[int] | None = None) -> float:
        """Return the mean logarithm of the objective, relative to the first rule's."""
        agent, chosen = SizeFree(weights), range(len(self.episodes)) if numbers is None else numbers
        return float(np.mean([self._relative(outcome(self.episodes[number], agent.replay(self.episodes[number])),
                                             self.known[number]) for number in chosen]))

    def _relative(self, ours: EpisodeResult, theirs: EpisodeResult) -> float:
        return float(np.log(ours.jct_s / theirs.jct_s)
                     - self._course.throughput * np.log(ours.throughput / theirs.throughput))


@dataclass
class Training:
    """Where a training stands; goes on exactly where a saved one was left."""

    course: QueueTrainingConfig
    weights: Floats
    best: Floats
    curve: list[tuple[int, float]] = field(default_factory=list)
    """(round, worth) at each look."""
    adam: Adam = field(default_factory=lambda: Adam.of(EVOLVED))

    @classmethod
    def of(cls, course: QueueTrainingConfig, folder: Path | None) -> Training:
        """Return the training that a folder holds, else a new one; ``CheckpointError`` when it is another's."""
        training = cls(course, initial(course.seed), initial(course.seed))
        if folder is None or not (folder / STATE).exists():
            return training
        told, arrays = read_unfinished(folder / STATE)
        if told.get("plan") != training.plan:
            raise CheckpointError(f"{folder / STATE}: of a training with other settings; move it away to start anew")
        adam = Adam(arrays["first"], arrays["second"], told["steps"])
        curve = [(int(number), float(worth)) for number, worth in told["curve"]]
        return replace(training, weights=arrays["weights"], best=arrays["best"], curve=curve, adam=adam)

    @property
    def plan(self) -> str:
        """Return the digest of what makes it this training and no other."""
        return schema_hash({**SCHEMA, **asdict(self.course), "sizes": TRAINED_ON, "bench": described()})

    def save(self, folder: Path | None) -> None:
        """Keep all that it needs to go on."""
        if folder is not None:
            arrays = {"weights": self.weights, "best": self.best, "first": self.adam.first, "second": self.adam.second}
            write_unfinished(folder / STATE, {"plan": self.plan, "steps": self.adam.steps, "curve": self.curve}, arrays)

    def look(self, judges: JudgedEpisodes) -> QueueTrainingProgress:
        """Judge the present weights and keep them if none were better."""
        worth = judges.worth(self.weights)
        if worth <= min((known for _, known in self.curve), default=worth):
            self.best = self.weights.copy()
        self.curve.append((self.adam.steps, worth))
        return self.latest()

    def latest(self) -> QueueTrainingProgress:
        """Return how far it has come."""
        return QueueTrainingProgress(*self.curve[-1], self.best, tuple(self.curve))

    def go_on(self, ground: JudgedEpisodes) -> None:
        """Take one step of evolution strategies."""
        course, number = self.course, self.adam.steps
        draw = np.random.default_rng([course.seed, number])
        tried_on = draw.choice(course.pool, course.at_once, replace=False).tolist()
        drawn, evolved = self.weights[:OUT], self.weights[OUT:]
        worse = rising(lambda tried: ground.worth(np.concatenate([drawn, tried]), tried_on), evolved, course.noise,
                       draw.standard_normal((course.pairs, EVOLVED)))
        step = course.rate * (1 - number / course.rounds) * self.adam.direction(worse)
        self.weights = np.concatenate([drawn, evolved - step])


def train(course: QueueTrainingConfig, folder: Path | None = None) -> Iterator[QueueTrainingProgress]:
    """Train and yield now and then; goes on with what ``folder`` holds, and keeps itself there."""
    training = Training.of(course, folder)
    if training.curve:
        yield training.latest()
        if training.adam.steps >= course.rounds:
            return
    judges = JudgedEpisodes(course, course.seed + 1, course.chosen_by)
    if not training.curve:
        yield training.look(judges)
    ground = JudgedEpisodes(course, course.seed, course.pool if course.rounds else 0)
    while training.adam.steps < course.rounds:
        training.go_on(ground)
        if training.adam.steps % course.chosen_every == 0 or training.adam.steps == course.rounds:
            step = training.look(judges)
            training.save(folder)
            yield step


def card_of(course: QueueTrainingConfig, step: QueueTrainingProgress) -> ModelCard:
    """Return what is known of an agent after its training."""
    curve = tuple((number / max(course.rounds, 1), worth) for number, worth in step.curve)
    return ModelCard("topdrl", "1", time.time(), course.seed, version("idlewatt"), "", "", kind="topdrl", curve=curve,
                     metrics={"worth_log": min(worth for _, worth in step.curve)},
                     source=f"{course.pool} episodes of TopDRL's bench, seed {course.seed}")

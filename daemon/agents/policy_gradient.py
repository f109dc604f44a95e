"""Training of agents that choose among candidates: imitation of the best known rule, then policy gradient.

All rules are tried on episodes, and the best one is imitated (cross-entropy). Then each step replays some episodes
several times with sampled choices, and raises the odds of choices that went better than in the other replays of the
same episode. Validation on later history keeps the best weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ...storage.records import ModelCard
from ..replay.arrays import Floats
from ..replay.engine import Run
from .adam import Adam
from .choice import Choices, Net, agreement, imitate, loss
from .episodes import Episode
from .kinds import Progress, TraceWindow, TrainedPolicy, TrainingConfig, TrainingError
from .training_loop import LearnerSpec, LearningMethod, Training, TrainingEnvironment, bounds
from .training_loop import train as learn

Choose = Callable[[float, Floats], int]

RULE_EPISODES, IMITATED_CHOICES = 4, 4000
"""Episodes on which rules are tried, and the most choices that are imitated."""
TOGETHER, REPLAYS = 2, 4
"""Episodes in a step, and replays of each with sampled choices."""
STEP, ENTROPY = (0.01, 0.002), 0.003
"""Step size, first and last; weight of the entropy in nats."""
EPOCHS, CLIP = 4, 0.2
"""Gradients from the replays of one step, and the bound on the change of a choice's odds (PPO, Schulman et al. 2017): a
replay takes a hundred times as long as a gradient."""


@dataclass(frozen=True)
class PolicyGradientSpec:
    """The parts of a kind of agent that training by policy gradient needs."""

    kind: str
    net: Net
    schema: Mapping[str, object]
    candidate_inputs: tuple[str, ...]
    """A candidate's inputs; like ``save`` and ``refuse``, this is a field of :class:`.training_loop.LearnerSpec`."""
    rules: Mapping[str, Callable[[Floats], int]]
    """Known rules by name; each chooses among rows of inputs."""
    policy: Callable[[Floats, ModelCard, float, Choose | None], TrainedPolicy]
    """Returns the agent with weights, a card, the longest wait, and a chooser in place of the network."""
    save: Callable[[Path, Floats, ModelCard, float], ModelCard]
    refuse: Callable[[TraceWindow], str | None]

    @property
    def learner(self) -> LearnerSpec:
        """Return the part that every learning method needs."""
        def served(weights: Floats, card: ModelCard, longest_wait_s: float) -> TrainedPolicy:
            return self.policy(weights, card, longest_wait_s, None)

        return LearnerSpec(self.kind, self.schema, self.candidate_inputs, served, self.save, self.refuse)


class Recorder:
    """Chooses in place of an agent's network, and records the candidates and the times."""

    def __init__(self, rule: Callable[[Floats], int], most: float = math.inf) -> None:
        self._rule, self._most = rule, most
        self.times: list[float] = []
        self.made: list[tuple[Floats, int]] = []

    def __call__(self, now: float, rows: Floats) -> int:
        """Choose."""
        index = self._rule(rows)
        if len(rows) > 1 and len(self.made) < self._most:
            self.times.append(now)
            self.made.append((rows, index))
        return index


class SampledChoice:
    """Samples choices by the network's probabilities."""

    def __init__(self, net: Net, weights: Floats, random: np.random.Generator) -> None:
        self._net, self._weights, self._random = net, weights, random

    def __call__(self, rows: Floats) -> int:
        """Choose."""
        scores = self._net.scores(self._weights, rows)
        odds = np.exp(scores - scores.max()).cumsum()
        return int(np.searchsorted(odds, self._random.random() * odds[-1]))


@dataclass(frozen=True)
class EpisodeReplay:
    """A replay of an episode."""

    episode: Episode
    recorder: Recorder
    done: Run

    @property
    def cost(self) -> float:
        """Return the replay's cost, relative to the incumbent's."""
        return self.episode.cost(self.done)

    def later(self, times: Floats) -> Floats:
        """Return the replay's cost after these times."""
        return self.episode.later(self.done, times)


def recorded(spec: PolicyGradientSpec, environment: TrainingEnvironment, episode: Episode,
             rule: Callable[[Floats], int], most: float = math.inf) -> EpisodeReplay:
    """Replay an episode by a rule, and record at most so many choices."""
    recorder = Recorder(rule, most)
    agent = spec.policy(np.zeros(spec.net.size), environment.card, environment.config.objective.longest_wait_s,
                        recorder)
    return EpisodeReplay(episode, recorder, episode.window.replayed(agent))


def train(spec: PolicyGradientSpec, config: TrainingConfig, start: Floats | None = None) -> Iterator[Progress]:
    """Train within the budget and yield progress; ``start`` are the weights of a model to continue from."""
    return learn(spec.learner, config, LearningMethod(partial(_initialise, spec, start), partial(_step, spec)))


def _initialise(spec: PolicyGradientSpec, start: Floats | None, training: Training,
                environment: TrainingEnvironment) -> None:
    """Begin with weights that imitate the best rule, or with those of a model that does better."""
    config = training.config
    episodes = [environment.episode(number) for number in range(RULE_EPISODES)]
    most = IMITATED_CHOICES // RULE_EPISODES
    tried = {name: [recorded(spec, environment, episode, rule, most) for episode in episodes]
             for name, rule in spec.rules.items()}
    training.rule = min(tried, key=lambda name: (sum(trial.cost for trial in tried[name]), name))
    made = [choice for trial in tried[training.rule] for choice in trial.recorder.made]
    if not made:
        raise TrainingError("there is never a choice between two jobs; a heuristic serves as well")
    fresh, choices = spec.net.initial(np.random.default_rng(config.seed)), Choices.of(made)
    learned = imitate(spec.net, fresh, choices)
    training.agreement = agreement(spec.net, learned, choices)
    training.bounds = bounds(choices.rows[:, :len(spec.candidate_inputs)])
    training.weights = learned
    if start is not None and environment.worth(start) < environment.worth(learned):
        training.weights = start.copy()
    training.adam = Adam.of(spec.net.size)


def _step(spec: PolicyGradientSpec, training: Training, environment: TrainingEnvironment) -> None:
    """Take one step of policy gradient; it counts even where there was no choice to make."""
    net, number = spec.net, training.steps
    made: list[tuple[Floats, int]] = []
    worth: list[Floats] = [np.zeros(0)]
    for slot in range(TOGETHER):
        episode = environment.episode(TOGETHER * number + slot)
        trials = [recorded(spec, environment, episode, SampledChoice(net, training.weights, np.random.default_rng(
            [training.config.seed, number, slot, replay]))) for replay in range(REPLAYS)]
        for index, trial in enumerate(trials):
            times = np.array(trial.recorder.times)
            others = [other.later(times) for other in trials[:index] + trials[index + 1:]]
            made += trial.recorder.made
            worth.append(np.mean(others, axis=0) - trial.later(times))
    training.steps += 1
    gained = np.concatenate(worth)
    if made:
        training.weights = _improved(net, training, Choices.of(made), gained / max(1e-12, float(gained.std())))


def _improved(net: Net, training: Training, choices: Choices, worth: Floats) -> Floats:
    """Return weights that raise the odds of better choices, within bounds."""
    weights, size = training.weights, STEP[0] + (STEP[1] - STEP[0]) * training.done
    before = choices.log_odds(net.scores(weights, choices.rows))[choices.chosen]
    for _ in range(EPOCHS):
        ratio = np.exp(choices.log_odds(net.scores(weights, choices.rows))[choices.chosen] - before)
        bound = np.where(worth > 0, ratio > 1 + CLIP, ratio < 1 - CLIP)
        value, gradient = loss(net, weights, choices, np.where(bound, 0.0, worth * ratio), ENTROPY)
        if not math.isfinite(value) or not np.isfinite(gradient).all():
            raise TrainingError(f"the objective is no number after {training.steps} steps; what was kept before stays")
        weights = weights - size * training.adam.direction(gradient)
    return weights

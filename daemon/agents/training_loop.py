"""The common loop of trainings on episodes: state, validation, and resuming after an interruption.

Each kind brings its own initialisation and its own learning step (:class:`LearningMethod`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ...storage.records import ModelCard
from ..policies import named
from ..replay.arrays import Floats
from ..replay.engine import Policy
from .adam import Adam
from .checkpoint import read_unfinished, schema_hash, write_unfinished
from .doubts import sizes_seen
from .episodes import Episode, episode_of
from .kinds import Figures, Progress, TraceWindow, TrainedPolicy, TrainingConfig, TrainingError, figures

POOL = 64
"""Number of different training episodes, which are replayed repeatedly."""
EVERY, STEPS = 5, 400
"""Steps between validations on later history; the most steps, unless the budget ends earlier."""
FEWEST_JOBS = 20
STATE = "training.safetensors"
EXTRA, WAY = "more.", "objective_by_"
"""Prefixes of the names of a learning method's own arrays in the state file, and of its metrics on the card."""


@dataclass(frozen=True)
class LearnerSpec:
    """The parts of a kind of agent that training on episodes needs."""

    kind: str
    schema: Mapping[str, object]
    candidate_inputs: tuple[str, ...]
    """Names of the first inputs, those of a candidate: the card stores their ranges in training."""
    policy: Callable[[Floats, ModelCard, float], TrainedPolicy]
    """Returns the agent with weights, a card and the longest wait."""
    save: Callable[[Path, Floats, ModelCard, float], ModelCard]
    refuse: Callable[[TraceWindow], str | None]
    """Returns why nothing can be learned from a trace window; None when something can."""


@dataclass
class TrainingEnvironment:
    """The windows of a config, and the results of agents on them."""

    learner: LearnerSpec
    config: TrainingConfig
    episodes: dict[int, Episode] = field(default_factory=dict)

    def episode(self, number: int) -> Episode:
        """Return the episode of this number; numbers repeat after ``POOL``."""
        number %= POOL
        if number not in self.episodes:
            random = np.random.default_rng([self.config.seed, number, 1])
            self.episodes[number] = episode_of(self.config.fit(number), self.config.incumbent, self.config.objective,
                                           random)
        return self.episodes[number]

    @cached_property
    def incumbent_figures(self) -> tuple[Figures, ...]:
        """Return the incumbent's figures on each window of later history."""
        return tuple(self._figures(window, named(self.config.incumbent)) for window in self.config.select)

    def worth(self, weights: Floats) -> float:
        """Return the objective on later history, relative to the incumbent's."""
        policy = self.policy(weights)
        logs = [math.log(self._figures(window, policy).relative(incumbent, self.config.objective))
                for window, incumbent in zip(self.config.select, self.incumbent_figures, strict=True)]
        if not np.isfinite(logs).all():
            raise TrainingError("the objective is no number; what was kept before stays")
        return math.exp(float(np.mean(logs)))

    def policy(self, weights: Floats) -> TrainedPolicy:
        """Return the agent with these weights."""
        return self.learner.policy(weights, self.card, self.config.objective.longest_wait_s)

    @property
    def card(self) -> ModelCard:
        """Return a provisional card for an agent in training."""
        return ModelCard(self.learner.kind, "0", 0.0, self.config.seed, "", "", "", kind=self.learner.kind)

    def _figures(self, window: TraceWindow, policy: Policy) -> Figures:
        done = window.replayed(policy)
        return figures(done, window.since_s, watts=self.config.objective.watts(window))


@dataclass
class Training:
    """The state of a training, which resumes exactly where a saved one stopped."""

    learner: LearnerSpec
    config: TrainingConfig
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    best: Floats = field(default_factory=lambda: np.zeros(0))
    worth: float = math.nan
    """Objective of the best weights on later history."""
    rule: str = ""
    """The imitated rule."""
    agreement: float = math.nan
    bounds: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    adam: Adam = field(default_factory=lambda: Adam.of(0))
    steps: int = 0
    """Taken so far; each has several gradients."""
    spent_s: float = 0.0
    curve: list[tuple[float, float]] = field(default_factory=list)
    extra: dict[str, Floats] = field(default_factory=dict)
    """A learning method's own arrays, which are saved and resumed with the rest."""
    scores: dict[str, float] = field(default_factory=dict)
    """Best objective so far by candidate, where a learning method has several candidates."""

    @property
    def done(self) -> float:
        """Return the share of the budget that is used up, 0..1."""
        if self.config.steps is not None:
            return min(1.0, self.steps / self.config.steps) if self.config.steps else 1.0
        return min(1.0, max(self.spent_s / max(1e-9, self.config.budget_s), self.steps / STEPS))

    @property
    def plan(self) -> str:
        """Return the digest of the settings that identify this training."""
        return schema_hash({**self.learner.schema, "seed": self.config.seed, "incumbent": self.config.incumbent,
                            "objective": asdict(self.config.objective),
                            "speeds": [window.speeds.identity for window in self.config.select]})

    def save(self) -> None:
        """Save the state for a later :meth:`resume`, in one file."""
        state = {"plan": self.plan, "worth": self.worth, "rule": self.rule, "agreement": self.agreement,
                 "steps": self.steps, "gradients": self.adam.steps, "spent_s": self.spent_s, "curve": self.curve,
                 "scores": self.scores}
        write_unfinished(self.config.folder / STATE, state, {
            "weights": self.weights, "best": self.best, "bounds": self.bounds, "first": self.adam.first,
            "second": self.adam.second, **{EXTRA + name: array for name, array in self.extra.items()}})

    def resume(self) -> None:
        """Resume a saved state, if there is one; ``CheckpointError`` for another or a damaged training."""
        path = self.config.folder / STATE
        if not path.exists():
            return
        state, arrays = read_unfinished(path, self.plan, "another seed, incumbent, objective or speeds")
        self.weights, self.best, self.bounds = arrays["weights"], arrays["best"], arrays["bounds"]
        self.adam, self.steps = Adam(arrays["first"], arrays["second"], state["gradients"]), state["steps"]
        self.worth, self.rule, self.agreement = state["worth"], state["rule"], state["agreement"]
        self.spent_s, self.curve = state["spent_s"], [(share, worth) for share, worth in state["curve"]]
        self.extra = {name.removeprefix(EXTRA): array for name, array in arrays.items() if name.startswith(EXTRA)}
        self.scores = dict(state["scores"])


def only_candidate(training: Training) -> Mapping[str, Floats]:
    """Return the current weights as the only candidate."""
    return {"": training.weights}


@dataclass(frozen=True)
class LearningMethod:
    """A learning method."""

    initialise: Callable[[Training, TrainingEnvironment], None]
    """Sets the first weights, their optimiser and the ranges of inputs."""
    step: Callable[[Training, TrainingEnvironment], None]
    """Takes and counts one step."""
    candidates: Callable[[Training], Mapping[str, Floats]] = only_candidate
    """Returns the weights to validate on later history, by name."""


def train(learner: LearnerSpec, config: TrainingConfig, method: LearningMethod) -> Iterator[Progress]:
    """Train within the budget and yield progress."""
    training, environment = Training(learner, config), TrainingEnvironment(learner, config)
    training.resume()
    _check(environment)
    while not training.best.size or training.done < 1.0:
        began = time.monotonic()
        if not training.best.size:
            method.initialise(training, environment)
        else:
            for _ in range(EVERY if config.steps is None else min(EVERY, config.steps - training.steps)):
                method.step(training, environment)
        saved = _evaluate(training, environment, method.candidates(training))
        training.spent_s += time.monotonic() - began
        training.curve.append((training.done, training.worth))
        if saved:
            _save_best(training, environment)
        training.save()
        yield Progress(training.done, training.worth, saved)


def _check(environment: TrainingEnvironment) -> None:
    """Raise ``TrainingError`` for history that nothing can be learned from."""
    if not environment.config.select:
        raise TrainingError("no later history to choose by; give a longer one")
    first, windows = environment.config.fit(0), environment.config.select
    why = environment.learner.refuse(first)
    if why is not None:
        raise TrainingError(why)
    for name, window in (("history", first), ("later history, which chooses,", windows[0])):
        count = int((window.workload.submit >= window.since_s).sum())
        if count < FEWEST_JOBS:
            raise TrainingError(f"the {name} has {count} jobs that count; {FEWEST_JOBS} are needed")
    if not any(figures.wait_mean_s > 1.0 for figures in environment.incumbent_figures):
        raise TrainingError(f"nobody waits under {environment.config.incumbent}: there is nothing to gain; a heuristic "
                            "serves as well")


def bounds(rows: Floats) -> Floats:
    """Return [input, 2] the range of nearly all rows, with a margin."""
    low, high = np.quantile(rows, [0.005, 0.995], axis=0)
    margin = 0.1 * (high - low) + 0.05
    return np.stack([low - margin, high + margin], axis=1)


def _evaluate(training: Training, environment: TrainingEnvironment, candidates: Mapping[str, Floats]) -> bool:
    """Validate the present candidates on later history; keep the best if it improves on all former ones."""
    better = False
    for name, weights in candidates.items():
        objective = environment.worth(weights)
        if name:
            training.scores[name] = min(objective, training.scores.get(name, math.inf))
        if not training.best.size or objective < training.worth:
            training.best, training.worth, better = weights.copy(), objective, True
    return better


def _save_best(training: Training, environment: TrainingEnvironment) -> None:
    """Write the best weights as a model that can serve."""
    config, learner = training.config, training.learner
    windows = [*(episode.window for episode in environment.episodes.values()), *config.select]
    ranges = {name: (float(low), float(high))
              for name, (low, high) in zip(learner.candidate_inputs, training.bounds, strict=True)}
    metrics = {"objective_select": training.worth, "imitation_top1": training.agreement, "wall_s": training.spent_s,
               **{WAY + name: worth for name, worth in training.scores.items()}}
    card = ModelCard(learner.kind, "1", time.time(), config.seed, version("idlewatt"), "", "", kind=learner.kind,
                     metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
                     seen={**ranges, **sizes_seen(window.cluster for window in windows)}, curve=tuple(training.curve))
    learner.save(config.folder / "best", training.best, card, config.objective.longest_wait_s)

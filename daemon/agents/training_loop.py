"""What trainings on episodes share: where one stands, how it is judged, how it goes on after an interruption.

How an agent sets out and what a step of its learning is, each kind brings along (:class:`LearningMethod`).
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
"""Episodes that are learned from, again and again."""
EVERY, STEPS = 5, 400
"""Steps between looks at later history; at most, unless the budget ends before."""
FEWEST_JOBS = 20
STATE = "training.safetensors"
MORE, WAY = "more.", "objective_by_"
"""What names of arrays and of metrics begin with, that a way of learning keeps of its own."""


@dataclass(frozen=True)
class LearnerSpec:
    """What a kind of agent brings along to be trained on episodes."""

    kind: str
    schema: Mapping[str, object]
    told: tuple[str, ...]
    """Names of the first inputs, those that belong to a candidate: their range is kept on the card."""
    policy: Callable[[Floats, ModelCard, float], TrainedPolicy]
    """Returns the agent with weights, a card and the longest wait."""
    save: Callable[[Path, Floats, ModelCard, float], ModelCard]
    refuse: Callable[[TraceWindow], str | None]
    """Returns why nothing can be learned from a trace window."""


@dataclass
class TrainingEnvironment:
    """The windows of a config, and how an agent does on them."""

    learner: LearnerSpec
    config: TrainingConfig
    episodes: dict[int, Episode] = field(default_factory=dict)

    def episode(self, number: int) -> Episode:
        """Return the episode of this number, the same one again after some."""
        number %= POOL
        if number not in self.episodes:
            random = np.random.default_rng([self.config.seed, number, 1])
            self.episodes[number] = episode_of(self.config.fit(number), self.config.incumbent, self.config.objective,
                                           random)
        return self.episodes[number]

    @cached_property
    def known(self) -> tuple[Figures, ...]:
        """Return what the incumbent makes of each window of later history."""
        return tuple(self._figures(window, named(self.config.incumbent)) for window in self.config.select)

    def worth(self, weights: Floats) -> float:
        """Return the objective on later history, relative to the incumbent's."""
        policy = self.policy(weights)
        logs = [math.log(self._figures(window, policy).relative(theirs, self.config.objective))
                for window, theirs in zip(self.config.select, self.known, strict=True)]
        if not np.isfinite(logs).all():
            raise TrainingError("the objective is no number; what was kept before stays")
        return math.exp(float(np.mean(logs)))

    def policy(self, weights: Floats) -> TrainedPolicy:
        """Return the agent with these weights."""
        return self.learner.policy(weights, self.card, self.config.objective.longest_wait_s)

    @property
    def card(self) -> ModelCard:
        """Return a card for one that is not done yet."""
        return ModelCard(self.learner.kind, "0", 0.0, self.config.seed, "", "", "", kind=self.learner.kind)

    def _figures(self, window: TraceWindow, policy: Policy) -> Figures:
        done = window.replayed(policy)
        return figures(done, window.since_s, watts=self.config.objective.watts(window))


@dataclass
class Training:
    """Where a training stands; goes on exactly where a saved one was left."""

    learner: LearnerSpec
    config: TrainingConfig
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    best: Floats = field(default_factory=lambda: np.zeros(0))
    worth: float = math.nan
    """Objective of the best on later history."""
    rule: str = ""
    """What was imitated."""
    agreement: float = math.nan
    bounds: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    adam: Adam = field(default_factory=lambda: Adam.of(0))
    steps: int = 0
    """Taken so far; each has several gradients."""
    spent_s: float = 0.0
    curve: list[tuple[float, float]] = field(default_factory=list)
    more: dict[str, Floats] = field(default_factory=dict)
    """What else a way of learning goes by: what it keeps here it finds again."""
    scores: dict[str, float] = field(default_factory=dict)
    """Objective of the best so far, by name of the candidate, where a way of learning has several."""

    @property
    def done(self) -> float:
        """Return the share of the budget that is used up, 0..1."""
        if self.config.steps is not None:
            return min(1.0, self.steps / self.config.steps) if self.config.steps else 1.0
        return min(1.0, max(self.spent_s / max(1e-9, self.config.budget_s), self.steps / STEPS))

    @property
    def plan(self) -> str:
        """Return the digest of what makes it this training and no other."""
        return schema_hash({**self.learner.schema, "seed": self.config.seed, "incumbent": self.config.incumbent,
                            "objective": asdict(self.config.objective),
                            "speeds": [window.speeds.identity for window in self.config.select]})

    def save(self) -> None:
        """Keep all that it needs to go on, in one file."""
        told = {"plan": self.plan, "worth": self.worth, "rule": self.rule, "agreement": self.agreement,
                "steps": self.steps, "gradients": self.adam.steps, "spent_s": self.spent_s, "curve": self.curve,
                "scores": self.scores}
        write_unfinished(self.config.folder / STATE, told, {
            "weights": self.weights, "best": self.best, "bounds": self.bounds, "first": self.adam.first,
            "second": self.adam.second, **{MORE + name: array for name, array in self.more.items()}})

    def resume(self) -> None:
        """Go on where :meth:`save` was called, if it was; ``CheckpointError`` for another or a damaged training."""
        path = self.config.folder / STATE
        if not path.exists():
            return
        told, arrays = read_unfinished(path, self.plan, "another seed, incumbent, objective or speeds")
        self.weights, self.best, self.bounds = arrays["weights"], arrays["best"], arrays["bounds"]
        self.adam, self.steps = Adam(arrays["first"], arrays["second"], told["gradients"]), told["steps"]
        self.worth, self.rule, self.agreement = told["worth"], told["rule"], told["agreement"]
        self.spent_s, self.curve = told["spent_s"], [(share, worth) for share, worth in told["curve"]]
        self.more = {name.removeprefix(MORE): array for name, array in arrays.items() if name.startswith(MORE)}
        self.scores = dict(told["scores"])


def alone(training: Training) -> Mapping[str, Floats]:
    """Return the weights that are learned, the only candidate."""
    return {"": training.weights}


@dataclass(frozen=True)
class LearningMethod:
    """A way of learning."""

    set_out: Callable[[Training, TrainingEnvironment], None]
    """Begins with weights, their optimiser and the bounds of what was seen."""
    step: Callable[[Training, TrainingEnvironment], None]
    """Takes one step, and counts it."""
    candidates: Callable[[Training], Mapping[str, Floats]] = alone
    """Returns the weights that later history chooses among, by name."""


def train(learner: LearnerSpec, config: TrainingConfig, way: LearningMethod) -> Iterator[Progress]:
    """Train within the budget and yield how far it has come."""
    training, environment = Training(learner, config), TrainingEnvironment(learner, config)
    training.resume()
    _check(environment)
    while not training.best.size or training.done < 1.0:
        began = time.monotonic()
        if not training.best.size:
            way.set_out(training, environment)
        else:
            for _ in range(EVERY if config.steps is None else min(EVERY, config.steps - training.steps)):
                way.step(training, environment)
        saved = _look(training, environment, way.candidates(training))
        training.spent_s += time.monotonic() - began
        training.curve.append((training.done, training.worth))
        if saved:
            _keep(training, environment)
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
    if not any(found.wait_mean_s > 1.0 for found in environment.known):
        raise TrainingError(f"nobody waits under {environment.config.incumbent}: there is nothing to gain; a heuristic "
                            "serves as well")


def bounds(rows: Floats) -> Floats:
    """Return [input, 2] what was seen, nearly all of it, with a margin."""
    low, high = np.quantile(rows, [0.005, 0.995], axis=0)
    margin = 0.1 * (high - low) + 0.05
    return np.stack([low - margin, high + margin], axis=1)


def _look(training: Training, environment: TrainingEnvironment, candidates: Mapping[str, Floats]) -> bool:
    """Judge the present candidates on later history; keep the best of them if none were better."""
    better = False
    for name, weights in candidates.items():
        found = environment.worth(weights)
        if name:
            training.scores[name] = min(found, training.scores.get(name, math.inf))
        if not training.best.size or found < training.worth:
            training.best, training.worth, better = weights.copy(), found, True
    return better


def _keep(training: Training, environment: TrainingEnvironment) -> None:
    """Write the best down as a model that can serve."""
    config, learner = training.config, training.learner
    windows = [*(episode.window for episode in environment.episodes.values()), *config.select]
    seen = {name: (float(low), float(high)) for name, (low, high) in zip(learner.told, training.bounds, strict=True)}
    metrics = {"objective_select": training.worth, "imitation_top1": training.agreement, "wall_s": training.spent_s,
               **{WAY + name: worth for name, worth in training.scores.items()}}
    card = ModelCard(learner.kind, "1", time.time(), config.seed, version("idlewatt"), "", "", kind=learner.kind,
                     metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
                     seen={**seen, **sizes_seen(window.cluster for window in windows)}, curve=tuple(training.curve))
    learner.save(config.folder / "best", training.best, card, config.objective.longest_wait_s)

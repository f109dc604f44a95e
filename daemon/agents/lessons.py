"""What trainings on pieces of history share: where one stands, how it is judged, how it goes on after an interruption.

How an agent sets out and what a step of its learning is, each kind brings along (:class:`Way`).
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
from .kinds import Figures, Progress, Stretch, Trained, TrainingConfig, TrainingError, figures
from .pieces import Piece, piece_of

POOL = 64
"""Pieces that are learned from, again and again."""
EVERY, STEPS = 5, 400
"""Steps between looks at later history; at most, unless the budget ends before."""
FEWEST_JOBS = 20
STATE = "training.safetensors"
MORE, WAY = "more.", "objective_by_"
"""What names of arrays and of metrics begin with, that a way of learning keeps of its own."""


@dataclass(frozen=True)
class Calling:
    """What a kind of agent brings along to learn so."""

    kind: str
    schema: Mapping[str, object]
    told: tuple[str, ...]
    """Names of the first inputs, those that belong to a candidate: their range is kept on the card."""
    policy: Callable[[Floats, ModelCard, float], Trained]
    """Returns the agent with weights, a card and the longest wait."""
    save: Callable[[Path, Floats, ModelCard, float], ModelCard]
    refuse: Callable[[Stretch], str | None]
    """Returns why nothing can be learned from a stretch."""


@dataclass
class TraceWindows:
    """The stretches of a config, and how an agent does on them."""

    trade: Calling
    config: TrainingConfig
    pieces: dict[int, Piece] = field(default_factory=dict)

    def piece(self, number: int) -> Piece:
        """Return the piece of this number, the same one again after some."""
        number %= POOL
        if number not in self.pieces:
            random = np.random.default_rng([self.config.seed, number, 1])
            self.pieces[number] = piece_of(self.config.fit(number), self.config.incumbent, self.config.objective,
                                           random)
        return self.pieces[number]

    @cached_property
    def known(self) -> tuple[Figures, ...]:
        """Return what the incumbent makes of each stretch of later history."""
        return tuple(self._figures(stretch, named(self.config.incumbent)) for stretch in self.config.select)

    def worth(self, weights: Floats) -> float:
        """Return the objective on later history, relative to the incumbent's."""
        policy = self.policy(weights)
        logs = [math.log(self._figures(stretch, policy).relative(theirs, self.config.objective))
                for stretch, theirs in zip(self.config.select, self.known, strict=True)]
        if not np.isfinite(logs).all():
            raise TrainingError("the objective is no number; what was kept before stays")
        return math.exp(float(np.mean(logs)))

    def policy(self, weights: Floats) -> Trained:
        """Return the agent with these weights."""
        return self.trade.policy(weights, self.card, self.config.objective.longest_wait_s)

    @property
    def card(self) -> ModelCard:
        """Return a card for one that is not done yet."""
        return ModelCard(self.trade.kind, "0", 0.0, self.config.seed, "", "", "", kind=self.trade.kind)

    def _figures(self, stretch: Stretch, policy: Policy) -> Figures:
        done = stretch.replayed(policy)
        return figures(done, stretch.since_s, watts=self.config.objective.watts(stretch))


@dataclass
class Training:
    """Where a training stands; goes on exactly where a saved one was left."""

    trade: Calling
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
        return schema_hash({**self.trade.schema, "seed": self.config.seed, "incumbent": self.config.incumbent,
                            "objective": asdict(self.config.objective),
                            "speeds": [stretch.speeds.told for stretch in self.config.select]})

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

    set_out: Callable[[Training, TraceWindows], None]
    """Begins with weights, their optimiser and the bounds of what was seen."""
    step: Callable[[Training, TraceWindows], None]
    """Takes one step, and counts it."""
    candidates: Callable[[Training], Mapping[str, Floats]] = alone
    """Returns the weights that later history chooses among, by name."""


def train(calling: Calling, config: TrainingConfig, way: LearningMethod) -> Iterator[Progress]:
    """Train within the budget and yield how far it has come."""
    training, ground = Training(calling, config), TraceWindows(calling, config)
    training.resume()
    _check(ground)
    while not training.best.size or training.done < 1.0:
        began = time.monotonic()
        if not training.best.size:
            way.set_out(training, ground)
        else:
            for _ in range(EVERY if config.steps is None else min(EVERY, config.steps - training.steps)):
                way.step(training, ground)
        saved = _look(training, ground, way.candidates(training))
        training.spent_s += time.monotonic() - began
        training.curve.append((training.done, training.worth))
        if saved:
            _keep(training, ground)
        training.save()
        yield Progress(training.done, training.worth, saved)


def _check(ground: TraceWindows) -> None:
    """Raise ``TrainingError`` for history that nothing can be learned from."""
    if not ground.config.select:
        raise TrainingError("no later history to choose by; give a longer one")
    first, stretches = ground.config.fit(0), ground.config.select
    why = ground.trade.refuse(first)
    if why is not None:
        raise TrainingError(why)
    for name, stretch in (("history", first), ("later history, which chooses,", stretches[0])):
        count = int((stretch.workload.submit >= stretch.since_s).sum())
        if count < FEWEST_JOBS:
            raise TrainingError(f"the {name} has {count} jobs that count; {FEWEST_JOBS} are needed")
    if not any(found.wait_mean_s > 1.0 for found in ground.known):
        raise TrainingError(f"nobody waits under {ground.config.incumbent}: there is nothing to gain; a heuristic "
                            "serves as well")


def bounds(rows: Floats) -> Floats:
    """Return [input, 2] what was seen, nearly all of it, with a margin."""
    low, high = np.quantile(rows, [0.005, 0.995], axis=0)
    margin = 0.1 * (high - low) + 0.05
    return np.stack([low - margin, high + margin], axis=1)


def _look(training: Training, ground: TraceWindows, candidates: Mapping[str, Floats]) -> bool:
    """Judge the present candidates on later history; keep the best of them if none were better."""
    better = False
    for name, weights in candidates.items():
        found = ground.worth(weights)
        if name:
            training.scores[name] = min(found, training.scores.get(name, math.inf))
        if not training.best.size or found < training.worth:
            training.best, training.worth, better = weights.copy(), found, True
    return better


def _keep(training: Training, ground: TraceWindows) -> None:
    """Write the best down as a model that can serve."""
    config, trade = training.config, training.trade
    stretches = [*(piece.stretch for piece in ground.pieces.values()), *config.select]
    seen = {name: (float(low), float(high)) for name, (low, high) in zip(trade.told, training.bounds, strict=True)}
    metrics = {"objective_select": training.worth, "imitation_top1": training.agreement, "wall_s": training.spent_s,
               **{WAY + name: worth for name, worth in training.scores.items()}}
    card = ModelCard(trade.kind, "1", time.time(), config.seed, version("idlewatt"), "", "", kind=trade.kind,
                     metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
                     seen={**seen, **sizes_seen(stretch.cluster for stretch in stretches)}, curve=tuple(training.curve))
    trade.save(config.folder / "best", training.best, card, config.objective.longest_wait_s)

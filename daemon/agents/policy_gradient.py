"""How an agent that chooses among candidates learns: as the best known rule chose, then by policy gradient.

The rule is found by trying all of them on pieces of history, and imitated (cross-entropy). Then each step replays some
pieces several times by chance, and makes what went better than the other replays of the same piece likelier. Later
history keeps the best.
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
from numpy.typing import NDArray

from ...storage.records import ModelCard
from ..policies import named
from ..replay.engine import Policy, Run
from .adam import Adam
from .checkpoint import CheckpointError, read_unfinished, schema_hash, write_unfinished
from .choice import Choices, Net, agreement, imitate, loss
from .figures import Figures, figures
from .kinds import Course, Progress, Stretch, Trained, TrainingError
from .pieces import Piece, piece_of, replayed

Floats = NDArray[np.float64]
Choose = Callable[[float, Floats], int]

LESSONS, TAUGHT = 4, 4000
"""Pieces that the rules are tried on, and choices that are imitated at most."""
POOL = 64
"""Pieces that are learned from, again and again."""
TOGETHER, REPLAYS = 2, 4
"""Pieces in a step, and replays of each by chance."""
EVERY, STEPS = 5, 400
"""Steps between looks at later history; at most, unless the budget ends before."""
STEP, ENTROPY = (0.01, 0.002), 0.003
"""Size of the steps, first and last; what a nat of doubt is worth."""
EPOCHS, CLIP = 4, 0.2
"""Gradients taken from the replays of one step, and by how much they may change the odds of a choice (PPO, Schulman et
al. 2017): a replay takes a hundred times as long as a gradient."""
FEWEST_JOBS = 20
STATE = "training.safetensors"


@dataclass(frozen=True)
class Trade:
    """What a kind of agent brings along to learn so."""

    kind: str
    net: Net
    schema: Mapping[str, object]
    told: tuple[str, ...]
    """Names of the first inputs, those that belong to a candidate: their range is kept on the card."""
    rules: Mapping[str, Callable[[Floats], int]]
    """Known rules by name, each choosing among rows of inputs."""
    policy: Callable[[Floats, ModelCard, float, Choose | None], Trained]
    """Returns the agent with weights, a card, the longest wait, and what chooses in the network's stead."""
    save: Callable[[Path, Floats, ModelCard, float], ModelCard]
    refuse: Callable[[Stretch], str | None]
    """Returns why nothing can be learned from a stretch."""


class Recorder:
    """Chooses in an agent's stead, and remembers what among, and when."""

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


class Chance:
    """Chooses by the network's own odds."""

    def __init__(self, net: Net, weights: Floats, random: np.random.Generator) -> None:
        self._net, self._weights, self._random = net, weights, random

    def __call__(self, rows: Floats) -> int:
        """Choose."""
        scores = self._net.scores(self._weights, rows)
        odds = np.exp(scores - scores.max()).cumsum()
        return int(np.searchsorted(odds, self._random.random() * odds[-1]))


@dataclass(frozen=True)
class Trial:
    """A replay of a piece."""

    piece: Piece
    recorder: Recorder
    done: Run

    @property
    def cost(self) -> float:
        """Return what it cost, relative to the incumbent's."""
        return self.piece.cost(self.done)

    def later(self, times: Floats) -> Floats:
        """Return what it cost after these moments."""
        return self.piece.later(self.done, times)


@dataclass
class Ground:
    """The stretches of a course, and how an agent does on them."""

    trade: Trade
    course: Course
    pieces: dict[int, Piece] = field(default_factory=dict)

    def piece(self, number: int) -> Piece:
        """Return the piece of this number, the same one again after some."""
        number %= POOL
        if number not in self.pieces:
            random = np.random.default_rng([self.course.seed, number, 1])
            self.pieces[number] = piece_of(self.course.fit(number), self.course.incumbent, self.course.objective,
                                           random)
        return self.pieces[number]

    @cached_property
    def known(self) -> tuple[Figures, ...]:
        """Return what the incumbent makes of each stretch of later history."""
        return tuple(self._figures(stretch, named(self.course.incumbent)) for stretch in self.course.select)

    def worth(self, weights: Floats) -> float:
        """Return the objective on later history, relative to the incumbent's."""
        policy = self.policy(weights, None)
        logs = [math.log(self._figures(stretch, policy).relative(theirs, self.course.objective))
                for stretch, theirs in zip(self.course.select, self.known, strict=True)]
        if not np.isfinite(logs).all():
            raise TrainingError("the objective is no number; what was kept before stays")
        return math.exp(float(np.mean(logs)))

    def policy(self, weights: Floats, choose: Choose | None) -> Trained:
        """Return the agent with these weights."""
        card = ModelCard(self.trade.kind, "0", 0.0, self.course.seed, "", "", "", kind=self.trade.kind)
        return self.trade.policy(weights, card, self.course.objective.longest_wait_s, choose)

    def recorded(self, piece: Piece, rule: Callable[[Floats], int], most: float = math.inf) -> Trial:
        """Replay a piece by a rule, and remember up to so many choices."""
        recorder = Recorder(rule, most)
        return Trial(piece, recorder, replayed(piece.stretch, self.policy(np.zeros(self.trade.net.size), recorder)))

    def _figures(self, stretch: Stretch, policy: Policy) -> Figures:
        done = replayed(stretch, policy)
        return figures(done, stretch.since_s, watts=self.course.objective.energy_wasted > 0)


@dataclass
class Training:
    """Where a training stands; goes on exactly where a saved one was left."""

    trade: Trade
    course: Course
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

    @property
    def done(self) -> float:
        """Return the share of the budget that is used up, 0..1."""
        if self.course.steps is not None:
            return min(1.0, self.steps / self.course.steps) if self.course.steps else 1.0
        return min(1.0, max(self.spent_s / max(1e-9, self.course.budget_s), self.steps / STEPS))

    @property
    def plan(self) -> str:
        """Return the digest of what makes it this training and no other."""
        return schema_hash({**self.trade.schema, "seed": self.course.seed, "incumbent": self.course.incumbent,
                            "objective": asdict(self.course.objective),
                            "speeds": [stretch.speeds.told for stretch in self.course.select]})

    def save(self) -> None:
        """Keep all that it needs to go on, in one file."""
        told = {"plan": self.plan, "worth": self.worth, "rule": self.rule, "agreement": self.agreement,
                "steps": self.steps, "gradients": self.adam.steps, "spent_s": self.spent_s, "curve": self.curve}
        write_unfinished(self.course.folder / STATE, told, {
            "weights": self.weights, "best": self.best, "bounds": self.bounds, "first": self.adam.first,
            "second": self.adam.second})

    def resume(self) -> None:
        """Go on where :meth:`save` was called, if it was; ``CheckpointError`` for another or a damaged training."""
        path = self.course.folder / STATE
        if not path.exists():
            return
        told, arrays = read_unfinished(path)
        if told.get("plan") != self.plan:
            raise CheckpointError(f"{path}: of a training with another seed, incumbent, objective or speeds; move it "
                                  "away to start anew")
        self.weights, self.best, self.bounds = arrays["weights"], arrays["best"], arrays["bounds"]
        self.adam, self.steps = Adam(arrays["first"], arrays["second"], told["gradients"]), told["steps"]
        self.worth, self.rule, self.agreement = told["worth"], told["rule"], told["agreement"]
        self.spent_s, self.curve = told["spent_s"], [(share, worth) for share, worth in told["curve"]]


def train(trade: Trade, course: Course, start: Floats | None = None) -> Iterator[Progress]:
    """Train within the budget and yield how far it has come; ``start`` are the weights of a model to go on from."""
    training, ground = Training(trade, course), Ground(trade, course)
    training.resume()
    _check(ground)
    while not training.best.size or training.done < 1.0:
        began = time.monotonic()
        if not training.best.size:
            _set_out(training, ground, start)
        else:
            for _ in range(EVERY if course.steps is None else min(EVERY, course.steps - training.steps)):
                _step(training, ground)
        saved = _look(training, ground)
        training.spent_s += time.monotonic() - began
        training.curve.append((training.done, training.worth))
        if saved:
            _keep(training, ground)
        training.save()
        yield Progress(training.done, training.worth, saved)


def _check(ground: Ground) -> None:
    """Raise ``TrainingError`` for history that nothing can be learned from."""
    if not ground.course.select:
        raise TrainingError("no later history to choose by; give a longer one")
    first, stretches = ground.course.fit(0), ground.course.select
    why = ground.trade.refuse(first)
    if why is not None:
        raise TrainingError(why)
    for name, stretch in (("history", first), ("later history, which chooses,", stretches[0])):
        count = int((stretch.workload.submit >= stretch.since_s).sum())
        if count < FEWEST_JOBS:
            raise TrainingError(f"the {name} has {count} jobs that count; {FEWEST_JOBS} are needed")
    if not any(found.wait_mean_s > 1.0 for found in ground.known):
        raise TrainingError(f"nobody waits under {ground.course.incumbent}: there is nothing to gain; a heuristic "
                            "serves as well")


def _set_out(training: Training, ground: Ground, start: Floats | None) -> None:
    """Begin with weights that choose as the best known rule does, or with those of a model that does better."""
    trade, course = training.trade, training.course
    lessons = [ground.piece(number) for number in range(LESSONS)]
    tried = {name: [ground.recorded(piece, rule, TAUGHT // LESSONS) for piece in lessons]
             for name, rule in trade.rules.items()}
    training.rule = min(tried, key=lambda name: (sum(trial.cost for trial in tried[name]), name))
    made = [choice for trial in tried[training.rule] for choice in trial.recorder.made]
    if not made:
        raise TrainingError("there is never a choice between two jobs; a heuristic serves as well")
    fresh, choices = trade.net.initial(np.random.default_rng(course.seed)), Choices.of(made)
    learned = imitate(trade.net, fresh, choices)
    training.agreement = agreement(trade.net, learned, choices)
    training.bounds = _bounds(choices.rows[:, :len(trade.told)])
    training.weights = learned
    if start is not None and ground.worth(start) < ground.worth(learned):
        training.weights = start.copy()
    training.adam = Adam.of(trade.net.size)


def _bounds(rows: Floats) -> Floats:
    """Return [input, 2] what was seen, nearly all of it, with a margin."""
    low, high = np.quantile(rows, [0.005, 0.995], axis=0)
    margin = 0.1 * (high - low) + 0.05
    return np.stack([low - margin, high + margin], axis=1)


def _step(training: Training, ground: Ground) -> None:
    """Take one step of policy gradient; it counts although nobody may have had a choice."""
    net, number = training.trade.net, training.steps
    made: list[tuple[Floats, int]] = []
    worth: list[Floats] = [np.zeros(0)]
    for which in range(TOGETHER):
        piece = ground.piece(TOGETHER * number + which)
        trials = [ground.recorded(piece, Chance(net, training.weights, np.random.default_rng(
            [training.course.seed, number, which, replay]))) for replay in range(REPLAYS)]
        for own, trial in enumerate(trials):
            times = np.array(trial.recorder.times)
            others = [other.later(times) for other in trials[:own] + trials[own + 1:]]
            made += trial.recorder.made
            worth.append(np.mean(others, axis=0) - trial.later(times))
    training.steps += 1
    gained = np.concatenate(worth)
    if made:
        training.weights = _improved(training, Choices.of(made), gained / max(1e-12, float(gained.std())))


def _improved(training: Training, choices: Choices, worth: Floats) -> Floats:
    """Return weights that make choices likelier that were worth more, within bounds."""
    net, weights, size = training.trade.net, training.weights, STEP[0] + (STEP[1] - STEP[0]) * training.done
    before = choices.log_odds(net.scores(weights, choices.rows))[choices.chosen]
    for _ in range(EPOCHS):
        ratio = np.exp(choices.log_odds(net.scores(weights, choices.rows))[choices.chosen] - before)
        bound = np.where(worth > 0, ratio > 1 + CLIP, ratio < 1 - CLIP)
        value, gradient = loss(net, weights, choices, np.where(bound, 0.0, worth * ratio), ENTROPY)
        if not math.isfinite(value) or not np.isfinite(gradient).all():
            raise TrainingError(f"the objective is no number after {training.steps} steps; what was kept before stays")
        weights = weights - size * training.adam.direction(gradient)
    return weights


def _look(training: Training, ground: Ground) -> bool:
    """Judge the present weights on later history; keep them if none were better."""
    found = ground.worth(training.weights)
    if training.best.size and found >= training.worth:
        return False
    training.best, training.worth = training.weights.copy(), found
    return True


def _keep(training: Training, ground: Ground) -> None:
    """Write the best down as a model that can serve."""
    course, trade = training.course, training.trade
    stretches = [*(piece.stretch for piece in ground.pieces.values()), *course.select]
    sizes = [len(stretch.cluster) for stretch in stretches]
    seen = {name: (float(low), float(high)) for name, (low, high) in zip(trade.told, training.bounds, strict=True)}
    metrics = {"objective_select": training.worth, "imitation_top1": training.agreement, "wall_s": training.spent_s}
    card = ModelCard(trade.kind, "1", time.time(), course.seed, version("idlewatt"), "", "", kind=trade.kind,
                     metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
                     seen={**seen, "nodes": (float(min(sizes)), float(max(sizes)))}, curve=tuple(training.curve))
    trade.save(course.folder / "best", training.best, card, course.objective.longest_wait_s)

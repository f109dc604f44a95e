"""How an agent that chooses among candidates learns: as the best known rule chose, then by policy gradient.

The rule is found by trying all of them on pieces of history, and imitated (cross-entropy). Then each step replays some
pieces several times by chance, and makes what went better than the other replays of the same piece likelier. Later
history keeps the best.
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
from .kinds import Progress, Stretch, Trained, TrainingConfig, TrainingError
from .lessons import Calling, LearningMethod, TraceWindows, Training, bounds
from .lessons import train as learn
from .pieces import Piece

Choose = Callable[[float, Floats], int]

LESSONS, TAUGHT = 4, 4000
"""Pieces that the rules are tried on, and choices that are imitated at most."""
TOGETHER, REPLAYS = 2, 4
"""Pieces in a step, and replays of each by chance."""
STEP, ENTROPY = (0.01, 0.002), 0.003
"""Size of the steps, first and last; what a nat of doubt is worth."""
EPOCHS, CLIP = 4, 0.2
"""Gradients taken from the replays of one step, and by how much they may change the odds of a choice (PPO, Schulman et
al. 2017): a replay takes a hundred times as long as a gradient."""


@dataclass(frozen=True)
class Trade:
    """What a kind of agent brings along to learn so."""

    kind: str
    net: Net
    schema: Mapping[str, object]
    told: tuple[str, ...]
    """As of :class:`.lessons.Calling`, and so are ``save`` and ``refuse``."""
    rules: Mapping[str, Callable[[Floats], int]]
    """Known rules by name, each choosing among rows of inputs."""
    policy: Callable[[Floats, ModelCard, float, Choose | None], Trained]
    """Returns the agent with weights, a card, the longest wait, and what chooses in the network's stead."""
    save: Callable[[Path, Floats, ModelCard, float], ModelCard]
    refuse: Callable[[Stretch], str | None]

    @property
    def calling(self) -> Calling:
        """Return what any way of learning needs of it."""
        def served(weights: Floats, card: ModelCard, longest_wait_s: float) -> Trained:
            return self.policy(weights, card, longest_wait_s, None)

        return Calling(self.kind, self.schema, self.told, served, self.save,
                       self.refuse)


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
class PieceReplay:
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


def recorded(trade: Trade, ground: TraceWindows, piece: Piece, rule: Callable[[Floats], int],
             most: float = math.inf) -> PieceReplay:
    """Replay a piece by a rule, and remember up to so many choices."""
    recorder = Recorder(rule, most)
    agent = trade.policy(np.zeros(trade.net.size), ground.card, ground.config.objective.longest_wait_s, recorder)
    return PieceReplay(piece, recorder, piece.stretch.replayed(agent))


def train(trade: Trade, config: TrainingConfig, start: Floats | None = None) -> Iterator[Progress]:
    """Train within the budget and yield how far it has come; ``start`` are the weights of a model to go on from."""
    return learn(trade.calling, config, LearningMethod(partial(_set_out, trade, start), partial(_step, trade)))


def _set_out(trade: Trade, start: Floats | None, training: Training, ground: TraceWindows) -> None:
    """Begin with weights that choose as the best known rule does, or with those of a model that does better."""
    config = training.config
    lessons = [ground.piece(number) for number in range(LESSONS)]
    tried = {name: [recorded(trade, ground, piece, rule, TAUGHT // LESSONS) for piece in lessons]
             for name, rule in trade.rules.items()}
    training.rule = min(tried, key=lambda name: (sum(trial.cost for trial in tried[name]), name))
    made = [choice for trial in tried[training.rule] for choice in trial.recorder.made]
    if not made:
        raise TrainingError("there is never a choice between two jobs; a heuristic serves as well")
    fresh, choices = trade.net.initial(np.random.default_rng(config.seed)), Choices.of(made)
    learned = imitate(trade.net, fresh, choices)
    training.agreement = agreement(trade.net, learned, choices)
    training.bounds = bounds(choices.rows[:, :len(trade.told)])
    training.weights = learned
    if start is not None and ground.worth(start) < ground.worth(learned):
        training.weights = start.copy()
    training.adam = Adam.of(trade.net.size)


def _step(trade: Trade, training: Training, ground: TraceWindows) -> None:
    """Take one step of policy gradient; it counts although nobody may have had a choice."""
    net, number = trade.net, training.steps
    made: list[tuple[Floats, int]] = []
    worth: list[Floats] = [np.zeros(0)]
    for which in range(TOGETHER):
        piece = ground.piece(TOGETHER * number + which)
        trials = [recorded(trade, ground, piece, Chance(net, training.weights, np.random.default_rng(
            [training.config.seed, number, which, replay]))) for replay in range(REPLAYS)]
        for own, trial in enumerate(trials):
            times = np.array(trial.recorder.times)
            others = [other.later(times) for other in trials[:own] + trials[own + 1:]]
            made += trial.recorder.made
            worth.append(np.mean(others, axis=0) - trial.later(times))
    training.steps += 1
    gained = np.concatenate(worth)
    if made:
        training.weights = _improved(net, training, Choices.of(made), gained / max(1e-12, float(gained.std())))


def _improved(net: Net, training: Training, choices: Choices, worth: Floats) -> Floats:
    """Return weights that make choices likelier that were worth more, within bounds."""
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

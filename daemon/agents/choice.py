"""A choice among any number of candidates by one small network that rates each: forward, and how to learn it.

A candidate is a row of inputs. Its score is a linear part and a hidden layer over the row; the probability of a choice
is the softmax of the scores. Nothing in it knows how many candidates there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..replay.arrays import Floats
from ..replay.compiled import compiled_apart

Rows = NDArray[np.intp]

DECAY = 3e-4
"""Penalty on squared weights: a policy that can be imitated perfectly would want endless ones."""


@dataclass(frozen=True, slots=True)
class Net:
    """The network's form; its weights are one vector: linear part, hidden weights and biases, what comes of them."""

    inputs: int
    hidden: int = 16

    @property
    def size(self) -> int:
        """Return how many weights there are."""
        return self.inputs + (self.inputs + 2) * self.hidden

    def initial(self, random: np.random.Generator) -> Floats:
        """Return weights with a random hidden layer that has no effect on the scores yet."""
        weights = np.zeros(self.size)
        hidden_part = slice(self.inputs, self.inputs * (1 + self.hidden))
        weights[hidden_part] = random.normal(0.0, 1.0 / np.sqrt(self.inputs), self.inputs * self.hidden)
        return weights

    def scores(self, weights: Floats, rows: Floats) -> Floats:
        """Return the score of each candidate; compiled, since serving spends most of its time here."""
        scores = np.empty(len(rows))
        _score(weights, np.ascontiguousarray(rows), np.empty(self.hidden), scores)
        return scores

    def gradient(self, weights: Floats, rows: Floats, by_score: Floats) -> Floats:
        """Return the gradient of a loss by the weights, from that by each score."""
        _, hidden, bias, out = self._parts(weights)
        # einsum, since @ may start threads, which cost more than so small a product on machines of few cores.
        before = np.einsum("ri,ih->rh", rows, hidden) + bias
        inner = by_score[:, None] * out / (1.0 + np.abs(before)) ** 2
        return np.concatenate([by_score @ rows, np.einsum("ri,rh->ih", rows, inner).ravel(), inner.sum(axis=0),
                               by_score @ (before / (1.0 + np.abs(before)))])

    def _parts(self, weights: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        wide, deep = self.inputs, self.hidden
        first, last = wide * (1 + deep), wide * (1 + deep) + deep  # where the hidden weights end, and their biases
        return weights[:wide], weights[wide:first].reshape(wide, deep), weights[first:last], weights[last:]


@compiled_apart
def _score(weights: Floats, rows: Floats, before: Floats, scores: Floats) -> None:
    """Fill in the score of each row; ``before`` is scratch, the hidden units of a row before the bend."""
    wide, deep = rows.shape[1], before.size
    bias, out = wide * (1 + deep), wide * (1 + deep) + deep
    for row in range(rows.shape[0]):
        score = 0.0
        for unit in range(deep):
            before[unit] = weights[bias + unit]
        for place in range(wide):
            value = rows[row, place]
            if value != 0.0:
                score += value * weights[place]
                for unit in range(deep):
                    before[unit] += value * weights[wide + place * deep + unit]
        for unit in range(deep):
            score += before[unit] / (1.0 + abs(before[unit])) * weights[out + unit]
        scores[row] = score


@dataclass(frozen=True, slots=True)
class Choices:
    """Recorded choices, concatenated."""

    rows: Floats
    """[candidate, input] of all choices."""
    first: Rows
    """[choice] where its candidates begin."""
    chosen: Rows
    """[choice] the row that was chosen."""

    @classmethod
    def of(cls, made: Sequence[tuple[Floats, int]]) -> Choices:
        """Return choices from candidates and the index of the chosen one."""
        sizes = np.array([len(rows) for rows, _ in made], np.intp)
        first = np.cumsum(sizes) - sizes
        return cls(np.concatenate([rows for rows, _ in made]), first,
                   first + np.array([index for _, index in made], np.intp))

    def log_odds(self, scores: Floats) -> Floats:
        """Return the logarithm of each candidate's probability."""
        sizes = np.diff([*self.first, len(self.rows)])
        value = scores - np.repeat(np.maximum.reduceat(scores, self.first), sizes)
        return np.asarray(value - np.repeat(np.log(np.add.reduceat(np.exp(value), self.first)), sizes))


def loss(net: Net, weights: Floats, choices: Choices, worth: Floats, entropy: float = 0.0) -> tuple[float, Floats]:
    """Return minus the mean log-likelihood of the choices, each weighed by its worth, and its gradient.

    ``entropy`` is what a nat of remaining doubt is worth.
    """
    logs = choices.log_odds(net.scores(weights, choices.rows))
    odds, count = np.exp(logs), len(choices.first)
    sizes = np.diff([*choices.first, len(choices.rows)])
    doubt = -np.add.reduceat(odds * logs, choices.first)
    by_score = np.repeat(worth, sizes) * odds + entropy * odds * (logs + np.repeat(doubt, sizes))
    by_score[choices.chosen] -= worth
    value = -float(worth @ logs[choices.chosen] + entropy * doubt.sum()) / count
    return value, net.gradient(weights, choices.rows, by_score / count)


def imitate(net: Net, weights: Floats, choices: Choices, steps: int = 120) -> Floats:
    """Return weights that choose as was chosen."""
    from scipy.optimize import minimize  # heavy, and only training wants it

    equal_worth = np.ones(len(choices.first))

    def objective(point: Floats) -> tuple[float, Floats]:
        value, gradient = loss(net, point, choices, equal_worth)
        return value + DECAY * float(point @ point), gradient + 2 * DECAY * point

    return np.asarray(minimize(objective, weights, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x)


def agreement(net: Net, weights: Floats, choices: Choices) -> float:
    """Return the share of choices, 0..1, that have the highest score of their candidates (top-1 accuracy)."""
    scores = net.scores(weights, choices.rows)
    best = np.maximum.reduceat(scores, choices.first)
    return float((scores[choices.chosen] >= best - 1e-12).mean())

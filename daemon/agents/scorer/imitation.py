"""The first step of training: imitation of a known policy, or regression of run times.

Imitation is a conditional logit over the jobs that the policy started; the regression predicts the logarithm of run
times from the inputs at submission. Both fit the first trait: a linear part and a hidden layer. Orders by a single
input need no training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ...policies import named
from ...replay.arrays import Floats
from ...replay.engine import decisions
from ...replay.state import Start
from .arena import Arena
from .network import FACTORS, HIDDEN, INPUTS, SHORT_S, TRAITS, layer

MOST_CHOICES, MOST_OTHERS, MOST_JOBS = 400, 10, 12_000
_DESCENT: dict[str, object] = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": 120}}
DECAY = 3e-4
"""L2 penalty: without it a policy that can be imitated perfectly would drive weights to infinity."""


def choices(arena: Arena, policy: str) -> Iterator[Floats]:
    """Yield the candidates of each choice of a policy, [job, feature], the chosen job first.

    The others are waiting jobs that are no larger, which it could have started instead.
    """
    random = np.random.default_rng(0)
    for decision in decisions(arena.window.cluster, arena.window.workload, named(policy),
                              speed=arena.window.speeds.table):
        started = [action.job for action in decision.actions if isinstance(action, Start)]
        if not started:
            continue
        waiting = decision.state.waiting
        jobs = decision.state.arrays.jobs
        for index, job in enumerate(started):
            others = np.concatenate([waiting, np.array(started[index + 1:], np.intp)])
            others = others[(jobs.gpus[others] <= jobs.gpus[job]) & (jobs.queue[others] == jobs.queue[job])]
            if len(others) > MOST_OTHERS:
                others = random.choice(others, MOST_OTHERS, replace=False)
            if len(others):
                yield _features(arena, np.concatenate([[job], others]), decision.time)


def _features(arena: Arena, jobs: NDArray[np.intp], now: float) -> Floats:
    wait = now - arena.window.workload.submit[jobs]
    relative = np.minimum(8.0, wait / (wait.mean() + SHORT_S))
    return np.column_stack([arena.inputs[jobs], -np.log1p(wait / SHORT_S), -relative])


def choices_by(arenas: Sequence[Arena], policy: str) -> list[Floats]:
    """Return the candidates of a policy's choices in some windows."""
    return [features for arena in arenas for features in islice(choices(arena, policy), MOST_CHOICES)]


def imitate(weights: Floats, chosen: Sequence[Floats]) -> Floats:
    """Return weights whose first trait and wait factors imitate a policy's choices; the others do not change."""
    if not chosen:
        return weights.copy()
    rows, first = np.concatenate(chosen), np.cumsum([0, *map(len, chosen)])[:-1]
    return _put(weights, minimize(_loss, _parameters(weights), (rows, first), **_DESCENT).x)


def hindsight(weights: Floats, arenas: Sequence[Arena], random: np.random.Generator) -> Floats:
    """Return weights whose first trait predicts the true run time from the inputs at submission."""
    inputs = np.concatenate([arena.inputs for arena in arenas])
    run = np.log(np.maximum(1.0, np.concatenate([arena.window.workload.run for arena in arenas])))
    some = random.permutation(len(inputs))[:MOST_JOBS]
    rows = np.column_stack([inputs[some], np.zeros((len(some), FACTORS - TRAITS))])
    wanted = run[some] - run[some].mean()
    return _put(weights, minimize(_error, _parameters(weights), (rows, wanted / max(1e-9, wanted.std())), **_DESCENT).x)


def _parameters(weights: Floats) -> Floats:
    """Return the weights that imitation changes, in one vector."""
    linear = np.concatenate([layer(weights, "order.linear")[:, 0], layer(weights, "mood.base")[TRAITS:]])
    return np.concatenate([linear, layer(weights, "order.hidden").ravel(), layer(weights, "order.bias"),
                           layer(weights, "order.traits")[:, 0]])


def _parts(parameters: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return views of the vector: the linear part, hidden weights and biases, and output weights."""
    cuts = np.cumsum([len(INPUTS) + FACTORS - TRAITS, len(INPUTS) * HIDDEN, HIDDEN])
    linear, hidden, bias, out = np.split(parameters, cuts)
    return linear, hidden.reshape(len(INPUTS), HIDDEN), bias, out


def _put(weights: Floats, parameters: Floats) -> Floats:
    """Return weights with these parameters, scaled down: a score's scale has no meaning, and evolution adds to it."""
    parameters = parameters.copy()
    linear, _, _, out = _parts(parameters)
    scale = max(1e-9, float(np.abs(linear).max()), float(np.abs(out).max()))
    linear /= scale
    out /= scale
    updated, (linear, hidden, bias, out) = weights.copy(), _parts(parameters)
    layer(updated, "order.linear")[:, 0] = linear[:len(INPUTS)]
    layer(updated, "mood.base")[TRAITS:] = linear[len(INPUTS):]
    layer(updated, "order.hidden")[:], layer(updated, "order.bias")[:] = hidden, bias
    layer(updated, "order.traits")[:, 0] = out
    return updated


def _score(parameters: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Return the scores of rows, and their hidden units before the bend."""
    linear, hidden, bias, out = _parts(parameters)
    # einsum, since @ may start threads, which cost more than so small a product on machines of few cores.
    before = np.einsum("ri,ih->rh", rows[:, :len(INPUTS)], hidden) + bias
    return rows @ linear + before / (1.0 + np.abs(before)) @ out, before


def _loss(parameters: Floats, rows: Floats, first: NDArray[np.intp]) -> tuple[float, Floats]:
    """Return the mean negative log-likelihood of the choices and its gradient; the lowest score is chosen."""
    score, before = _score(parameters, rows)
    value, sizes = -score, np.diff([*first, len(rows)])
    value -= np.repeat(np.maximum.reduceat(value, first), sizes)
    odds = np.exp(value)
    odds /= np.repeat(np.add.reduceat(odds, first), sizes)
    loss = -np.log(np.maximum(odds[first], 1e-30)).mean() + DECAY * float(parameters @ parameters)
    wrong = -odds
    wrong[first] += 1.0
    return float(loss), _gradient(parameters, rows, before, wrong / len(first)) + 2 * DECAY * parameters


def _error(parameters: Floats, rows: Floats, wanted: Floats) -> tuple[float, Floats]:
    """Return the mean squared error of the scores and its gradient."""
    score, before = _score(parameters, rows)
    off = score - score.mean() - wanted
    loss = float((off ** 2).mean()) + DECAY * float(parameters @ parameters)
    return loss, _gradient(parameters, rows, before, 2 * (off - off.mean()) / len(rows)) + 2 * DECAY * parameters


def _gradient(parameters: Floats, rows: Floats, before: Floats, by_score: Floats) -> Floats:
    """Return the gradient of a loss by the parameters, from that by each score."""
    _, _, _, out = _parts(parameters)
    inner = by_score[:, None] * out / (1.0 + np.abs(before)) ** 2
    by_hidden = np.einsum("ri,rh->ih", rows[:, :len(INPUTS)], inner)
    return np.concatenate([by_score @ rows, by_hidden.ravel(), inner.sum(axis=0),
                           by_score @ (before / (1.0 + np.abs(before)))])


def agreement(weights: Floats, chosen: Sequence[Floats]) -> float:
    """Return the top-1 accuracy of these weights on a policy's choices; NaN without any choices."""
    hits = []
    for features in chosen:
        score, _ = _score(_parameters(weights), features)
        hits.append(bool((score[1:] >= score[0] - 1e-12).all()))
    return float(np.mean(hits)) if hits else float("nan")

"""The first step of learning: to choose as a known policy did, or to tell in hindsight which jobs would be short.

The former is a conditional logit of what it started when, the latter a regression of the logarithm of run times on what
was known at submission. Both shape the first trait: a linear part and a hidden layer. Orders that are nothing but an
input need no learning.
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
"""A policy that can be imitated perfectly would want endless weights."""


def choices(arena: Arena, policy: str) -> Iterator[Floats]:
    """Yield the jobs that a policy chose among, [job, feature], the chosen one first.

    They are the one that it started and those that it could have started in its stead: waiting, and no larger.
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
    """Return what a policy chose among in some windows."""
    return [features for arena in arenas for features in islice(choices(arena, policy), MOST_CHOICES)]


def imitate(weights: Floats, chosen: Sequence[Floats]) -> Floats:
    """Return weights whose first trait, and wait, choose as a policy did; all else stays as it is."""
    if not chosen:
        return weights.copy()
    rows, first = np.concatenate(chosen), np.cumsum([0, *map(len, chosen)])[:-1]
    return _put(weights, minimize(_loss, _taken(weights), (rows, first), **_DESCENT).x)


def hindsight(weights: Floats, arenas: Sequence[Arena], random: np.random.Generator) -> Floats:
    """Return weights whose first trait is what the run time, which nobody knew, looked like at submission."""
    inputs = np.concatenate([arena.inputs for arena in arenas])
    run = np.log(np.maximum(1.0, np.concatenate([arena.window.workload.run for arena in arenas])))
    some = random.permutation(len(inputs))[:MOST_JOBS]
    rows = np.column_stack([inputs[some], np.zeros((len(some), FACTORS - TRAITS))])
    wanted = run[some] - run[some].mean()
    return _put(weights, minimize(_error, _taken(weights), (rows, wanted / max(1e-9, wanted.std())), **_DESCENT).x)


def _taken(weights: Floats) -> Floats:
    """Return what imitation changes, in one vector."""
    linear = np.concatenate([layer(weights, "order.linear")[:, 0], layer(weights, "mood.base")[TRAITS:]])
    return np.concatenate([linear, layer(weights, "order.hidden").ravel(), layer(weights, "order.bias"),
                           layer(weights, "order.traits")[:, 0]])


def _parts(taken: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return views of it: the linear part, hidden weights and biases, and what comes of the hidden units."""
    cuts = np.cumsum([len(INPUTS) + FACTORS - TRAITS, len(INPUTS) * HIDDEN, HIDDEN])
    linear, hidden, bias, out = np.split(taken, cuts)
    return linear, hidden.reshape(len(INPUTS), HIDDEN), bias, out


def _put(weights: Floats, taken: Floats) -> Floats:
    """Return weights with these, made smaller: a score's size means nothing, and evolution should have a say."""
    taken = taken.copy()
    linear, _, _, out = _parts(taken)
    scale = max(1e-9, float(np.abs(linear).max()), float(np.abs(out).max()))
    linear /= scale
    out /= scale
    found, (linear, hidden, bias, out) = weights.copy(), _parts(taken)
    layer(found, "order.linear")[:, 0], layer(found, "mood.base")[TRAITS:] = linear[:len(INPUTS)], linear[len(INPUTS):]
    layer(found, "order.hidden")[:], layer(found, "order.bias")[:] = hidden, bias
    layer(found, "order.traits")[:, 0] = out
    return found


def _score(taken: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Return the scores of rows, and their hidden units before the bend."""
    linear, hidden, bias, out = _parts(taken)
    # Not by @: a library that starts threads for so little makes machines of few cores wait for them.
    before = np.einsum("ri,ih->rh", rows[:, :len(INPUTS)], hidden) + bias
    return rows @ linear + before / (1.0 + np.abs(before)) @ out, before


def _loss(taken: Floats, rows: Floats, first: NDArray[np.intp]) -> tuple[float, Floats]:
    """Return the mean negative log-likelihood of the choices and its gradient; the lowest score is chosen."""
    score, before = _score(taken, rows)
    value, sizes = -score, np.diff([*first, len(rows)])
    value -= np.repeat(np.maximum.reduceat(value, first), sizes)
    odds = np.exp(value)
    odds /= np.repeat(np.add.reduceat(odds, first), sizes)
    loss = -np.log(np.maximum(odds[first], 1e-30)).mean() + DECAY * float(taken @ taken)
    wrong = -odds
    wrong[first] += 1.0
    return float(loss), _gradient(taken, rows, before, wrong / len(first)) + 2 * DECAY * taken


def _error(taken: Floats, rows: Floats, wanted: Floats) -> tuple[float, Floats]:
    """Return the mean squared error of the scores and its gradient."""
    score, before = _score(taken, rows)
    off = score - score.mean() - wanted
    loss = float((off ** 2).mean()) + DECAY * float(taken @ taken)
    return loss, _gradient(taken, rows, before, 2 * (off - off.mean()) / len(rows)) + 2 * DECAY * taken


def _gradient(taken: Floats, rows: Floats, before: Floats, by_score: Floats) -> Floats:
    """Return the gradient of a loss by what is learned, from that by each score."""
    _, _, _, out = _parts(taken)
    inner = by_score[:, None] * out / (1.0 + np.abs(before)) ** 2
    by_hidden = np.einsum("ri,rh->ih", rows[:, :len(INPUTS)], inner)
    return np.concatenate([by_score @ rows, by_hidden.ravel(), inner.sum(axis=0),
                           by_score @ (before / (1.0 + np.abs(before)))])


def agreement(weights: Floats, chosen: Sequence[Floats]) -> float:
    """Return how often these weights' first choice is the policy's (top-1); NaN when it never had a choice."""
    hits = []
    for features in chosen:
        score, _ = _score(_taken(weights), features)
        hits.append(bool((score[1:] >= score[0] - 1e-12).all()))
    return float(np.mean(hits)) if hits else float("nan")

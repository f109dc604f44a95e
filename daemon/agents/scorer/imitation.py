"""The first step of learning: to choose as a known policy does, by a conditional logit of what it started when."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ...policies import named
from ...replay.engine import decisions
from ...replay.state import Start
from .arena import Arena
from .inputs import INPUTS
from .network import SHORT_S, SIZE, TRAITS, layer

Floats = NDArray[np.float64]

MOST_CHOICES, MOST_OTHERS = 1500, 32
DECAY = 1e-3
"""A policy that can be imitated perfectly would want endless weights."""


def initial(random: np.random.Generator, patience_s: float) -> Floats:
    """Return weights that choose the fullest node, and order by the first trait alone, which is nothing yet."""
    weights = np.zeros(SIZE)
    for name, fan_in in (("order.hidden", len(INPUTS)), ("mood.hidden", 4), ("place.hidden", 4)):
        part = layer(weights, name)
        part[:] = random.normal(0.0, 1.0 / np.sqrt(fan_in), part.shape)
    layer(weights, "order.linear")[:, 1:] = random.normal(0.0, 0.3, (len(INPUTS), TRAITS - 1))
    layer(weights, "mood.base")[0] = 1.0
    layer(weights, "place.linear")[0] = 1.0
    layer(weights, "patience")[:] = patience_s
    return weights


def choices(arena: Arena, policy: str) -> Iterator[Floats]:
    """Yield the jobs that a policy chose among, [job, feature], the chosen one first.

    They are the one that it started and those that it could have started in its stead: waiting, and no larger.
    """
    random = np.random.default_rng(0)
    for decision in decisions(arena.stretch.cluster, arena.stretch.workload, named(policy)):
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
    wait = now - arena.stretch.workload.submit[jobs]
    relative = np.minimum(8.0, wait / (wait.mean() + SHORT_S))
    return np.column_stack([arena.inputs[jobs], -np.log1p(wait / SHORT_S), -relative])


def imitate(weights: Floats, arena: Arena, policy: str) -> Floats:
    """Return weights that choose as a policy did, as well as a linear score can."""
    some = [features for _, features in zip(range(MOST_CHOICES), choices(arena, policy), strict=False)]
    found = weights.copy()
    if some:
        rows, first = np.concatenate(some), np.cumsum([0, *map(len, some)])[:-1]
        linear = minimize(_loss, np.zeros(rows.shape[1]), (rows, first), jac=True, method="L-BFGS-B",
                          options={"maxiter": 200}).x
        linear /= max(1e-9, float(np.abs(linear).max()))
        layer(found, "order.linear")[:, 0] = linear[:len(INPUTS)]
        layer(found, "mood.base")[TRAITS:] = linear[len(INPUTS):]
    return found


def _loss(linear: Floats, rows: Floats, first: NDArray[np.intp]) -> tuple[float, Floats]:
    """Return the mean negative log-likelihood of the choices and its gradient; the lowest score is chosen."""
    value = -(rows @ linear)
    sizes = np.diff([*first, len(rows)])
    value -= np.repeat(np.maximum.reduceat(value, first), sizes)
    odds = np.exp(value)
    odds /= np.repeat(np.add.reduceat(odds, first), sizes)
    wrong = odds.copy()
    wrong[first] -= 1.0
    loss = -np.log(np.maximum(odds[first], 1e-30)).mean() + DECAY * float(linear @ linear)
    return float(loss), -(wrong @ rows) / len(first) + 2 * DECAY * linear


def agreement(weights: Floats, arena: Arena, policy: str) -> float:
    """Return how often these weights' first choice is the policy's (top-1); NaN when it never had a choice."""
    linear = np.concatenate([layer(weights, "order.linear")[:, 0], layer(weights, "mood.base")[TRAITS:]])
    hits = [int((features[1:] @ linear >= features[0] @ linear - 1e-12).all())
            for _, features in zip(range(MOST_CHOICES), choices(arena, policy), strict=False)]
    return float(np.mean(hits)) if hits else float("nan")

"""One joint decision: node agents attend to each other, rate tasks, and agree on which agent takes which task.

1. Each candidate node embeds what it sees and attends to the others (two heads).
2. It rates every action: to reject, or to accept one task at one level.
3. Agents that can conflict now, or must cooperate, are joined by an edge, each with the four that it attends to most.
   Those conflict that can take the same task; the payoff of their edge is the product of two low-rank factors, less a
   penalty for both taking it. Those must cooperate that are at one leaf switch when a task takes several nodes; the
   penalty then is a reward, by what the task loses to a second switch.
4. Max-plus passes messages for a few rounds and keeps the best joint action that it came across (anytime).
5. Repair: whatever that was, each task goes to exactly one agent that can take it, as long as there is one, and a task
   of several nodes to exactly as many as it takes.

What has an agent, a task or an edge in its loops is compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...agents.maifs.graph import LEVELS, products
from ...replay.arrays import Floats, Longs
from ...replay.compiled import compiled_with_arrays
from .kernel import BEST
from .observation import NODE_WIDTH, PAIR_INPUTS

HIDDEN, HEADS, RANK = 8, 2, 4
TAKE_PART = 1 + BEST
"""Number of the action that accepts a task of several nodes."""
_ACCEPT = PAIR_INPUTS + LEVELS
"""Number of inputs of an accepting action, in addition to the agent's embedding."""
SHAPES = {"embed": (NODE_WIDTH + 1, HIDDEN), "query": (HIDDEN, HIDDEN), "key": (HIDDEN, HIDDEN),
          "value": (HIDDEN, HIDDEN), "mix": (HIDDEN, HIDDEN), "reject": (HIDDEN + 1,), "direct": (_ACCEPT,),
          "inner": (HIDDEN + _ACCEPT, HIDDEN),
          "outer": (HIDDEN,), "factor": (HIDDEN + _ACCEPT, RANK), "factor_reject": (HIDDEN, RANK)}
"""Shapes of the weights, by name."""


def embed(inputs: Floats, weights: Floats) -> Floats:
    """Return the embeddings of agents' inputs, [agent, hidden]."""
    return np.asarray(np.tanh(inputs @ weights[:-1] + weights[-1]))


def attend(inner: Floats, query: Floats, key: Floats, value: Floats, mix: Floats) -> tuple[Floats, Floats]:
    """Return the attended embeddings, and the attention [agent, other], the mean of the heads."""
    queries, keys, content = (np.reshape(inner @ part, (len(inner), HEADS, -1)).swapaxes(0, 1)
                              for part in (query, key, value))
    scores = queries @ keys.swapaxes(1, 2) / np.sqrt(HIDDEN // HEADS)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    context = (weights @ content).swapaxes(0, 1).reshape(inner.shape)
    return inner + context @ mix, weights.mean(axis=0)


class Rating(NamedTuple):
    """The weights by which an agent rates actions."""

    reject: Floats
    direct: Floats
    inner: Floats
    outer: Floats
    factor: Floats
    factor_reject: Floats


@compiled_with_arrays
def rate(inner: Floats, pair: Floats, able: Floats, weights: Rating) -> tuple[Floats, Floats]:
    """Return utilities [agent, action] and payoff factors [agent, action, rank]; -inf for what cannot be.

    Action 0 rejects; action ``1 + task * LEVELS + level`` accepts. ``able`` [agent, task, level] is above 0 if it can.
    """
    count, tasks = pair.shape[0], pair.shape[1]
    utility = np.full((count, 1 + tasks * LEVELS), -np.inf)
    factors = np.zeros((count, 1 + tasks * LEVELS, RANK))
    inputs = np.zeros(HIDDEN + _ACCEPT)
    for agent in range(count):
        inputs[:HIDDEN] = inner[agent]
        utility[agent, 0] = inner[agent] @ weights.reject[:-1] + weights.reject[-1]
        factors[agent, 0] = inner[agent] @ weights.factor_reject
        for task in range(tasks):
            for level in range(LEVELS):
                if able[agent, task, level] <= 0.0:
                    continue
                inputs[HIDDEN:HIDDEN + PAIR_INPUTS] = pair[agent, task]
                inputs[HIDDEN + PAIR_INPUTS:] = 0.0
                inputs[HIDDEN + PAIR_INPUTS + level] = 1.0
                action = 1 + task * LEVELS + level
                utility[agent, action] = inputs[HIDDEN:] @ weights.direct \
                    + np.tanh(inputs @ weights.inner) @ weights.outer
                factors[agent, action] = inputs @ weights.factor
    return utility, factors


@compiled_with_arrays
def alliances(factors: Floats, joined: Longs, reward: float) -> Floats:
    """Return payoffs of edges on which two agents gain from taking the same task together."""
    worth = products(factors, joined)
    worth[:, TAKE_PART, TAKE_PART] += reward
    return worth


@compiled_with_arrays
def price(utility: Floats, wanted: int) -> float:
    """Return the threshold of utility at which exactly a given number of agents would take part on their own."""
    gain = np.sort(utility[:, 0] - utility[:, TAKE_PART])  # the keenest first
    return float(-0.5 * (gain[wanted - 1] + gain[min(wanted, gain.size - 1)]))


@compiled_with_arrays
def muster(actions: Longs, utility: Floats, joined: Longs, payoffs: Floats, wanted: int) -> Longs:
    """Return a given number of agents for a task of several nodes: the willing ones, corrected by contributions.

    ``actions`` are the agreed actions and are changed; there must be enough agents.
    """
    while (actions > 0).sum() != wanted:
        more = (actions > 0).sum() < wanted
        best, most = -1, -np.inf
        for agent in range(actions.size):
            if (actions[agent] > 0) == more:
                continue
            adds = utility[agent, TAKE_PART] - utility[agent, 0]
            for edge in range(joined.shape[0]):
                first, second = joined[edge]
                if first == agent:
                    adds += payoffs[edge, TAKE_PART, actions[second]] - payoffs[edge, 0, actions[second]]
                elif second == agent:
                    adds += payoffs[edge, actions[first], TAKE_PART] - payoffs[edge, actions[first], 0]
            if best < 0 or (adds if more else -adds) > most:
                best, most = agent, adds if more else -adds
        actions[best] = TAKE_PART if more else 0
    return np.flatnonzero(actions > 0)

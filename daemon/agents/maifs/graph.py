"""How node agents settle which one takes which job: a coordination graph, drawn again each time, and max-plus on it.

Joined are agents that can take the same job, each with the few that it attends to most. Max-plus passes messages one by
one for some rounds and keeps the best joint action that it came across (anytime). Whatever that was, each job then goes
to exactly one node that can take it, as long as there is one. Action 0 takes none; ``1 + task * LEVELS + level`` takes
a task at a level.
"""

from __future__ import annotations

import numpy as np

from ...replay.arrays import Floats, Longs, Masks
from ...replay.compiled import compiled, compiled_with_arrays
from .levels import LEVELS as NAMED

LEVELS = len(NAMED)
NEIGHBOURS, ITERATIONS = 4, 4
CONFLICT = 20.0
"""Payoff lost when two agents take one task; utilities are of the order of 1."""


@compiled_with_arrays
def edges(attention: Floats, able: Masks | Floats, side: Longs) -> Longs:
    """Return the pairs of agents of one side that can take the same task, each with the few it attends to most.

    ``able`` is [agent, task, level], above 0 where the agent can take it.
    """
    count = attention.shape[0]
    rivals, joined = _rivals(able), np.zeros((count, count), np.bool_)
    for agent in range(count):
        asked = side != side[agent]
        asked[agent] = True
        for _ in range(NEIGHBOURS):
            best, most = agent, -1.0
            for other in range(count):
                if not asked[other] and attention[agent, other] > most and rivals[agent, other]:
                    best, most = other, attention[agent, other]
            if best != agent:
                asked[best] = joined[min(agent, best), max(agent, best)] = True
    return np.argwhere(joined).astype(np.int64)


def adjacency(attention: Floats, able: Masks) -> Masks:
    """Return the coordination graph as a matrix, [agent, other]; ``able`` is [agent, task and level]."""
    found = np.zeros(attention.shape, bool)
    one, other = edges(attention, able.reshape(len(able), -1, LEVELS), np.zeros(len(able), np.int64)).T
    found[one, other] = found[other, one] = True
    return found


@compiled_with_arrays
def _rivals(able: Masks | Floats) -> Masks:
    """Tell of each two agents whether they can take the same task."""
    count, found = able.shape[0], np.zeros((able.shape[0], able.shape[0]), np.bool_)
    for task in range(able.shape[1]):
        can = np.zeros(count, np.bool_)
        for agent in range(count):
            for level in range(able.shape[2]):
                can[agent] |= able[agent, task, level] > 0
        for agent in range(count):
            if can[agent]:
                found[agent] |= can
    return found


@compiled_with_arrays
def conflicts(factors: Floats, joined: Longs) -> Floats:
    """Return what each pair of actions is worth beside the utilities, [edge, action, other's]: two rarely want one."""
    worth = products(factors, joined)
    for task in range((factors.shape[1] - 1) // LEVELS):
        both = slice(1 + task * LEVELS, 1 + (task + 1) * LEVELS)
        worth[:, both, both] -= CONFLICT
    return worth


@compiled_with_arrays
def products(factors: Floats, joined: Longs) -> Floats:
    """Return the products of the factors of each two that are joined, [edge, action, other's]."""
    width = factors.shape[1]
    worth = np.zeros((joined.shape[0], width, width))
    for edge in range(joined.shape[0]):
        one, other = joined[edge]
        for own in range(width):
            for theirs in range(width):
                total = 0.0
                for rank in range(factors.shape[2]):
                    total += factors[one, own, rank] * factors[other, theirs, rank]
                worth[edge, own, theirs] = total
    return worth


@compiled_with_arrays
def worth_of(actions: Longs, utility: Floats, joined: Longs, payoffs: Floats) -> float:
    """Return the true worth of a joint action."""
    total = 0.0
    for agent in range(actions.size):
        total += utility[agent, actions[agent]]
    for edge in range(joined.shape[0]):
        total += payoffs[edge, actions[joined[edge, 0]], actions[joined[edge, 1]]]
    return total


@compiled_with_arrays
def settle(utility: Floats, joined: Longs, payoffs: Floats, iterations: int) -> Longs:
    """Return the best joint action that max-plus comes across; with no edges everybody's own best."""
    number, told = joined.shape[0], np.empty(utility.shape[1])
    messages = np.zeros((number, 2, utility.shape[1]))  # to the first, to the second
    believed, backwards = utility.copy(), np.ascontiguousarray(payoffs.transpose(0, 2, 1))
    best = _own_best(believed)
    most = worth_of(best, utility, joined, payoffs)
    for _ in range(iterations if number else 0):
        for edge in range(number):
            _send(believed, messages[edge], backwards[edge], joined[edge], 0, told)
            _send(believed, messages[edge], payoffs[edge], joined[edge], 1, told)
        actions = _own_best(believed)
        worth = worth_of(actions, utility, joined, payoffs)
        if worth > most:
            best, most = actions, worth
    return best


@compiled_with_arrays
def _own_best(believed: Floats) -> Longs:
    best = np.zeros(believed.shape[0], np.int64)
    for agent in range(believed.shape[0]):
        best[agent] = believed[agent].argmax()
    return best


@compiled
def _send(believed: Floats, messages: Floats, payoffs: Floats, joined: Longs, way: int, told: Floats) -> None:
    """Pass a message one way over an edge; ``believed`` is kept as utility plus all messages, ``told`` is scratch.

    ``payoffs`` are [sender's action, receiver's].
    """
    sender, receiver = joined[1 - way], joined[way]
    for other in range(told.size):
        told[other] = -np.inf
    for own in range(told.size):
        known = believed[sender, own] - messages[1 - way, own]
        if known > -np.inf:
            for other in range(told.size):
                told[other] = max(told[other], known + payoffs[own, other])
    mean = told.mean()
    for other in range(told.size):
        believed[receiver, other] += told[other] - mean - messages[way, other]
        messages[way, other] = told[other] - mean


@compiled_with_arrays
def repair(actions: Longs, utility: Floats, tasks: int) -> Longs:
    """Return the agent and level of each task, (-1, -1) only where no agent is left that can take it.

    Of several agents that took a task the one that rates it highest has it; a task that nobody took goes to the agent
    that rates it highest of those without a task. Earlier tasks go before later ones: for them room was made.
    """
    given = np.full((tasks, 2), -1)
    busy = np.zeros(actions.size, np.bool_)
    for task in range(tasks):
        for willing in (True, False):
            best, most = 0, -np.inf
            for agent in range(actions.size):
                if given[task, 0] >= 0 or busy[agent]:
                    continue
                for action in range(1 + task * LEVELS, 1 + (task + 1) * LEVELS):
                    if (action == actions[agent] or not willing) and utility[agent, action] > most:
                        best, most = agent * LEVELS + action - 1 - task * LEVELS, utility[agent, action]
            if most > -np.inf:
                given[task] = (best // LEVELS, best % LEVELS)
                busy[best // LEVELS] = True
    return given

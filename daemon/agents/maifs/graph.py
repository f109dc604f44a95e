"""Joint actions of node agents: a coordination graph, built for each decision, and max-plus on it.

Edges join agents that can take the same job, each with the few that it attends to most. Max-plus passes messages one by
one for some rounds and keeps the best joint action that it found (anytime). A repair then gives each job to exactly one
node that can take it, as long as there is one. Action 0 takes none; ``1 + task * LEVELS + level`` takes a task at a
level.
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
        excluded = side != side[agent]
        excluded[agent] = True
        for _ in range(NEIGHBOURS):
            best, most = agent, -1.0
            for other in range(count):
                if not excluded[other] and attention[agent, other] > most and rivals[agent, other]:
                    best, most = other, attention[agent, other]
            if best != agent:
                excluded[best] = joined[min(agent, best), max(agent, best)] = True
    return np.argwhere(joined).astype(np.int64)


def adjacency(attention: Floats, able: Masks) -> Masks:
    """Return the coordination graph as a matrix, [agent, other]; ``able`` is [agent, task and level]."""
    matrix = np.zeros(attention.shape, bool)
    one, other = edges(attention, able.reshape(len(able), -1, LEVELS), np.zeros(len(able), np.int64)).T
    matrix[one, other] = matrix[other, one] = True
    return matrix


@compiled_with_arrays
def _rivals(able: Masks | Floats) -> Masks:
    """Tell of each two agents whether they can take the same task."""
    count, rivals = able.shape[0], np.zeros((able.shape[0], able.shape[0]), np.bool_)
    for task in range(able.shape[1]):
        can = np.zeros(count, np.bool_)
        for agent in range(count):
            for level in range(able.shape[2]):
                can[agent] |= able[agent, task, level] > 0
        for agent in range(count):
            if can[agent]:
                rivals[agent] |= can
    return rivals


@compiled_with_arrays
def conflicts(factors: Floats, joined: Longs) -> Floats:
    """Return the payoff of each pair of actions, [edge, action, other's], with a penalty for taking the same task."""
    worth = products(factors, joined)
    for task in range((factors.shape[1] - 1) // LEVELS):
        both = slice(1 + task * LEVELS, 1 + (task + 1) * LEVELS)
        worth[:, both, both] -= CONFLICT
    return worth


@compiled_with_arrays
def products(factors: Floats, joined: Longs) -> Floats:
    """Return the products of the factors of the two agents of each edge, [edge, action, other's]."""
    width = factors.shape[1]
    worth = np.zeros((joined.shape[0], width, width))
    for edge in range(joined.shape[0]):
        one, other = joined[edge]
        for own_level in range(width):
            for other_level in range(width):
                total = 0.0
                for rank in range(factors.shape[2]):
                    total += factors[one, own_level, rank] * factors[other, other_level, rank]
                worth[edge, own_level, other_level] = total
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
    """Return the best joint action that max-plus finds; without edges each agent's own best."""
    edge_count, scratch = joined.shape[0], np.empty(utility.shape[1])
    messages = np.zeros((edge_count, 2, utility.shape[1]))  # to the first, to the second
    beliefs, backwards = utility.copy(), np.ascontiguousarray(payoffs.transpose(0, 2, 1))
    best = _greedy(beliefs)
    most = worth_of(best, utility, joined, payoffs)
    for _ in range(iterations if edge_count else 0):
        for edge in range(edge_count):
            _send(beliefs, messages[edge], backwards[edge], joined[edge], 0, scratch)
            _send(beliefs, messages[edge], payoffs[edge], joined[edge], 1, scratch)
        actions = _greedy(beliefs)
        worth = worth_of(actions, utility, joined, payoffs)
        if worth > most:
            best, most = actions, worth
    return best


@compiled_with_arrays
def _greedy(beliefs: Floats) -> Longs:
    best = np.zeros(beliefs.shape[0], np.int64)
    for agent in range(beliefs.shape[0]):
        best[agent] = beliefs[agent].argmax()
    return best


@compiled
def _send(beliefs: Floats, messages: Floats, payoffs: Floats, joined: Longs, direction: int, message: Floats) -> None:
    """Pass a message one way over an edge; ``beliefs`` stay utilities plus all messages, ``message`` is scratch.

    ``payoffs`` are [sender's action, receiver's].
    """
    sender, receiver = joined[1 - direction], joined[direction]
    for other_action in range(message.size):
        message[other_action] = -np.inf
    for action in range(message.size):
        belief = beliefs[sender, action] - messages[1 - direction, action]
        if belief > -np.inf:
            for other_action in range(message.size):
                message[other_action] = max(message[other_action], belief + payoffs[action, other_action])
    mean = message.mean()
    for other_action in range(message.size):
        beliefs[receiver, other_action] += message[other_action] - mean - messages[direction, other_action]
        messages[direction, other_action] = message[other_action] - mean


@compiled_with_arrays
def repair(actions: Longs, utility: Floats, tasks: int) -> Longs:
    """Return the agent and level of each task, (-1, -1) only where no agent is left that can take it.

    Of several agents that took a task the one that rates it highest gets it; a task that no agent took goes to the
    agent without a task that rates it highest. Earlier tasks go before later ones, as the queue orders them.
    """
    assigned = np.full((tasks, 2), -1)
    busy = np.zeros(actions.size, np.bool_)
    for task in range(tasks):
        for willing in (True, False):
            best, most = 0, -np.inf
            for agent in range(actions.size):
                if assigned[task, 0] >= 0 or busy[agent]:
                    continue
                for action in range(1 + task * LEVELS, 1 + (task + 1) * LEVELS):
                    if (action == actions[agent] or not willing) and utility[agent, action] > most:
                        best, most = agent * LEVELS + action - 1 - task * LEVELS, utility[agent, action]
            if most > -np.inf:
                assigned[task] = (best // LEVELS, best % LEVELS)
                busy[best // LEVELS] = True
    return assigned

"""How node agents settle who takes which job: a coordination graph that is drawn anew each time, and max-plus on it.

Joined are agents that can take the same job, each with the few that it attends to most. Max-plus passes messages for
some rounds and keeps the best joint action that it came across (anytime). Whatever that was, each job then goes to
exactly one node that can take it, as long as there is one.

Messages go all at once here (Böhmer et al. 2020), in numpy: the graphs are of 16 agents, and nothing has to be compiled
for them. The report's own arena passes them one by one.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .levels import LEVELS

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Masks = NDArray[np.bool_]

NEIGHBOURS, ITERATIONS = 4, 4
CONFLICT = 20.0
"""Payoff lost when two agents take one job; utilities are of the order of 1."""


def joined(attention: Floats, able: Masks) -> Masks:
    """Return [agent, agent] who is joined: who can take the same job, each with the few it attends to most."""
    count = len(able)
    can = np.asarray(able.reshape(count, -1, len(LEVELS)).any(axis=2), np.int64)
    rivals = (can @ can.T) > 0
    np.fill_diagonal(rivals, val=False)
    heeded = np.where(rivals, attention, -1.0)
    nearest = np.argsort(-heeded, axis=1, kind="stable")[:, :NEIGHBOURS]
    found = np.zeros((count, count), bool)
    found[np.arange(count)[:, None], nearest] = True
    return np.asarray((found | found.T) & rivals)


def settle(utility: Floats, factors: Floats, edges: Masks) -> Longs:
    """Return the best joint action that max-plus comes across, [agent]; 0 is to take none.

    ``utility`` is [agent, action], -inf for what cannot be; ``factors`` [agent, action, rank].
    """
    best: Longs = np.asarray(utility.argmax(axis=1), np.int64)
    sender, receiver = np.nonzero(edges)
    if not len(sender):
        return best
    payoffs = np.einsum("eir,ejr->eij", factors[sender], factors[receiver]) - CONFLICT * _rivals(utility.shape[1])
    back = np.searchsorted(sender * len(utility) + receiver, receiver * len(utility) + sender)
    told, believed = np.zeros((len(sender), utility.shape[1])), utility
    most = _worth(best, utility, payoffs, sender, receiver)
    for _ in range(ITERATIONS):
        known = believed[sender] - told[back]
        told = (known[:, :, None] + payoffs).max(axis=1)
        told -= told.mean(axis=1, keepdims=True)
        believed = _sum(utility, told, receiver)
        actions = np.asarray(believed.argmax(axis=1), np.int64)
        worth = _worth(actions, utility, payoffs, sender, receiver)
        if worth > most:
            best, most = actions, worth
    return best


def _sum(utility: Floats, told: Floats, receiver: NDArray[np.intp]) -> Floats:
    believed = np.array(utility)
    np.add.at(believed, receiver, told)
    return believed


@cache
def _rivals(actions: int) -> Floats:
    """Return [action, other's] 1 where both take the same job."""
    job = (np.arange(actions) - 1) // len(LEVELS)
    return np.asarray((job[:, None] == job) & (job >= 0), np.float64)


def _worth(actions: NDArray[np.intp], utility: Floats, payoffs: Floats, sender: NDArray[np.intp],
           receiver: NDArray[np.intp]) -> float:
    """Return the true worth of a joint action; each edge is there both ways."""
    own = float(utility[np.arange(len(actions)), actions].sum())
    return own + 0.5 * float(payoffs[np.arange(len(sender)), actions[sender], actions[receiver]].sum())


def repaired(actions: Longs, utility: Floats, tasks: int) -> Longs:
    """Return a joint action that gives each job to exactly one agent, to none only where none is left that can.

    Of several that took a job the one that rates it highest has it; one that nobody took goes to whoever rates it
    highest among those without one. Earlier jobs go before later ones.
    """
    given, free = np.zeros_like(actions), np.ones(len(actions), bool)
    for task in range(tasks):
        within = slice(1 + task * len(LEVELS), 1 + (task + 1) * len(LEVELS))
        chosen = (actions >= within.start) & (actions < within.stop)
        own = np.where(chosen & free, utility[np.arange(len(actions)), actions], -np.inf)
        if own.max() > -np.inf:
            agent, action = int(own.argmax()), int(actions[own.argmax()])
        else:
            rated = np.where(free[:, None], utility[:, within], -np.inf)
            agent, level = divmod(int(rated.argmax()), len(LEVELS))
            if rated[agent, level] == -np.inf:
                continue
            action = within.start + level
        given[agent], free[agent] = action, False
    return given

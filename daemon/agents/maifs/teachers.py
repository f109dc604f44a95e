"""Heuristics that allocate nodes, CPUs and memory, which the agent imitates first; foremost Synergy-tune."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...replay.arrays import Longs
from .levels import AMPLE, LEAN, LEVELS, REQUESTED
from .node_inputs import LEFTOVER
from .scheduling_round import Decide, Joint

ORDERS = {"fifo": np.array([0.0, 0.0, -1.0]), "sjf": np.array([1.0, 0.0, 0.0]),
          "smallest-area": np.array([1.0, 1.0, 0.0])}
"""Orders of the queue, as weights of ``network.ORDER``; the lowest goes first."""


def best_fit(joint: Joint, levels: Sequence[int]) -> Longs:
    """Give each job in turn the first of these levels that it finds room at, on the node with the fewest free GPUs."""
    actions = np.zeros(len(joint.able), np.int64)
    for task in range(joint.tasks):
        for level in levels:
            action = task * len(LEVELS) + level
            able = joint.able[:, action] & (actions == 0)
            if able.any():
                actions[int(np.where(able, joint.actions[:, action, LEFTOVER], np.inf).argmin())] = 1 + action
                break
    return actions


def tune(joint: Joint) -> Longs:
    """Give all that it can use, else what it requested, else less (Synergy-tune, Mohan et al. 2022)."""
    return best_fit(joint, (AMPLE, REQUESTED, LEAN))


def as_requested(joint: Joint) -> Longs:
    """Give what it requested; only where that has no room, what it uses."""
    return best_fit(joint, (REQUESTED, AMPLE, LEAN))


def lean(joint: Joint) -> Longs:
    """Give as little as lets it start."""
    return best_fit(joint, (LEAN, AMPLE, REQUESTED))


TEACHERS: dict[str, Decide] = {"synergy-tune": tune, "as asked": as_requested, "lean": lean}

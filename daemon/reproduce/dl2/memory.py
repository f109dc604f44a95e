"""Prioritised replay memory (Schaul et al. 2016): surprising decisions are drawn more often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...replay.arrays import Floats, Longs, Masks, Singles
from .network import NetworkSize

SHARPNESS, HIGHEST = 0.9, 4.0
"""Exponent that converts an error into a priority, and the largest priority."""


class DecisionBatch(NamedTuple):
    """A batch of decisions as columns, [decision, ...]."""

    state: Singles
    allowed: Masks
    action: Longs
    chance: Singles
    """Probability of the action under the policy that acted."""
    reward: Singles
    """Reward of the whole slot."""
    following: Singles
    """First state of the next slot."""
    further: Singles
    """1 while the episode goes on, 0 where there is no next slot."""


def columns(shape: NetworkSize, rows: int) -> DecisionBatch:
    """Return the zero-filled columns of a batch of decisions."""
    return DecisionBatch(np.zeros((rows, shape.inputs), np.float32), np.zeros((rows, shape.actions), np.bool_),
                         np.zeros(rows, np.int64), np.zeros(rows, np.float32), np.zeros(rows, np.float32),
                         np.zeros((rows, shape.inputs), np.float32), np.zeros(rows, np.float32))


class DecisionMemory:
    """Memory of the latest decisions; new decisions replace the oldest."""

    def __init__(self, shape: NetworkSize, capacity: int) -> None:
        self._columns = columns(shape, capacity)
        self._priority = np.zeros(capacity)
        self._added = 0

    def __len__(self) -> int:
        """Return the number of stored decisions."""
        return min(self._added, len(self._priority))

    def add(self, batch: DecisionBatch, priority: float) -> None:
        """Store the decisions of a slot."""
        rows = (self._added + np.arange(len(batch.action))) % len(self._priority)
        for name, column in self._columns._asdict().items():
            column[rows] = getattr(batch, name)
        self._priority[rows] = priority
        self._added += len(rows)

    def sample(self, size: int, correction: float, random: np.random.Generator) -> tuple[Longs, DecisionBatch, Singles]:
        """Return rows drawn by priority, their decisions, and their weights (at most 1); ``correction`` is beta."""
        likely = self._priority[:len(self)] / self._priority[:len(self)].sum()
        rows = np.searchsorted(np.cumsum(likely), random.random(size) * (1.0 - 1e-12)).astype(np.int64)
        rows = np.minimum(rows, len(self) - 1)
        weights = (len(self) * likely[rows]) ** -correction
        state, allowed, action, chance, reward, following, further = self._columns
        drawn = DecisionBatch(state[rows], allowed[rows], action[rows], chance[rows], reward[rows], following[rows],
                              further[rows])
        return rows, drawn, (weights / weights.max()).astype(np.float32)

    def learned(self, rows: Longs, errors: Floats) -> None:
        """Update the priorities of rows by the errors of their values."""
        self._priority[rows] = np.minimum(np.abs(errors) ** SHARPNESS, HIGHEST) + 1e-6

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return all arrays that are needed to continue later."""
        columns = {name: column[:len(self)] for name, column in self._columns._asdict().items()}
        return columns | {"priority": self._priority[:len(self)], "added": np.array([self._added])}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore the arrays that :meth:`state` returned."""
        self._added = int(state["added"][0])
        for name, column in {**self._columns._asdict(), "priority": self._priority}.items():
            column[:len(self)] = state[name]

"""Replay memory of the latest transitions, sampled uniformly, and the n-step returns that fill it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


class Transition(NamedTuple):
    """What followed an action, as the Bellman equation needs it."""

    state: Floats
    action: int
    reward: float
    """Summed and discounted over the steps taken."""
    discount: float
    """The discount of the next state's value; 0 when the episode is over."""
    next_state: Floats
    next_allowed: NDArray[np.bool_]
    """The actions that are open in the next state."""


class TransitionBatch(NamedTuple):
    """Transitions as columns, [batch, ...]."""

    state: Floats
    action: NDArray[np.int64]
    reward: Floats
    discount: Floats
    next_state: Floats
    next_allowed: NDArray[np.bool_]


class ReplayMemory:
    """The latest ``capacity`` transitions; new ones replace the oldest."""

    def __init__(self, capacity: int, inputs: int, actions: int) -> None:
        self._columns = TransitionBatch(
            np.zeros((capacity, inputs), np.float32), np.zeros(capacity, np.int64), np.zeros(capacity, np.float32),
            np.zeros(capacity, np.float32), np.zeros((capacity, inputs), np.float32),
            np.zeros((capacity, actions), np.bool_))
        self._added = 0

    def __len__(self) -> int:
        """Return how many transitions are held."""
        return min(self._added, len(self._columns.action))

    def add(self, transition: Transition) -> None:
        """Keep a transition."""
        row = self._added % len(self._columns.action)
        state, action, reward, discount, next_state, next_allowed = self._columns
        state[row], action[row], reward[row] = transition.state, transition.action, transition.reward
        discount[row], next_state[row] = transition.discount, transition.next_state
        next_allowed[row] = transition.next_allowed
        self._added += 1

    def sample(self, size: int, random: np.random.Generator) -> TransitionBatch:
        """Return ``size`` transitions, drawn with replacement; ValueError from an empty memory."""
        rows = random.integers(0, len(self), size)
        state, action, reward, discount, next_state, next_allowed = self._columns
        return TransitionBatch(state[rows], action[rows], reward[rows], discount[rows], next_state[rows],
                               next_allowed[rows])

    def state(self) -> Arrays:
        """Return the arrays from which :meth:`restore` continues."""
        stored = {name: column[:len(self)] for name, column in self._columns._asdict().items()}
        return stored | {"added": np.array([self._added])}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over what :meth:`state` returned."""
        self._added = int(state["added"][0])
        for name, column in self._columns._asdict().items():
            column[:len(self)] = state[name]


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of an episode: its state, action and immediate reward."""

    state: Floats
    allowed: NDArray[np.bool_]
    action: int
    reward: float


class Returns:
    """Turns the steps of an episode into transitions over ``steps`` of them."""

    def __init__(self, steps: int, discount: float) -> None:
        self._steps, self._discount = steps, discount
        self._open: deque[Step] = deque()

    def add(self, step: Step) -> Iterator[Transition]:
        """Yield the transition that this step completes, if any."""
        if len(self._open) == self._steps:
            yield self._transition(self._discount ** self._steps, step)
            self._open.popleft()
        self._open.append(step)

    def end(self) -> Iterator[Transition]:
        """Yield the remaining transitions at the end of an episode."""
        while self._open:
            yield self._transition(0.0, self._open[0])
            self._open.popleft()

    def _transition(self, discount: float, following: Step) -> Transition:
        first = self._open[0]
        reward = sum(self._discount ** index * step.reward for index, step in enumerate(self._open))
        return Transition(first.state, first.action, reward, discount, following.state, following.allowed)

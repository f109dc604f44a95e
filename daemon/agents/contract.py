"""What every agent can do; the daemon, the trainer and the reports know no more of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

from ...storage.records import ModelCard

Situation = TypeVar("Situation", contravariant=True)
"""What an agent is shown when it is asked."""
Experience = TypeVar("Experience", contravariant=True)
"""What it learns from."""


class Agent(ABC, Generic[Situation, Experience]):
    """A policy whose choice is learned. It acts without torch; whoever trains it hands it a learner."""

    @abstractmethod
    def act(self, situation: Situation, exploration: float = 0.0) -> int:
        """Return the number of the chosen action; with probability ``exploration`` a random one."""

    @abstractmethod
    def learn(self, experience: Experience) -> None:
        """Take in one experience; RuntimeError when the agent was loaded to serve, not to learn."""

    @abstractmethod
    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""

    @abstractmethod
    def load(self, folder: Path) -> ModelCard:
        """Take over saved weights; ``CheckpointError`` when they are not whole or not for this agent."""

    @property
    @abstractmethod
    def statistics(self) -> Mapping[str, float]:
        """Return the figures of the latest learning step, by name."""

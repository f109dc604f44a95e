"""DL2's own agent (Peng et al., arXiv 1909.06040): a flat network that sees a window of jobs, 3J + 1 actions.

If the paper and its published code differ or are silent, the choice is made here or in ``Ablations``. The agent is no
``Kind``: it can be active at no site, whose jobs have a fixed number of GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ....storage.records import ModelCard
from ...agents import checkpoint
from ...replay.arrays import Floats, Longs
from .flat_kernel import Trail, by_window
from .kernel import ArenaCluster, ArrivedJobs
from .network import NetworkSize, Weights, compiled_form, desk, initial


@dataclass(frozen=True, slots=True)
class Ablations:
    """Parts of the paper's method that are used; its Table 2 leaves out one part at a time."""

    warm_up: bool = True
    """The teacher is imitated first (§4.2)."""
    critic: bool = True
    """Advantages come from a value network; else from a moving average of rewards."""
    aware: bool = True
    """Exploration is job-aware (§4.3)."""
    replay: bool = True
    """Updates sample past slots; otherwise they use only the latest slot."""
    discount: float = 0.9
    """Discount of the next slot's value, as in the paper. The published code uses only the slot's own reward."""


PAPER = Ablations()
LIKELIEST = (-1.0, 1.0, 0.0, 0.0)
"""Draws that select the most likely action without exploration."""


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """Hyper-parameters of the paper and its code, except network sizes (``NetworkSize``) and those marked as ours."""

    shape: NetworkSize = NetworkSize()
    imitated: int = 16
    """Number of the teacher's traces for imitation (ours)."""
    imitation_rate: float = 5e-3
    """Adam's learning rate for imitation; it falls to 0 (ours: the code's rate is constant)."""
    imitation_updates: int = 3000
    rate: float = 1e-4
    critic_rate: float = 1e-3
    """Learning rate of the value network (ours): values are large, and the policy's rate would reach them slowly."""
    batch: int = 256
    memory: int = 8192
    entropy: float = 0.1
    exploration: float = 0.4
    clip: float = 0.2
    """Clip of the probability ratio to the acting policy (PPO; ours). The code uses old probabilities for new ones."""


PUBLISHED = PaperSettings()


@dataclass
class FlatAgent:
    """DL2's trained agent as a policy of the simulator; it acts without torch."""

    weights: Weights
    shape: NetworkSize
    draw: Callable[[tuple[int, int]], Floats] | None = None
    """Source of uniform numbers for sampling; with None the agent takes the most likely action."""
    exploration: float = 0.0
    """Probability of job-aware exploration."""
    trail: Trail | None = None
    """Record of decisions; None records nothing."""
    decisions: int = 0
    """Number of decisions so far."""

    @classmethod
    def fresh(cls, shape: NetworkSize, seed: int) -> FlatAgent:
        """Return an untrained agent with initial weights."""
        return cls(initial(shape, shape.actions, np.random.default_rng(seed)), shape)

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give tasks one by one; actions without room are masked before the softmax, not renormalised after it."""
        size = 2 * cluster.most * len(jobs.model) + 1, 4
        draws = np.broadcast_to(LIKELIEST, size).copy() if self.draw is None else self.draw(size)
        decisions = trail(self.shape, 0) if self.trail is None else self.trail
        self.decisions += int(by_window(cluster, jobs, used, compiled_form(self.weights), desk(self.shape), draws,
                                        self.exploration, decisions))

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""
        return checkpoint.save(folder, card, self.weights, schema(self.shape))


def schema(shape: NetworkSize) -> dict[str, object]:
    """Return the schema that weights must have been trained with."""
    return {"agent": "dl2", **asdict(shape), "inputs": ["model", "stay", "left", "share", "workers", "servers"],
            "actions": ["worker", "server", "bundle", "end"]}


def trail(shape: NetworkSize, rows: int) -> Trail:
    """Return an empty record for so many decisions."""
    return Trail(np.empty((rows, shape.inputs), np.float32), np.empty((rows, shape.actions), np.bool_),
                 np.empty(rows, np.int64), np.empty(rows), np.zeros(1, np.int64))

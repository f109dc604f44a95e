"""DL2's own agent (Peng et al., arXiv 1909.06040): a flat network that sees a window of jobs, 3J + 1 actions.

Where the paper and its published code differ, or say nothing, the choice stands here or in ``Ablations``. It is no
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
    """What of the paper is done; its Table 2 leaves out one after the other."""

    warm_up: bool = True
    """The teacher is imitated first (§4.2)."""
    critic: bool = True
    """Advantages come from a value network; else from a moving average of rewards."""
    aware: bool = True
    """Exploration knows what jobs are (§4.3)."""
    replay: bool = True
    """Updates draw on past slots; else on the latest only."""
    discount: float = 0.9
    """Of the next slot's value, as in the paper. The published code has none: its target is the slot's own reward."""


PAPER = Ablations()
LIKELIEST = (-1.0, 1.0, 0.0, 0.0)
"""Draws that take the likeliest action and explore nothing."""


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """Those of the paper and its code, but for the sizes of the networks (``NetworkSize``) and what is marked ours."""

    shape: NetworkSize = NetworkSize()
    imitated: int = 16
    """Traces of the teacher to learn from (ours)."""
    imitation_rate: float = 5e-3
    """Of Adam; it falls to 0 (ours: the code's stays)."""
    imitation_updates: int = 3000
    rate: float = 1e-4
    critic_rate: float = 1e-3
    """Ours: values of many slots ahead are large, and slow to reach at the policy's rate."""
    batch: int = 256
    memory: int = 8192
    entropy: float = 0.1
    exploration: float = 0.4
    clip: float = 0.2
    """Of the ratio of the policy to the one that acted (PPO; ours). The code takes the old chances for the new ones."""


PUBLISHED = PaperSettings()


@dataclass
class FlatAgent:
    """A policy of the arena whose choice is learned; it acts without torch."""

    weights: Weights
    shape: NetworkSize
    draw: Callable[[tuple[int, int]], Floats] | None = None
    """Uniform numbers, for an agent that samples; without, it takes the likeliest action."""
    exploration: float = 0.0
    """Chance that job-aware exploration is heard."""
    trail: Trail | None = None
    """Where decisions are written down."""
    decisions: int = 0
    """Taken so far."""

    @classmethod
    def fresh(cls, shape: NetworkSize, seed: int) -> FlatAgent:
        """Return one that knows nothing."""
        return cls(initial(shape, shape.actions, np.random.default_rng(seed)), shape)

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give tasks one by one; masked by the room on nodes before the softmax, not renormalised after."""
        size = 2 * cluster.most * len(jobs.model) + 1, 4
        draws = np.broadcast_to(LIKELIEST, size).copy() if self.draw is None else self.draw(size)
        decisions = trail(self.shape, 0) if self.trail is None else self.trail
        self.decisions += int(by_window(cluster, jobs, used, compiled_form(self.weights), desk(self.shape), draws,
                                        self.exploration, decisions))

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""
        return checkpoint.save(folder, card, self.weights, schema(self.shape))


def schema(shape: NetworkSize) -> dict[str, object]:
    """Return what weights must have been trained for to fit here."""
    return {"agent": "dl2", **asdict(shape), "inputs": ["model", "stay", "left", "share", "workers", "servers"],
            "actions": ["worker", "server", "bundle", "end"]}


def trail(shape: NetworkSize, rows: int) -> Trail:
    """Return room to write down so many decisions."""
    return Trail(np.empty((rows, shape.inputs), np.float32), np.empty((rows, shape.actions), np.bool_),
                 np.empty(rows, np.int64), np.empty(rows), np.zeros(1, np.int64))

"""DL2's agent (Peng et al., arXiv 1909.06040) on fungible jobs: one flat network that sees a window of them.

What is DL2's: the flat network, the window by submission, an inference for each thing given, 3W + 1 actions of which
those without room are masked, imitation first and actor-critic then. What had to be translated, as the GPUs of these
jobs are fixed: a bundle starts a job, with its GPUs and the lean share of CPUs and memory; a worker is the next grant
of CPUs that is worth having, a parameter server that of memory, and another bundle one of both, as some models gain
from neither alone. All is given anew in every round; where jobs sit is left to the arena.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ....storage.records import ModelCard
from ...agents import checkpoint
from ...replay.arrays import Floats
from ..dl2 import network
from ..dl2.agent import LIKELIEST, Hyperparameters, trail
from ..dl2.flat_kernel import Trail
from ..dl2.network import Weights, compiled_form, desk, initial
from . import kernel
from .arena import Round
from .dl2_kernel import PER_JOB, Slot, by_window

NAME = "DL2 agent"
"""In the report."""


@dataclass(frozen=True, slots=True)
class Shape(network.Shape):
    """The size of the networks for these jobs."""

    window: int = 48
    """DL2 has 20 to 40; from 48 to 96 makes no difference here."""

    @property
    def inputs(self) -> int:
        """Return the numbers in a state."""
        return self.window * PER_JOB


USUAL = Hyperparameters(shape=Shape(), imitated=32, imitation_updates=4000, rate=1e-5, entropy=1e-3)
"""DL2's own, but that its rate (1e-4) and entropy (0.1) make what was imitated worse here."""


@dataclass
class Dl2:
    """A policy of the arena whose choice is learned; it acts without torch."""

    weights: Weights
    shape: network.Shape
    draw: Callable[[tuple[int, int]], Floats] | None = None
    """Uniform numbers, for an agent that samples; without, it takes the likeliest action."""
    exploration: float = 0.0
    """Chance that job-aware exploration is heard."""
    trail: Trail | None = None
    """Where decisions are written down."""
    decisions: int = 0
    """Taken so far."""

    @classmethod
    def fresh(cls, shape: network.Shape, seed: int) -> Dl2:
        """Return one that knows nothing."""
        return cls(initial(shape, shape.actions, np.random.default_rng(seed)), shape)

    def decide(self, round: Round) -> None:
        """Start jobs one by one, seat them, then give CPUs and memory one by one."""
        site, jobs, nodes = round.site, round.jobs, round.nodes
        draws = np.array([LIKELIEST]) if self.draw is None else self.draw((most_decisions(round), 4))
        told = trail(self.shape, 0) if self.trail is None else self.trail
        self.decisions += int(by_window(site, jobs, nodes, round.live, round.now, slot(round),
                                        compiled_form(self.weights), desk(self.shape),
                                        np.empty(self.shape.actions, np.float32), draws, self.exploration, told))
        kernel.paces(site, jobs, nodes, round.live)

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""
        return checkpoint.save(folder, card, self.weights, schema(self.shape))

    @classmethod
    def load(cls, folder: Path, shape: network.Shape) -> Dl2:
        """Return a saved agent; ``CheckpointError`` when its weights are not whole or not for this window."""
        weights, _ = checkpoint.load(folder, schema(shape), like=cls.fresh(shape, 0).weights)
        return cls(weights, shape)


def most_decisions(round: Round) -> int:
    """Return a bound of a round's decisions: everybody starts, and every CPU and unit of memory is given by itself."""
    return len(round.live) + 2 * round.site.shares * round.site.nodes + 2


def slot(round: Round) -> Slot:
    """Return room for what is decided in a round."""
    count = len(round.jobs.gpus)
    return Slot(np.zeros(count, np.bool_), np.zeros(1, np.int64), np.empty((1 + round.site.size) * count, np.int64))


def schema(shape: network.Shape) -> dict[str, object]:
    """Return what weights must have been trained for to fit here."""
    return {"agent": "dl2-fungible", **asdict(shape), "actions": ["worker", "server", "bundle", "end"],
            "inputs": ["model", "gpus", "stay", "left", "share", "cpus", "memory"]}

"""The size-free agent for elastic jobs: at every slot it gives out tasks one by one, by what each is worth.

It is tried in DL2's arena. It is no ``Kind``: it can be put in charge of no site, whose jobs have a fixed number of
GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .....storage.records import ModelCard
from ....agents import checkpoint
from ....replay.arrays import Floats, Longs
from ..kernel import ArenaCluster, ArrivedJobs
from . import network
from .kernel import HIDDEN, INPUTS

SCHEMA = {"inputs": list(INPUTS), "hidden": HIDDEN, "actions": ["server", "worker", "bundle"]}
CHANGED, SPREAD = 2.0, 2.0
"""Jobs whose favour a plan changes, on average, and by how much."""


@dataclass
class SizeFree:
    """A policy of the arena whose choice is learned; it needs no torch."""

    weights: Floats = field(default_factory=lambda: network.initial(0))
    plans: int = 0
    """To try in each slot, all by what is here now; 0 takes the scorer at its word."""
    decisions: int = 0
    """Taken so far, those in plans included."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give jobs their tasks, highest score first; masked by the room on nodes, not renormalised after."""
        self.decisions += network.fill(self.weights, cluster, jobs, used, self._changes(jobs) if self.plans else None)

    def _changes(self, jobs: ArrivedJobs) -> Floats:
        """Draw favours to try, [plan, job, what]: the same for the same situation. The first are the scorer's own."""
        count = len(jobs.model)
        draw = np.random.default_rng([count, int(jobs.stay.sum())])
        changed = draw.random((self.plans, count, 1)) < CHANGED / max(count, 1)
        changed[0] = False
        return np.where(changed, SPREAD * draw.standard_normal((self.plans, count, 3)), 0.0)

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""
        return checkpoint.save(folder, card, {"scorer": self.weights}, SCHEMA)

    @classmethod
    def load(cls, folder: Path) -> SizeFree:
        """Return a saved agent; ``CheckpointError`` when its weights are not whole or not for this agent."""
        weights, _ = checkpoint.load(folder, SCHEMA, like={"scorer": network.initial(0)})
        return cls(weights["scorer"].astype(float))

"""The size-free agent for elastic jobs: at every slot it gives out tasks one by one, by what each is worth.

It is tried in DL2's arena. There is no ``agent.py`` here, for it is no ``Kind``: it can be put in charge of no site,
whose jobs have a fixed number of GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ....storage.records import ModelCard
from ...replay.arrays import Floats, Longs
from .. import checkpoint
from . import network
from .kernel import HIDDEN, INPUTS, Cluster, Jobs

SCHEMA = {"inputs": list(INPUTS), "hidden": HIDDEN, "actions": ["server", "worker", "bundle"]}


@dataclass
class Dl2:
    """A policy of the arena whose choice is learned; it needs no torch."""

    weights: Floats = field(default_factory=lambda: network.initial(0))
    decisions: int = 0
    """Taken so far."""

    def fill(self, cluster: Cluster, jobs: Jobs, used: Longs) -> None:
        """Give jobs their tasks, highest score first; masked by the room on nodes, not renormalised after."""
        self.decisions += network.fill(self.weights, cluster, jobs, used)

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""
        return checkpoint.save(folder, card, {"scorer": self.weights}, SCHEMA)

    @classmethod
    def load(cls, folder: Path) -> Dl2:
        """Return a saved agent; ``CheckpointError`` when its weights are not whole or not for this agent."""
        weights, _ = checkpoint.load(folder, SCHEMA, like={"scorer": network.initial(0)})
        return cls(weights["scorer"].astype(float))

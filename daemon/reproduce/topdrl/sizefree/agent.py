"""The size-invariant agent: it picks the next job, or waits, on clusters and queues of any size.

It is no ``Kind``: it needs the slowdown of each job on GPUs that are far apart, and no site's history
contains it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .....storage.records import ModelCard
from ....agents import checkpoint
from ....replay.arrays import Floats
from ..arena import ArenaEpisode
from ..kernel import EpisodeJobs
from . import kernel, network

SCHEMA = {"inputs": list(kernel.INPUTS), "rooms": kernel.ROOMS, "units": kernel.UNITS, "hidden": kernel.HIDDEN,
          "actions": ["rank", "gate"]}


@dataclass
class SizeFree:
    """The size-invariant agent as a policy of the benchmark; it needs no torch."""

    weights: Floats = field(default_factory=lambda: network.initial(0))
    decisions: int = 0
    """Number of decisions so far."""

    def replay(self, episode: ArenaEpisode) -> EpisodeJobs:
        """Run an episode to its end; return its jobs with their times."""
        jobs, cluster = episode.begin()
        self.decisions += kernel.replay(episode.site, jobs, cluster, self.weights)
        return jobs

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""
        return checkpoint.save(folder, card, {"scorer": self.weights}, SCHEMA)

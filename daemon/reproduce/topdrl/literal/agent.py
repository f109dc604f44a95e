"""The agent as published: it picks one of the first jobs of the queue, or waits, on one size of cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .....storage.records import ModelCard
from ....agents import checkpoint
from ..arena import ArenaEpisode
from ..kernel import FREE, QUEUED, RUNNING, EpisodeJobs, advance
from . import kernel, network
from .kernel import PAINTS, QUEUE, ROWS, SUMMARY
from .network import ACTIONS, GPUS, NODES, PER_LEAF, PER_NODE

SCHEMA = {"canvas": [list(PAINTS), NODES, PER_NODE, PER_LEAF], "queue": [list(QUEUE), ROWS], "summary": list(SUMMARY),
          "actions": ACTIONS}
WAIT = ROWS
WAITING_COSTS = 2.0
"""Cost of an hour of waiting in the reward, in hours of running at the best speed."""


class NetworkInput(NamedTuple):
    """Inputs of the network, and the open actions."""

    canvas: NDArray[np.float32]
    """[node, paint x GPU]."""
    queue: NDArray[np.float32]
    """[row, input]."""
    summary: NDArray[np.float32]
    open: NDArray[np.bool_]


class ActionEpisode:
    """An episode that is run action by action."""

    def __init__(self, episode: ArenaEpisode) -> None:
        if (episode.gpus, episode.site.per_leaf) != (GPUS, PER_LEAF):
            raise ValueError(f"this network knows {GPUS} GPUs with {PER_LEAF} nodes on a leaf, and no other cluster")
        self.site = episode.site
        self.jobs, self.cluster = episode.begin()
        self.over = not advance(self.site, self.jobs, self.cluster)
        self._canvas = np.zeros((len(PAINTS), NODES, PER_NODE))
        self._queue, self._summary = np.zeros((ROWS, len(QUEUE))), np.zeros(len(SUMMARY))

    def view(self) -> NetworkInput:
        """Return the present inputs of the network."""
        kernel.observe(self.site, self.jobs, self.cluster, self._canvas, self._queue, self._summary)
        allowed = np.append(self._queue[:, QUEUE.index("fits")] > 0, True)
        allowed[WAIT] = self.cluster.counts[RUNNING] > 0  # on an empty cluster any job fits
        return NetworkInput(self._canvas.transpose(1, 0, 2).reshape(NODES, -1).astype(np.float32),
                            self._queue.astype(np.float32), self._summary.astype(np.float32), allowed)

    def act(self, action: int) -> None:
        """Start a job, or wait for the next moment at which one could start."""
        if action != WAIT:
            kernel.begin(self.site, self.jobs, self.cluster, action)
        if action == WAIT or not self._anybody():
            self.over = not advance(self.site, self.jobs, self.cluster)

    def _anybody(self) -> bool:
        waiting = self.cluster.queue[:min(self.cluster.counts[QUEUED], ROWS)]
        return bool((self.jobs.gpus[waiting] <= self.cluster.counts[FREE]).any())


@dataclass
class Literal:
    """The published agent as a policy of the benchmark; it needs no torch."""

    weights: network.Weights = field(default_factory=lambda: network.initial(0))

    def act(self, view: NetworkInput) -> int:
        """Return the open action with the highest rating."""
        jobs, wait, _ = network.forward(self.weights, view.canvas[None], view.queue[None], view.summary[None])
        return int(np.where(view.open, np.append(jobs[0], wait[0]), -np.inf).argmax())

    def replay(self, episode: ArenaEpisode) -> EpisodeJobs:
        """Run an episode to its end; return its jobs with their times. ValueError for a cluster of another shape."""
        return play(episode, self.act)

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""
        return checkpoint.save(folder, card, self.weights, SCHEMA)

    @classmethod
    def load(cls, folder: Path) -> Literal:
        """Return a saved agent; ``CheckpointError`` if its weights are damaged or belong to another agent."""
        return cls(checkpoint.load(folder, SCHEMA, like=network.initial(0))[0])


def play(episode: ArenaEpisode, choose: Callable[[NetworkInput], int]) -> EpisodeJobs:
    """Run an episode to its end with a choice for each input."""
    table = ActionEpisode(episode)
    while not table.over:
        table.act(choose(table.view()))
    return table.jobs

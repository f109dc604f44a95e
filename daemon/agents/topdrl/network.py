"""What TopDRL is shown of each waiting job, and of letting none of them go; the network that rates it knows no sizes.

The paper's branches (cluster, queue, backlog) are columns here: shares and logarithms, the same on any site.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..choice import Net
from ..observation import Observation, of_application
from ..room import NODE, Room, Spot

Floats = NDArray[np.float64]

INPUTS = ("run", "GPUs", "several nodes", "slower now", "slower apart", "waited", "waited over run",
          "waited beside others", "limit over run", "fits", "waiting pays", "soon", "fills a node", "opens a node",
          "is waiting", "free", "empty nodes", "freest leaf", "jobs", "work", "split")
"""Of a job: run time as guessed, GPUs, by how much it runs slower on the nearest free ones, and far apart; its wait,
also relative to its run and to others' waits; whether it fits; what it gains if it waits until its GPUs are free
together, and when that is; whether it takes all that is left of a node, or part of an empty one. Of letting none go: a
1, else zeros. Of all: free share, empty nodes, the freest leaf, jobs and work in the queue, jobs that would be slower
now."""
NET = Net(len(INPUTS))
SLOWER, FITS, IDLE, SPLIT = (INPUTS.index(name) for name in ("slower now", "fits", "is waiting", "split"))
OF_JOB = INPUTS.index("is waiting")
"""Inputs before this one are those of a job."""
HOUR_S, SHORT_S = 3600.0, 60.0


class Candidates:
    """The waiting jobs that are looked at, by index among all waiting ones, as rows of inputs while jobs are placed."""

    def __init__(self, seen: Observation, room: Room, jobs: NDArray[np.intp]) -> None:
        self._seen, self._room, self.jobs = seen, room, jobs
        spread = of_application(seen.known.spread, seen.waiting.application[jobs])
        closest = np.array([room.best_level(kind) for kind in range(len(room.kinds))], np.intp)[room.kind]
        self._spread, self._rows = spread, np.arange(len(jobs))
        self._best = spread[self._rows, closest]
        self._fixed = self._asked(jobs)

    def rows(self, spots: list[Spot | None]) -> Floats:
        """Return the inputs of each job with the spot that it could start on, the last row being to let none go."""
        found = np.zeros((len(self.jobs) + 1, len(INPUTS)))
        found[:-1, :OF_JOB] = self._fixed[:, :OF_JOB]
        at = [row for row, spot in enumerate(spots) if spot is not None]
        some = [spot for spot in spots if spot is not None]
        found[at, FITS] = 1.0
        speed = self._spread[at, [spot.level for spot in some]] / self._best[at] if at else np.zeros(0)
        found[at, SLOWER] = -np.log(speed)
        found[at, 12] = [spot.leftover == 0 for spot in some]
        found[at, 13] = [spot.opens for spot in some]
        for row, now in zip(at, speed.tolist(), strict=True):
            if now < 1.0:
                found[row, 10:12] = self._pays(row, now)
        found[-1, IDLE] = 1.0
        found[:, SPLIT] = 0.5 * np.log1p(np.count_nonzero(speed < 0.9))
        found[:, IDLE + 1:SPLIT] = self._surroundings()
        return found

    def _asked(self, jobs: NDArray[np.intp]) -> Floats:
        """Return what does not change while jobs are placed."""
        waiting, now = self._seen.waiting, self._seen.now
        run, wait = waiting.guess[jobs], np.maximum(0.0, now - waiting.submit[jobs])
        found = np.zeros((len(jobs), len(INPUTS)))
        found[:, 0] = 0.5 * np.log((run + SHORT_S) / HOUR_S)
        found[:, 1] = np.log2(np.maximum(1, waiting.gpus[jobs])) / 3
        found[:, 2] = waiting.asks[jobs, 4] + waiting.asks[jobs, 6] > 1
        apart = self._spread[:, NODE:].min(axis=1)
        found[:, 4] = np.where(waiting.gpus[jobs] > 1, -np.log(np.minimum(1.0, apart / self._best)), 0.0)
        found[:, 5] = 0.25 * np.log1p(wait / SHORT_S)
        found[:, 6] = 0.5 * np.log1p(wait / (run + SHORT_S))
        found[:, 7] = np.minimum(8.0, wait / (wait.mean() + 900.0)) / 4
        found[:, 8] = 0.3 * np.log(np.minimum(waiting.limit[jobs], 100 * run) / run)
        return found

    def _pays(self, row: int, now: float) -> tuple[float, float]:
        """Return what a job gains if it waits until it fits as close together as ever, and when that is."""
        kind = int(self._room.kind[row])
        soon = self._room.soonest(kind, self._room.best_level(kind)) - self._seen.now
        run = float(self._seen.waiting.guess[self.jobs[row]])
        if not np.isfinite(soon):
            return 0.0, 0.0
        return float(np.log((run / now + SHORT_S) / (soon + run + SHORT_S))), float(0.25 * np.log1p(soon / SHORT_S))

    def _surroundings(self) -> Floats:
        """Return what is the same for all candidates."""
        nodes, free, waiting = self._seen.nodes, self._room.free[:, 0], self._seen.waiting
        total = max(1, int(nodes.gpus.sum()))
        leaves = np.bincount(nodes.leaf, nodes.gpus)
        freest = (np.bincount(nodes.leaf, free) / np.maximum(1.0, leaves)).max(initial=0.0)
        work = float(waiting.guess @ waiting.gpus)
        return np.array([free.sum() / total, (free == nodes.gpus).mean(), freest,
                         0.3 * np.log1p(len(waiting.rows)), 0.3 * np.log1p(work / total / HOUR_S)])

"""What TopDRL is shown of each waiting job, and of letting none of them go; the network that rates it knows no sizes.

The paper's branches (cluster, queue, backlog) are columns here: shares and logarithms, the same on any site.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...replay.arrays import Floats, Longs, Masks
from ...replay.compiled import compiled_apart
from ..candidate_placement import CandidatePlacement
from ..choice import Net
from ..free_resources import FreeResources
from ..observation import Observation, of_application
from ..placing import HOW_FAR, LEFT_OVER, NODE, OPENS

INPUTS = ("run", "GPUs", "several nodes", "slower now", "slower apart", "waited", "waited over run",
          "waited beside others", "limit over run", "fits", "waiting pays", "soon", "fills a node", "opens a node",
          "is waiting", "free", "empty nodes", "freest leaf", "jobs", "work", "split")
"""Of a job: run time as guessed, GPUs, by how much it runs slower on the nearest free ones, and far apart; its wait,
also relative to its run and to others' waits; whether it fits; what it gains if it waits until its GPUs are free
together, and when that is; whether it takes all that is left of a node, or part of an empty one. Of letting none go: a
1, else zeros. Of all: free share, empty nodes, the freest leaf, jobs and work in the queue, jobs that would be slower
now."""
NET = Net(len(INPUTS))
SLOWER, FITS, FILLS, IDLE, SPLIT = (INPUTS.index(name) for name in (
    "slower now", "fits", "fills a node", "is waiting", "split"))
OF_JOB = INPUTS.index("is waiting")
"""Inputs before this one are those of a job."""
HOUR_S, SHORT_S = 3600.0, 60.0


class Places:
    """Where each job that is looked at could start; jobs that ask for the same share a place."""

    def __init__(self, resources: FreeResources, beside: NDArray[np.bool_]) -> None:
        """Look for places among free resources; a job that is ``beside`` keeps off reserved nodes."""
        self._resources, self._beside, self._keys = resources, beside, resources.keys(beside)

    def found(self, left: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which of the jobs that are left could start now."""
        return self._resources.could_start(self._keys, left)

    def placement(self, row: int) -> CandidatePlacement | None:
        """Return where a job could start now."""
        return self._resources.placement(int(self._resources.kind[row]), beside=bool(self._beside[row]))

    def fill(self, rows: Floats, fit: NDArray[np.bool_], speeds: Floats, slower: Floats, speed: Floats) -> None:
        """Write where jobs that fit could start into their rows, and into ``speed`` how fast they would be there."""
        _fill(rows, self._keys, fit, self._resources.told, speeds, slower, speed)


@compiled_apart
def _fill(rows: Floats, keys: Longs, fit: Masks, told: Longs, speeds: Floats, slower: Floats, speed: Floats) -> None:
    """Write where jobs that fit could start into their rows; ``speeds`` and ``slower`` are by job and distance."""
    for job in range(fit.size):
        speed[job] = 1.0
        if fit[job]:
            place = told[keys[job]]
            speed[job] = speeds[job, place[HOW_FAR]]
            rows[job, FITS], rows[job, SLOWER] = 1.0, slower[job, place[HOW_FAR]]
            rows[job, FILLS], rows[job, FILLS + 1] = 1.0 if place[LEFT_OVER] == 0 else 0.0, place[OPENS]


@compiled_apart
def _around(free: Longs, gpus: Longs, leaf: Longs, resources: Floats) -> tuple[int, int]:
    """Return the free GPUs and the empty nodes; fill in the free GPUs of each leaf."""
    total = empty = 0
    for place in range(resources.size):
        resources[place] = 0.0
    for node in range(gpus.size):
        total += free[node, 0]
        empty += free[node, 0] == gpus[node]
        resources[leaf[node]] += free[node, 0]
    return total, empty


class Candidates:
    """The waiting jobs that are looked at, by index among all waiting ones, as rows of inputs while jobs are placed."""

    def __init__(self, seen: Observation, resources: FreeResources, jobs: NDArray[np.intp]) -> None:
        self._seen, self._resources, self.jobs = seen, resources, jobs
        spread = of_application(seen.known.spread, seen.waiting.application[jobs])
        self._closest = [resources.best_level(kind) for kind in range(len(resources.kinds))]
        self._spread, self._rows = spread, np.arange(len(jobs))
        self._best = spread[self._rows, np.array(self._closest, np.intp)[resources.kind]]
        self._speeds = spread / self._best[:, None]
        self._slower = -np.log(self._speeds)
        self._fixed = self._asked(jobs)
        self._gpus = seen.nodes.gpus
        self._leaves = np.maximum(1.0, np.bincount(seen.nodes.leaf, self._gpus))
        self._total = max(1, int(self._gpus.sum()))
        work = float(seen.waiting.guess @ seen.waiting.gpus)
        self._fixed[:, IDLE + 4:SPLIT] = 0.3 * np.log1p(len(seen.waiting.rows)), 0.3 * np.log1p(
            work / self._total / HOUR_S)

    def rows(self, places: Places, fit: NDArray[np.bool_]) -> Floats:
        """Return the inputs of each job with the place that it could start on, the last row being to let none go."""
        found, speed = self._fixed.copy(), np.empty(len(fit))
        places.fill(found, fit, self._speeds, self._slower, speed)
        slow = np.flatnonzero(speed < 1.0)
        if len(slow):
            found[slow, 10:12] = self._pays(slow, speed[slow])
        found[:, SPLIT] = 0.5 * np.log1p(np.count_nonzero(speed < 0.9))
        found[:, IDLE + 1:IDLE + 4] = self._surroundings()
        return found

    def _asked(self, jobs: NDArray[np.intp]) -> Floats:
        """Return what does not change while jobs are placed, the last row being to let none go."""
        waiting, now = self._seen.waiting, self._seen.now
        run, wait = waiting.guess[jobs], np.maximum(0.0, now - waiting.submit[jobs])
        whole = np.zeros((len(jobs) + 1, len(INPUTS)))
        whole[-1, IDLE] = 1.0
        found = whole[:-1]
        found[:, 0] = 0.5 * np.log((run + SHORT_S) / HOUR_S)
        found[:, 1] = np.log2(np.maximum(1, waiting.gpus[jobs])) / 3
        found[:, 2] = waiting.demands[jobs, 4] + waiting.demands[jobs, 6] > 1
        apart = self._spread[:, NODE:].min(axis=1)
        found[:, 4] = np.where(waiting.gpus[jobs] > 1, -np.log(np.minimum(1.0, apart / self._best)), 0.0)
        found[:, 5] = 0.25 * np.log1p(wait / SHORT_S)
        found[:, 6] = 0.5 * np.log1p(wait / (run + SHORT_S))
        found[:, 7] = np.minimum(8.0, wait / (wait.mean() + 900.0)) / 4
        found[:, 8] = 0.3 * np.log(np.minimum(waiting.limit[jobs], 100 * run) / run)
        return whole

    def _pays(self, rows: NDArray[np.intp], now: Floats) -> Floats:
        """Return what jobs gain if they wait until they fit as close together as ever, and when that is."""
        kinds, which = np.unique(self._resources.kind[rows], return_inverse=True)
        soon = np.array([self._resources.soonest(kind, self._closest[kind]) for kind in kinds.tolist()])[which]
        soon, run = soon - self._seen.now, self._seen.waiting.guess[self.jobs[rows]]
        known = np.isfinite(soon)
        later = np.where(known, soon, 0.0)
        gain = np.log((run / now + SHORT_S) / (later + run + SHORT_S))
        return np.stack([np.where(known, gain, 0.0), 0.25 * np.log1p(later / SHORT_S)], axis=1)

    def _surroundings(self) -> tuple[float, ...]:
        """Return what is the same for all candidates."""
        resources = np.empty(len(self._leaves))
        free, empty = _around(self._resources.free, self._gpus, self._seen.nodes.leaf, resources)
        return free / self._total, empty / max(1, len(self._gpus)), float((resources / self._leaves).max(initial=0.0))

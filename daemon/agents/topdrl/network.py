"""TopDRL's inputs of each waiting job, and of waiting; its network is independent of sizes.

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
from ..placing import LEFTOVER, LEVEL, NODE, OPENS

INPUTS = ("run", "GPUs", "several nodes", "slower now", "slower apart", "waited", "waited over run",
          "waited beside others", "limit over run", "fits", "waiting pays", "soon", "fills a node", "opens a node",
          "is waiting", "free", "empty nodes", "freest leaf", "jobs", "work", "split")
"""The inputs of a job: guessed run time, GPUs, by how much it runs slower on the nearest free ones, and far apart; its
wait, also relative to its run and to others' waits; whether it fits; what it gains if it waits until its GPUs are free
together, and when that is; whether it takes all that is left of a node, or part of an empty one. To start no job is a
1, else zeros. All share: free share, empty nodes, the freest leaf, jobs and work in the queue, jobs that would be
slower now."""
NET = Net(len(INPUTS))
SLOWER, FITS, FILLS, IDLE, SPLIT = (INPUTS.index(name) for name in (
    "slower now", "fits", "fills a node", "is waiting", "split"))
OF_JOB = INPUTS.index("is waiting")
"""Inputs before this one are those of a job."""
HOUR_S, SHORT_S = 3600.0, 60.0


class Places:
    """Possible placements of the considered jobs; jobs with the same demand share one."""

    def __init__(self, resources: FreeResources, beside: NDArray[np.bool_]) -> None:
        """Look for placements in free resources; a job that is ``beside`` must not use reserved nodes."""
        self._resources, self._beside, self._keys = resources, beside, resources.keys(beside)

    def found(self, left: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which of the jobs that are left could start now."""
        return self._resources.could_start(self._keys, left)

    def placement(self, row: int) -> CandidatePlacement | None:
        """Return where a job could start now."""
        return self._resources.placement(int(self._resources.kind[row]), beside=bool(self._beside[row]))

    def fill(self, rows: Floats, fit: NDArray[np.bool_], speeds: Floats, slower: Floats, speed: Floats) -> None:
        """Fill in the placement inputs of jobs that fit, and in ``speed`` their speeds there."""
        _fill(rows, self._keys, fit, self._resources.summaries, speeds, slower, speed)


@compiled_apart
def _fill(rows: Floats, keys: Longs, fit: Masks, summaries: Longs, speeds: Floats, slower: Floats,
          speed: Floats) -> None:
    """Fill in the placement inputs of jobs that fit; ``speeds`` and ``slower`` are by job and distance level."""
    for job in range(fit.size):
        speed[job] = 1.0
        if fit[job]:
            place = summaries[keys[job]]
            speed[job] = speeds[job, place[LEVEL]]
            rows[job, FITS], rows[job, SLOWER] = 1.0, slower[job, place[LEVEL]]
            rows[job, FILLS], rows[job, FILLS + 1] = 1.0 if place[LEFTOVER] == 0 else 0.0, place[OPENS]


@compiled_apart
def _around(free: Longs, gpus: Longs, leaf: Longs, leaf_free: Floats) -> tuple[int, int]:
    """Return the free GPUs and the empty nodes; fill in the free GPUs of each leaf."""
    total = empty = 0
    for place in range(leaf_free.size):
        leaf_free[place] = 0.0
    for node in range(gpus.size):
        total += free[node, 0]
        empty += free[node, 0] == gpus[node]
        leaf_free[leaf[node]] += free[node, 0]
    return total, empty


class Candidates:
    """The considered jobs, by index among all waiting ones, as rows of inputs while jobs are placed."""

    def __init__(self, observation: Observation, resources: FreeResources, jobs: NDArray[np.intp]) -> None:
        self._observation, self._resources, self.jobs = observation, resources, jobs
        spread = of_application(observation.known.spread, observation.waiting.application[jobs])
        self._closest = [resources.best_level(kind) for kind in range(len(resources.kinds))]
        self._spread, self._rows = spread, np.arange(len(jobs))
        self._best = spread[self._rows, np.array(self._closest, np.intp)[resources.kind]]
        self._speeds = spread / self._best[:, None]
        self._slower = -np.log(self._speeds)
        self._fixed = self._fixed_inputs(jobs)
        self._gpus = observation.nodes.gpus
        self._leaves = np.maximum(1.0, np.bincount(observation.nodes.leaf, self._gpus))
        self._total = max(1, int(self._gpus.sum()))
        work = float(observation.waiting.guess @ observation.waiting.gpus)
        self._fixed[:, IDLE + 4:SPLIT] = 0.3 * np.log1p(len(observation.waiting.rows)), 0.3 * np.log1p(
            work / self._total / HOUR_S)

    def rows(self, places: Places, fit: NDArray[np.bool_]) -> Floats:
        """Return the inputs of each job with its possible placement; the last row is to wait."""
        inputs, speed = self._fixed.copy(), np.empty(len(fit))
        places.fill(inputs, fit, self._speeds, self._slower, speed)
        slow = np.flatnonzero(speed < 1.0)
        if len(slow):
            inputs[slow, 10:12] = self._waiting_gain(slow, speed[slow])
        inputs[:, SPLIT] = 0.5 * np.log1p(np.count_nonzero(speed < 0.9))
        inputs[:, IDLE + 1:IDLE + 4] = self._surroundings()
        return inputs

    def _fixed_inputs(self, jobs: NDArray[np.intp]) -> Floats:
        """Return the inputs that do not change while jobs are placed; the last row is to wait."""
        waiting, now = self._observation.waiting, self._observation.now
        run, wait = waiting.guess[jobs], np.maximum(0.0, now - waiting.submit[jobs])
        inputs = np.zeros((len(jobs) + 1, len(INPUTS)))
        inputs[-1, IDLE] = 1.0
        job_inputs = inputs[:-1]
        job_inputs[:, 0] = 0.5 * np.log((run + SHORT_S) / HOUR_S)
        job_inputs[:, 1] = np.log2(np.maximum(1, waiting.gpus[jobs])) / 3
        job_inputs[:, 2] = waiting.demands[jobs, 4] + waiting.demands[jobs, 6] > 1
        apart = self._spread[:, NODE:].min(axis=1)
        job_inputs[:, 4] = np.where(waiting.gpus[jobs] > 1, -np.log(np.minimum(1.0, apart / self._best)), 0.0)
        job_inputs[:, 5] = 0.25 * np.log1p(wait / SHORT_S)
        job_inputs[:, 6] = 0.5 * np.log1p(wait / (run + SHORT_S))
        job_inputs[:, 7] = np.minimum(8.0, wait / (wait.mean() + 900.0)) / 4
        job_inputs[:, 8] = 0.3 * np.log(np.minimum(waiting.limit[jobs], 100 * run) / run)
        return inputs

    def _waiting_gain(self, rows: NDArray[np.intp], speed: Floats) -> Floats:
        """Return the gains of jobs that wait for their closest possible placement, and the times until then."""
        kinds, kind_of_row = np.unique(self._resources.kind[rows], return_inverse=True)
        by_kind = np.array([self._resources.soonest(kind, self._closest[kind]) for kind in kinds.tolist()])
        earliest = by_kind[kind_of_row] - self._observation.now
        run = self._observation.waiting.guess[self.jobs[rows]]
        foreseeable = np.isfinite(earliest)
        later = np.where(foreseeable, earliest, 0.0)
        gain = np.log((run / speed + SHORT_S) / (later + run + SHORT_S))
        return np.stack([np.where(foreseeable, gain, 0.0), 0.25 * np.log1p(later / SHORT_S)], axis=1)

    def _surroundings(self) -> tuple[float, ...]:
        """Return the inputs that are the same for all candidates."""
        leaf_free = np.empty(len(self._leaves))
        free, empty = _around(self._resources.free, self._gpus, self._observation.nodes.leaf, leaf_free)
        return free / self._total, empty / max(1, len(self._gpus)), float((leaf_free / self._leaves).max(initial=0.0))

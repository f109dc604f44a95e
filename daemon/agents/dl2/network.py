"""DL2's inputs of each possible step: to start a job, to double or to halve its GPUs, or to stop.

Speeds and remaining times are estimates of the site, with their errors, never the truth. Parameter servers, which the
paper sizes beside workers, are part of the speed curve (``replay.speed``, Optimus').
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...replay.arrays import Floats, Longs, Masks
from ...replay.compiled import compiled, compiled_apart
from ..choice import Net
from ..demands import CHUNK, CHUNKS, CPUS, MEMORY, REST, RESTS
from ..observation import Observation, of_application
from ..placing import LEAF

INPUTS = ("left", "GPUs", "least", "gain", "gain beside asked", "below asked", "waited", "waited over left", "starts",
          "grows", "shrinks", "stops", "free", "waiting", "work", "in need")
"""The inputs of a step are: how long the job would still run at its requested size, its GPUs after the step, the fewest
it can use, its speed-up by the step and its speed over that at its requested size, whether it has less than that, its
wait, also over what is left, and the kind of step. All steps share: free share, jobs and work that wait, jobs without
a GPU."""
NET = Net(len(INPUTS))
LEFT, GAIN, BELOW, WAITED, STARTS, GROWS, SHRINKS, STOPS, NEED = (INPUTS.index(name) for name in (
    "left", "gain", "below asked", "waited", "starts", "grows", "shrinks", "stops", "in need"))
OF_STEP = INPUTS.index("stops")
"""Inputs before this one are those of a job's step."""
HOUR_S, SHORT_S = 3600.0, 60.0


@dataclass(frozen=True)
class Sizing:
    """The jobs whose size is considered, waiting ones first; row ``j`` of every array is one of them."""

    rows: NDArray[np.intp]
    """The jobs' rows in the state."""
    waits: Masks
    demands: Longs
    requested: Longs
    least: Longs
    most: Longs
    widest: Longs
    application: Longs
    held: Longs
    """GPUs that it has now."""
    left: Floats
    """Remaining seconds at the size that it requested."""
    wait: Floats

    @classmethod
    def of(cls, observation: Observation, waiting: NDArray[np.intp], running: NDArray[np.intp]) -> Sizing:
        """Return some of the waiting and of the running jobs, by their index among them."""
        waiting_jobs, running_jobs = observation.waiting, observation.running
        known = has_size_speeds(observation, np.concatenate([waiting_jobs.application[waiting],
                                                             running_jobs.application[running]]))
        requested = np.concatenate([waiting_jobs.gpus[waiting], running_jobs.requested_gpus[running]])
        columns = [np.concatenate([getattr(waiting_jobs, name)[waiting], getattr(running_jobs, name)[running]])
                   for name in ("rows", "demands", "minimum", "maximum", "widest", "application")]
        rows, demands, least, most, widest, application = columns
        held = np.concatenate([np.zeros(len(waiting), np.int64), running_jobs.gpus[running]])
        left = np.concatenate([waiting_jobs.guess[waiting], running_jobs.left[running]])
        wait = np.concatenate([np.maximum(0.0, observation.now - waiting_jobs.submit[waiting]), np.zeros(len(running))])
        waits = np.arange(len(rows)) < len(waiting)
        # Without a known speed curve a job keeps the size that it requested.
        least, most = np.where(known, least, requested), np.where(known, most, requested)
        sizing = cls(rows, waits, demands, requested, least, most, widest, application, held, left, wait)
        speed = sizing.speeds(observation, np.where(waits, requested, held)) / sizing.speeds(observation, requested)
        return cls(rows, waits, demands, requested, least, most, widest, application, held, left * speed, wait)

    def speeds(self, observation: Observation, gpus: Longs) -> Floats:
        """Return the estimated speed of each job on so many GPUs, on one node if they fit there."""
        size = of_application(observation.known.size, self.application)
        speed = size[np.arange(len(gpus)), np.minimum(gpus, size.shape[1] - 1)]
        apart = of_application(observation.known.spread, self.application)[:, LEAF]
        return np.asarray(np.maximum(speed, 1e-9) * np.where(gpus > self.widest, apart, 1.0))

    def demand(self, job: int, gpus: int) -> Longs:
        """Return the demand of a job on so many GPUs: its own at that size, else full nodes and one for the rest."""
        demand: Longs = self.demands[job].copy()
        if gpus == self.requested[job]:
            return demand
        chunk, before = min(gpus, int(self.widest[job])), max(1, int(demand[CHUNK]))
        for resource in (CPUS, MEMORY):
            demand[resource] = -(-demand[resource] * chunk // before)
        demand[CHUNK], demand[CHUNKS], demand[REST] = chunk, gpus // chunk, gpus % chunk
        demand[RESTS] = int(gpus % chunk > 0)
        return demand


def has_size_speeds(observation: Observation, application: Longs) -> Masks:
    """Tell for which jobs the speed by GPUs is known: unknown speeds are 1 at every size."""
    return np.asarray((of_application(observation.known.size, application)[:, 1:] != 1.0).any(axis=1))


class Steps:
    """The possible steps as rows of inputs, while sizes are changed one by one."""

    def __init__(self, observation: Observation, sizing: Sizing) -> None:
        self._sizing, self._work = sizing, sizing.left * sizing.requested
        apart = of_application(observation.known.spread, sizing.application)[:, LEAF].copy()
        self._curves = KnownCurves(np.maximum(of_application(observation.known.size, sizing.application), 1e-9), apart,
                                   sizing.widest, sizing.requested, sizing.speeds(observation, sizing.requested))
        self._fixed = np.zeros((len(sizing.rows), len(INPUTS)))
        self._fixed[:, 0] = 0.5 * np.log((sizing.left + SHORT_S) / HOUR_S)
        self._fixed[:, 2] = np.log2(np.maximum(1, sizing.least)) / 3
        self._fixed[:, WAITED] = 0.25 * np.log1p(sizing.wait / SHORT_S)
        self._fixed[:, 7] = 0.5 * np.log1p(sizing.wait / (sizing.left + SHORT_S))
        self._total = max(1, int(observation.nodes.gpus.sum()))

    def rows(self, jobs: NDArray[np.intp], before: Longs, after: Longs, free: int, given: Longs) -> Floats:
        """Return the inputs of changing the GPUs of some jobs, and in the last row of stopping."""
        inputs = np.zeros((len(jobs) + 1, len(INPUTS)))
        _fill(inputs, self._fixed, self._curves, jobs, before, after)
        inputs[-1, STOPS] = 1.0
        waiting = self._sizing.waits & (given == 0)
        work, count = float(self._work[waiting].sum()), np.count_nonzero(waiting)
        inputs[:, STOPS + 1:] = (max(0, free) / self._total, 0.3 * math.log1p(count),
                                 0.3 * math.log1p(work / self._total / HOUR_S), float(count > 0))
        return inputs


class KnownCurves(NamedTuple):
    """The estimated speeds of jobs, also at the sizes that they requested."""

    size: Floats
    """[job, GPUs], the last column being for more, too."""
    apart: Floats
    widest: Longs
    requested: Longs
    at_requested: Floats


@compiled
def _speed(curves: KnownCurves, job: int, gpus: int) -> float:
    """Return the estimated speed of a job on so many GPUs, as ``Sizing.speeds`` does."""
    speed: float = curves.size[job, min(gpus, curves.size.shape[1] - 1)]
    return speed * curves.apart[job] if gpus > curves.widest[job] else speed


@compiled_apart
def _fill(rows: Floats, fixed: Floats, curves: KnownCurves, jobs: NDArray[np.intp], before: Longs,
          after: Longs) -> None:
    """Fill in the inputs of changing the GPUs of some jobs."""
    for row in range(jobs.size):
        job, had, has = jobs[row], before[row], after[row]
        for place in range(fixed.shape[1]):
            rows[row, place] = fixed[job, place]
        speed = _speed(curves, job, has)
        rows[row, 1] = np.log2(float(has)) / 3
        rows[row, GAIN] = np.log(speed / _speed(curves, job, had)) if had > 0 else 0.0
        rows[row, GAIN + 1] = np.log(speed / curves.at_requested[job])
        rows[row, BELOW] = 1.0 if had < curves.requested[job] else 0.0
        rows[row, STARTS] = 1.0 if had == 0 else 0.0
        rows[row, GROWS] = 1.0 if 0 < had < has else 0.0
        rows[row, SHRINKS] = 1.0 if has < had else 0.0

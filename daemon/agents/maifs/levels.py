"""The levels of CPUs and memory that a job may get: less than it uses, its request, or its use with headroom.

The use of jobs is derived from their known speeds. A job with unknown use only gets its request; no job gets less
memory than similar jobs use, since it would run out of memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Floats, Longs, Masks
from ...replay.execution_rate import SLOWEST
from ...replay.speed import SpeedTable
from ..demands import CHUNK, CPUS, MEMORY, WHOLE
from ..observation import of_application

LEVELS = ("lean", "asked", "ample")
LEAN, REQUESTED, AMPLE = range(len(LEVELS))
LEAN_SHARE = 0.5
"""The share of the CPUs in use by a job that it gets at the first level."""
HEADROOM = 0.2
"""The share beyond the CPUs and memory in use that a job gets at the last level."""
MIB = 1 << 20
NEARLY = 0.97
"""Share of the greatest speed that counts as all of it."""


@dataclass(frozen=True)
class Needs:
    """The use of jobs per GPU, by application; NaN where it is unknown."""

    cpus: Floats
    memory: Floats
    """Bytes."""

    @classmethod
    def of(cls, known: SpeedTable) -> Needs:
        """Derive needs from known speeds: the least amount that is nearly as fast as the most."""
        by_cpus, by_memory = known.grants[:, :, -1], known.grants[:, -1, :]
        return cls(_least(by_cpus), known.step * _least(by_memory))

    def of_applications(self, application: Longs) -> tuple[Floats, Floats]:
        """Return CPUs and bytes per GPU of jobs."""
        return (of_application(self.cpus[:, None], application)[:, 0],
                of_application(self.memory[:, None], application)[:, 0])


def _least(speed: Floats) -> Floats:
    """Return the first column that is nearly as fast as the last; NaN for rows of a single speed."""
    enough = speed >= NEARLY * speed[:, -1:]
    return np.where((speed != speed[:, :1]).any(axis=1), enough.argmax(axis=1).astype(np.float64), np.nan)


def demands_at(demands: Longs, needs: Needs, application: Longs) -> tuple[Longs, Masks]:
    """Return [job, level, ...] the demands of jobs at each level, and [job, level] which levels are available.

    A job without GPUs, or with whole nodes, only has its request.
    """
    at_levels = np.repeat(demands[:, None, :], len(LEVELS), axis=1)
    chunk = np.maximum(1, demands[:, CHUNK])
    used = [np.nan_to_num(amount) for amount in needs.of_applications(application)]
    fungible = (demands[:, CHUNK] > 0) & (demands[:, WHOLE] == 0)
    by_cpus, by_memory = (fungible & np.isfinite(amount) & (demands[:, resource] > 0)
                          for resource, amount in zip((CPUS, MEMORY), needs.of_applications(application), strict=True))
    cpus = np.where(by_cpus, _with_headroom(demands[:, CPUS], used[0], chunk, 1), demands[:, CPUS])
    bytes_ = np.where(by_memory, _with_headroom(demands[:, MEMORY], used[1], chunk, MIB), demands[:, MEMORY])
    lean = np.maximum(1, np.ceil(used[0] * LEAN_SHARE)).astype(np.int64) * chunk
    at_levels[:, AMPLE, CPUS], at_levels[:, AMPLE, MEMORY] = cpus, bytes_
    at_levels[:, LEAN, CPUS] = np.where(by_cpus, np.minimum(lean, demands[:, CPUS]), demands[:, CPUS])
    at_levels[:, LEAN, MEMORY] = np.minimum(bytes_, demands[:, MEMORY])
    available = np.ones((len(demands), len(LEVELS)), bool)
    available[:, AMPLE] = (at_levels[:, AMPLE] != demands).any(axis=1)
    available[:, LEAN] = at_levels[:, LEAN, CPUS] < np.minimum(demands[:, CPUS], cpus)
    return at_levels, available


def _with_headroom(requested: Longs, used: Floats, chunk: Longs, unit: int) -> Longs:
    """Return the use of a chunk with headroom, in units per GPU: at most the request, unless the use exceeds it."""
    wanted = np.ceil(used * (1.0 + HEADROOM) / unit).astype(np.int64) * unit * chunk
    return np.where(used * chunk <= requested, np.minimum(wanted, requested), wanted)


def speeds_at(known: SpeedTable, application: Longs, demands: Longs) -> Floats:
    """Return [job, level] the estimated speed of jobs at each level, relative to that with their request."""
    chunk = np.maximum(1, demands[:, :, CHUNK])
    table, last = known.grants, np.array(known.grants.shape[1:]) - 1.0
    row = np.minimum(application, len(table) - 1)[:, None]
    across = np.minimum(demands[:, :, CPUS] / chunk, last[0])
    along = np.minimum(demands[:, :, MEMORY] / chunk / known.step, last[1])
    above, left = across.astype(np.int64), along.astype(np.int64)
    below, right = np.minimum(above + 1, int(last[0])), np.minimum(left + 1, int(last[1]))
    upper = table[row, above, left] + (table[row, above, right] - table[row, above, left]) * (along - left)
    lower = table[row, below, left] + (table[row, below, right] - table[row, below, left]) * (along - left)
    speed = upper + (lower - upper) * (across - above)
    at_requested = speed[:, [REQUESTED]]
    return np.asarray(np.where(at_requested > 0, np.maximum(speed, SLOWEST) / np.maximum(at_requested, SLOWEST), 1.0))

"""What comes free when: what running jobs hold, soonest ends first, and the first moment at which something would fit.

Moments are looked at as Slurm does (cons_tres, ``_will_run_test``): the jobs that end within half a minute of the first
are taken away together, then those within a minute of the next, then within two, so that even a long list is looked at
in a few steps; what fits then is said to start at the last of these ends.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ....storage.recommendations import Placement
from ....storage.records import Job
from .ground import Counts, Ground, Mask

FIRST_WINDOW_S = 30.0
OVERRUN_S = 60.0
"""How much longer a job is expected to run that is past its limit."""


@dataclass(frozen=True, order=True, slots=True)
class Release:
    """What one job gives back when it ends."""

    end_s: float
    rows: NDArray[np.intp] = field(compare=False)
    gpus: Counts = field(compare=False)
    cpus: Counts = field(compare=False)
    memory: Counts = field(compare=False)


class Releases:
    """What every running job will give back; ``add`` books one that starts."""

    def __init__(self, ground: Ground, jobs: Iterable[Job], now_s: float) -> None:
        self._all: list[Release] = []
        for job in (job for job in jobs if job.state.active and job.limit_s is not None):
            held = [part for part in job.allocations if part.node in ground.row]
            end_s = max((job.start_s or now_s) + (job.limit_s or 0.0), now_s + OVERRUN_S)
            if held:
                self._all.append(Release(end_s, np.array([ground.row[part.node] for part in held], np.intp),
                                         *(np.array(column, np.int64) for column in zip(*(
                                             (part.gpus, part.cpus, part.memory_bytes) for part in held),
                                             strict=True))))
        self._all.sort()

    def add(self, end_s: float, before: Ground, after: Ground) -> None:
        """Book what a job has taken, until it ends."""
        taken = [getattr(before, name) - getattr(after, name) for name in ("free_gpus", "free_cpus", "free_memory")]
        rows = np.flatnonzero(taken[0] | taken[1] | taken[2])
        if end_s < np.inf and rows.size:
            insort(self._all, Release(end_s, rows, *(part[rows] for part in taken)))

    def copy(self) -> Releases:
        """Return a list to which more can be added."""
        other = object.__new__(Releases)
        other._all = list(self._all)
        return other

    def first_fit(self, ground: Ground, usable: Mask, sought: Callable[[Ground], Placement | None],
                  ) -> tuple[float, Placement] | None:
        """Return when, after now, something fits first on nodes that may be used, and where; None if it never does."""
        later, window_s, place = ground.copy(), FIRST_WINDOW_S, 0
        later.as_planned = True
        while place < len(self._all):
            place, last = self._next(later, usable, place, window_s)
            found = sought(later) if last is not None else None
            if last is not None and found is not None:
                return last.end_s, found
            window_s *= 2
        return None

    def _next(self, later: Ground, usable: Mask, place: int, window_s: float) -> tuple[int, Release | None]:
        """Give back what ends next, and within a while of that; return how far the list is used up, and the last."""
        first = last = None
        while place < len(self._all):
            release, place = self._all[place], place + 1
            if not usable[release.rows].any():
                continue  # as in Slurm, before it is asked whether the next ends too late
            first, last = first or release, release
            _give_back(later, release)
            if place < len(self._all) and self._all[place].end_s > first.end_s + window_s:
                break
        return place, last


def _give_back(ground: Ground, release: Release) -> None:
    rows = release.rows
    for name, freed in (("gpus", release.gpus), ("cpus", release.cpus), ("memory", release.memory)):
        free, most = getattr(ground, f"free_{name}"), getattr(ground, name)
        free[rows] = np.minimum(most[rows], free[rows] + freed)
    for row in rows[ground.free_cpus[rows] == ground.cpus[rows]].tolist():
        ground.free_gpus[row], ground.free_memory[row] = ground.gpus[row], ground.memory[row]
        ground.busy[row], ground.users[row], ground.owners[row] = False, set(), ""

"""What comes free when: what running jobs hold, soonest ends first, and the first moment at which something would fit.

Moments are looked at as Slurm does (cons_tres, ``_will_run_test``): the jobs that end within half a minute of the first
are taken away together, then those within a minute of the next, then within two, so that even a long list is looked at
in a few steps; what fits then starts, by its estimate, at the last of these ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....storage.recommendations import Placement
from ....storage.records import Job
from .node_resources import Mask, NodeResources

FREE = ("free_gpus", "free_cpus", "free_memory")
FIRST_WINDOW_S = 30.0
"""As in Slurm's test of when a job will run: ends within the window are taken together, and each window doubles."""
OVERRUN_S = 60.0
"""How much longer a job is expected to run that is past its limit."""


class PartitionShare(NamedTuple):
    """What a partition's jobs may use of each node besides what they use (Slurm's ``MaxCPUsPerNode``)."""

    partition: str
    cpus: NDArray[np.int64]


class Releases:
    """What every running job will give back; ``add`` books one that starts.

    All of it lies in arrays by end, and of equal ends by the jobs' numbers: one row for each node that a job holds.
    """

    def __init__(self, resources: NodeResources, jobs: Iterable[Job], now_s: float) -> None:
        held = []
        for job in (job for job in jobs if job.state.active and job.limit_s is not None):
            end_s = max((job.start_s or now_s) + (job.limit_s or 0.0), now_s + OVERRUN_S)
            parts = [(resources.row[part.node], part.gpus, part.cpus, part.memory_bytes)
                     for part in job.allocations if part.node in resources.row]
            if parts:
                held.append((end_s, _number(job), parts, job.partition))
        held.sort(key=lambda one: one[:2])
        self._ends, self._numbers = np.array([one[0] for one in held]), np.array([one[1] for one in held], np.int64)
        self._partitions = np.array([partition for *_, partition in held], object)
        self._first = np.cumsum([0, *(len(parts) for _, _, parts, _ in held)])
        """Where the rows of each begin, and where the last ends."""
        freed = [part for _, _, parts, _ in held for part in parts]
        self._rows, *self._freed = np.array(freed, np.int64).reshape(-1, 4).T
        """Node, and what it gets back of GPUs, CPUs and memory."""

    def add(self, job: Job, end_s: float, before: NodeResources, after: NodeResources) -> None:
        """Book what a job has taken, until it ends."""
        taken = [getattr(before, name) - getattr(after, name) for name in FREE]
        rows = np.flatnonzero(taken[0] | taken[1] | taken[2])
        if end_s == np.inf or not rows.size:
            return
        number, place = _number(job), int(np.searchsorted(self._ends, end_s))
        place += int((self._numbers[self._ends == end_s] <= number).sum())
        self._partitions = np.insert(self._partitions, place, job.partition)
        at = self._first[place]
        self._ends, self._numbers = np.insert(self._ends, place, end_s), np.insert(self._numbers, place, number)
        self._first = np.insert(self._first, place, at)
        self._first[place + 1:] += rows.size
        self._rows = np.insert(self._rows, at, rows)
        self._freed = [np.insert(known, at, part[rows]) for known, part in zip(self._freed, taken, strict=True)]

    def copy(self) -> Releases:
        """Return a list to which more can be added."""
        return copy(self)

    def first_fit(self, resources: NodeResources, usable: Mask, sought: Callable[[NodeResources], Placement | None],
                  share: PartitionShare | None = None) -> tuple[float, Placement] | None:
        """Return when, after now, something fits first on nodes that may be used, and where; None if it never does.

        A ``share`` says what a partition's jobs may use now; what its jobs give back comes to it.
        """
        if not self._ends.size:
            return None
        later, left = resources.copy(), None if share is None else share.cpus.copy()
        later.as_planned = True
        touching = np.flatnonzero(np.logical_or.reduceat(usable[self._rows], self._first[:-1]))
        window_s, place, given = FIRST_WINDOW_S, 0, 0
        while place < touching.size:
            # As in Slurm, the next end is looked at only after one that matters has passed.
            beyond = int(np.searchsorted(self._ends, self._ends[touching[place]] + window_s, "right"))
            place = max(place, min(int(np.searchsorted(touching, beyond - 1)), touching.size - 1))
            last = int(touching[place])
            part = slice(given, self._first[last + 1])
            self._give_back(later, part)
            if share is not None and left is not None:
                of_partition = np.repeat(self._partitions == share.partition, np.diff(self._first))[part]
                np.add.at(left, self._rows[part][of_partition], self._freed[1][part][of_partition])
            found = sought(later if left is None else later.shared_out(left))
            if found is not None:
                return float(self._ends[last]), found
            window_s, place, given = window_s * 2, place + 1, self._first[last + 1]
        return None

    def _give_back(self, resources: NodeResources, part: slice) -> None:
        rows = self._rows[part]
        for name, freed in zip(FREE, self._freed, strict=True):
            free = getattr(resources, name)
            np.add.at(free, rows, freed[part])
            np.minimum(free, getattr(resources, name.removeprefix("free_")), out=free)
        resources.clear(rows[resources.free_cpus[rows] == resources.cpus[rows]])


def _number(job: Job) -> int:
    """Return what orders jobs that end together: the scheduler's list is by number, and sorted by end as it stands."""
    return job.raw_id or 0

"""A job in line, what is planned for it, and what is reported of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job
from ....storage.waiting import WaitReason
from .gate import GROUP, HELD, ROOM, Gate, Hold
from .main_pass import passed_over_by_main
from .resource_demand import counts


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A job in line, and where the policy would have it."""

    row: int
    job: Job
    wanted: Placement | None = None
    later: bool = False
    """It may not start yet, as too many of its array run, but is planned like the others."""
    stale: bool = False
    """Its reported reason is nodes out of reach in one of its partitions, and those of another would do."""
    barred: Hold | None = None
    """What holds a component whatever is free, for which the others wait; or a limit that a job breaks."""

    def on(self, names: Sequence[str] | None, gate: Gate) -> QueueEntry:
        """Return a job with the nodes that are named for it, if any: Slurm takes all of them, or none of the others."""
        if names is None:
            return self
        others = tuple(node.name for node in gate.resources.nodes if node.name not in names)
        request = (replace(self.job.request, excluded_nodes=others) if excludes(self.job)
                   else replace(self.job.request, required_nodes=tuple(names)))
        return replace(self, job=replace(self.job, request=request))


class ArrayPlans:
    """Counts how often nodes are kept for tasks of an array: Slurm plans only so many of them in a round.

    In the first partition it is as many as wait, at most ``bf_max_job_array_resv``. Slurm goes on counting in the
    array's other partitions, and so plans one task in each of them.
    """

    def __init__(self, left: Sequence[QueueEntry], most: int) -> None:
        self._most = most
        self._waiting = Counter({entry.row: entry.job.array for entry in left}.values())
        self._array, self._plans = "", 0
        """The array of which a task was planned last, and how many were."""
        self._enough = set[tuple[str, str]]()

    def enough(self, job: Job) -> bool:
        """Tell whether no more tasks of a job's array are looked at in its partition."""
        return (job.array, job.partition) in self._enough

    def note(self, job: Job, *, started: bool, planned: bool) -> None:
        """Take note of what came of a job; one that belongs to no array does not count."""
        self._waiting[job.array] -= started
        if job.array and planned:
            self._plans = self._plans + 1 if job.array == self._array else 1
            self._array = job.array
            if self._plans >= min(self._waiting[job.array], self._most):
                self._enough.add((job.array, job.partition))


@dataclass(frozen=True, slots=True)
class Plan:
    """When and where a job can begin; nowhere where nothing is found within ``bf_window``."""

    begin_s: float = np.inf
    where: Placement | None = None
    limit_s: float = 0.0
    earliest_s: float = np.inf
    """The first of all moments that came up, be the nodes kept for others then: what other components hear of."""


def excludes(job: Job) -> bool:
    """Tell whether the command that names a job's nodes excludes all others instead.

    Slurm takes no nodes for the first component of a heterogeneous job, and starts none with them that counts features.
    """
    return (bool(job.group) and job.job_id.endswith("+0")) or bool(counts(job.request.features))


def sooner(before: Placement | Hold | None, now: Placement | Hold) -> Placement | Hold:
    """Return what is reported of a job that was tried in one partition before: a start, else that it waits for room."""
    if before is None or isinstance(now, Placement) or now.cause == ROOM:
        return now
    return before


def absent(gate: Gate, entry: QueueEntry) -> bool:
    """Tell whether the main scheduler does not look at a job; components stop it whatever they wait for."""
    held = entry.barred is not None and entry.barred.cause == HELD
    return held or (entry.later and not entry.job.group) or passed_over_by_main(gate, entry.job)


def in_queue(entry: QueueEntry) -> bool:
    """Tell whether the main scheduler comes to a job, if only to find that it breaks a limit or has too few nodes."""
    if entry.later:
        return entry.job.reason in (WaitReason.NODES_UNAVAILABLE, WaitReason.RESERVATION)
    return entry.barred is None or entry.barred.cause != HELD or entry.job.reason is WaitReason.QUOTA


def waits_for(component: str) -> Hold:
    """Return the hold of a component for which another one waits."""
    return Hold(GROUP, f"its component {component} cannot start now, and all start together")

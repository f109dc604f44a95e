"""Jobs of another size: what they ask for, whether that is free, which jobs would fit on what they give up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....storage.eligibility import eligible
from ....storage.recommendations import Recommendation
from ....storage.records import Allocation, Job, JobState, Request, SchedulerSnapshot
from ...waste.stranded import PLENTY, Need, need
from ..migration import MOST, Amounts, Masks, MigrationPlanner

MOST_TESTED = 50
"""Waiting jobs that are tested for whether they would have room."""
MOST_HELPED = 5
"""The most jobs that are named as helped."""

Returned = Sequence[tuple[str, Amounts]]
"""What is given back by node."""
Wish = tuple[Need, bytes]
"""What a waiting job needs, and the mask of the nodes that it may use: jobs with the same needs are tested once."""


def doubled(request: Request, gpus: int, largest: int) -> Request:
    """Return a request for twice as many GPUs as a job has: on its one node if that can be, else on twice as many.

    ``largest`` is the number of GPUs of the largest node that it may use.
    """
    twice = replace(request, gpus=2 * gpus, cpus=2 * request.cpus, memory_bytes=2 * request.memory_bytes)
    if request.nodes <= 1 and request.gpus_per_node is None:
        return twice  # the scheduler may split them as it likes
    nodes = 1 if request.nodes <= 1 and 2 * gpus <= largest else 2 * max(1, request.nodes)
    return replace(twice, nodes=nodes, gpus_per_node=math.ceil(2 * gpus / nodes))


class SpareCapacity:
    """What is free on the nodes of a snapshot, but for what the active policy wants it for.

    ``advice`` is in the order of the queue: a job that is advised to start has its place, and no job is promised room
    at the cost of an earlier one expected to start there. A running job would come last if it were submitted again.
    """

    def __init__(self, snapshot: SchedulerSnapshot, advice: Iterable[Recommendation], now_s: float) -> None:
        self._planner = MigrationPlanner(snapshot, now_s)
        self._unkept: dict[tuple[str, float], Masks] = {}
        waiting = {job.key: job for job in snapshot.jobs if eligible(job, now_s)}
        self._take_advised(advice, waiting)
        oldest_first = sorted(waiting.values(), key=lambda job: (job.submit_s, job.job_id))
        wishes = [(job.job_id, wish) for job in oldest_first if (wish := self._wish(job)) is not None][:MOST_TESTED]
        lacking = {wish for wish in {wish for _, wish in wishes} if not self._fits(wish)}
        self._waiting = [(job_id, wish) for job_id, wish in wishes if wish in lacking]
        self._largest: dict[str, int] = {}
        for node in self._planner.nodes:
            for partition in node.partitions:
                self._largest[partition] = max(node.gpus, self._largest.get(partition, 1))

    def largest(self, job: Job) -> int:
        """Return the GPUs of the largest node in a job's partitions."""
        return max(self._largest.get(partition, 1) for partition in job.partition.split(","))

    def free_gpus(self, job: Job) -> int:
        """Return the GPUs that are free on the nodes that a job may use."""
        wanted = need(job, self._planner.owners)
        return 0 if wanted is None else int(self._planner.free[self._usable(job, wanted), 0].clip(0).sum())

    def has_room(self, job: Job, request: Request) -> bool:
        """Tell whether a job fits with another request, on what is free and what it holds itself."""
        wish = self._wish(replace(job, request=request))
        return wish is not None and self._fits(wish, [(part.node, _amounts(part)) for part in job.allocations])

    def helped(self, job: Job) -> tuple[str, ...]:
        """Return waiting jobs that would have room, each by itself, if a running job gave up half of its GPUs."""
        if job.state is not JobState.RUNNING:
            return ()
        returned = given_up(job)
        fits = {wish for wish in {wish for _, wish in self._waiting} if self._fits(wish, returned)}
        return tuple(job_id for job_id, wish in self._waiting if wish in fits)[:MOST_HELPED]

    def _take_advised(self, advice: Iterable[Recommendation], waiting: dict[tuple[str, float], Job]) -> None:
        """Give jobs that are to start their places, no longer waiting; note which nodes are kept from which jobs."""
        for row in advice:
            job = waiting.get((row.job_id, row.submit_s))
            wanted = need(job, self._planner.owners) if job is not None else None
            if job is None or wanted is None:
                continue
            if row.action == "start" and row.placement is not None:
                self._planner.take(row.placement, wanted)
                del waiting[job.key]
            elif row.action == "hold":
                self._unkept[job.key] = self._planner.unkept(job.limit_s)
                if row.placement is not None and row.expected_start_s is not None:
                    self._planner.keep(row.placement.nodes, row.expected_start_s)

    def _usable(self, job: Job, wanted: Need) -> Masks:
        """Return the nodes that a job may use beside who is there, and where, started now, it delays no earlier job."""
        unkept = self._unkept.get(job.key)
        usable = self._planner.allowed(wanted) & self._planner.open_to(wanted)
        return usable & (self._planner.unkept(job.limit_s) if unkept is None else unkept)

    def _wish(self, job: Job) -> Wish | None:
        wanted = need(job, self._planner.owners)
        return None if wanted is None else (wanted, self._usable(job, wanted).tobytes())

    def _fits(self, wish: Wish, returned: Returned = ()) -> bool:
        """Tell whether there is room for a wish, on what is free and what is given back."""
        wanted, usable = wish[0], np.frombuffer(wish[1], bool)
        free = self._planner.free.clip(0)
        for node, amounts in returned:
            if node in self._planner.row:
                row = self._planner.row[node]
                free[row] = np.minimum(free[row] + amounts, PLENTY)
        each = (wanted.gpus, max(1, wanted.cpus), max(1, wanted.memory_bytes))
        sets = np.where(usable, (free // each).min(axis=1, initial=wanted.sets), 0)
        ways = (replace(wanted, partitions=(name,)) for name in dict.fromkeys(wanted.partitions))
        return any(self._enough(np.where(self._planner.allowed(way), sets, 0), way) for way in ways)

    def _enough(self, sets: NDArray[np.int64], wanted: Need) -> bool:
        """Tell whether a job has room on the nodes of one partition, by how many of its task sets fit each."""
        fit = int(sets.sum() if wanted.splits else (sets > 0).sum())
        return fit >= wanted.sets and self._planner.has_indispensable(sets > 0, wanted)


def nodes_left(nodes: int) -> int:
    """Return the nodes that a job keeps when it gives up half of several."""
    return nodes - nodes // 2


def given_up(job: Job) -> Returned:
    """Return what a running job gives back when it gives up half.

    A job on one node gives back half its GPUs with their share of the rest; from a job on several nodes Slurm takes
    whole nodes, the last ones.
    """
    if len(job.allocations) != 1:
        return [(part.node, _amounts(part)) for part in job.allocations[nodes_left(len(job.allocations)):]]
    (part,) = job.allocations
    gpus, cpus, memory = _amounts(part)
    given = gpus - gpus // 2
    return [(part.node, (given, cpus * given // max(1, gpus), memory * given // max(1, gpus)))]


def _amounts(part: Allocation) -> Amounts:
    """Return what a job holds of a node, as far as that can be believed."""
    return min(MOST, part.gpus), min(MOST, part.cpus), min(MOST, part.memory_bytes)

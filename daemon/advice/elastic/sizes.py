"""Jobs of another size: what they ask for, whether that is free, who would have room for what they give up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ....storage.eligibility import eligible
from ....storage.records import Job, JobState, Node, Recommendation, Request, SchedulerSnapshot
from ...waste.demand import need
from ...waste.stranded import FreeNodes

MOST_ASKED = 50
"""Waiting jobs that are asked whether they would have room."""
MOST_HELPED = 5
"""Of those that would, so many are named."""

Taken = tuple[int, int, int]
"""GPUs, CPUs, bytes."""


def doubled(request: Request, gpus: int, largest: int) -> Request:
    """Return a request for twice as many GPUs as a job has: on its one node if that can be, else on twice as many.

    ``largest`` is the number of GPUs of the largest node that it may use.
    """
    twice = replace(request, gpus=2 * gpus, cpus=2 * request.cpus, memory_bytes=2 * request.memory_bytes)
    if request.nodes <= 1 and request.gpus_per_node is None:
        return twice  # the scheduler may split them as it likes
    nodes = 1 if request.nodes <= 1 and 2 * gpus <= largest else 2 * max(1, request.nodes)
    return replace(twice, nodes=nodes, gpus_per_node=math.ceil(2 * gpus / nodes))


class Site:
    """The nodes of a snapshot with what is free on them, but for what starts are advised on."""

    def __init__(self, snapshot: SchedulerSnapshot, starts: Iterable[Recommendation], now_s: float) -> None:
        requests = {job.key: job.request for job in snapshot.jobs}
        promised: dict[str, Taken] = {}
        for start in starts:
            request = requests.get((start.job_id, start.submit_s))
            if request is not None and start.placement is not None:
                for node, gpus in zip(start.placement.nodes, start.placement.gpus, strict=True):
                    promised[node] = _plus(promised.get(node, (0, 0, 0)), _share(request, gpus))
        self._nodes = {node.name: _less(node, promised.get(node.name, (0, 0, 0))) for node in snapshot.nodes}
        started = {(start.job_id, start.submit_s) for start in starts}
        waiting = sorted((job for job in snapshot.jobs if job.key not in started and eligible(job, now_s)),
                         key=lambda job: (job.submit_s, job.job_id))
        self._free = FreeNodes(self._nodes.values())
        self._waiting = [job for job in waiting if not _fits(job, self._free)][:MOST_ASKED]

    def largest(self, job: Job) -> int:
        """Return the GPUs of the largest node in a job's partitions."""
        partitions = set(job.partition.split(","))
        return max((node.gpus for node in self._nodes.values() if partitions.intersection(node.partitions)), default=1)

    def free_gpus(self, job: Job) -> int:
        """Return the GPUs that are free on the nodes that a job may use."""
        wanted = need(job)
        return 0 if wanted is None else int(self._free.gpus[self._free.allowed(wanted)].sum())

    def has_room(self, job: Job, request: Request) -> bool:
        """Tell whether a job fits with another request, on what is free and what it holds itself."""
        return _fits(replace(job, request=request), self._returned(_held(job)))

    def helped(self, job: Job, gpus: int) -> tuple[str, ...]:
        """Return waiting jobs that would have room, each by itself, if a running job gave up so many of its GPUs.

        A job of several nodes gives whole nodes up, its last ones; one of a single node its share of CPUs and memory.
        """
        if job.state is not JobState.RUNNING:
            return ()
        free = self._returned(_given_up(job, gpus))
        return tuple(other.job_id for other in self._waiting if _fits(other, free))[:MOST_HELPED]

    def _returned(self, returned: Sequence[tuple[str, Taken]]) -> FreeNodes:
        if not returned:
            return self._free
        given = dict(returned)
        return FreeNodes(_less(node, _minus(given[node.name])) if node.name in given else node
                         for node in self._nodes.values())


def _fits(job: Job, free: FreeNodes) -> bool:
    wanted = need(job)
    if wanted is None or not free.nodes:
        return False
    room = np.where(free.allowed(wanted), np.minimum.reduce(free.room(wanted)), 0)
    return int(room.sum() if wanted.splits else (room > 0).sum()) >= wanted.sets


def _held(job: Job) -> list[tuple[str, Taken]]:
    return [(part.node, (part.gpus, part.cpus, part.memory_bytes)) for part in job.allocations]


def _given_up(job: Job, gpus: int) -> list[tuple[str, Taken]]:
    """Return what a job gives back on which nodes."""
    if len(job.allocations) == 1:
        (part,) = job.allocations
        some = min(gpus, part.gpus) / max(1, part.gpus)
        return [(part.node, (min(gpus, part.gpus), int(part.cpus * some), int(part.memory_bytes * some)))]
    given, left = [], gpus
    for node, taken in reversed(_held(job)):
        if taken[0] <= left:
            given.append((node, taken))
            left -= taken[0]
    return given


def _share(request: Request, gpus: int) -> Taken:
    """Return what so many of a job's GPUs take of a node."""
    whole = max(1, request.gpus)
    return gpus, math.ceil(request.cpus * gpus / whole), math.ceil(request.memory_bytes * gpus / whole)


def _plus(one: Taken, other: Taken) -> Taken:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _minus(taken: Taken) -> Taken:
    return -taken[0], -taken[1], -taken[2]


def _less(node: Node, taken: Taken) -> Node:
    """Return a node of which more is taken, but never more than all, nor less than nothing."""
    if taken == (0, 0, 0):
        return node
    gpus, cpus, memory = taken
    return replace(node, gpus_allocated=min(max(0, node.gpus_allocated + gpus), node.gpus),
                   cpus_allocated=max(0, node.cpus_allocated + cpus),
                   memory_allocated_bytes=max(0, node.memory_allocated_bytes + memory))

"""Jobs of another size: what they ask for, whether that is free, who would have room for what they give up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....storage.eligibility import eligible
from ....storage.records import Job, JobState, Recommendation, Request, SchedulerSnapshot
from ...waste.demand import Need, need
from ..room import Amounts, Ground

MOST_ASKED = 50
"""Waiting jobs that are asked whether they would have room."""
MOST_HELPED = 5
"""Of those that would, so many are named."""

Returned = Sequence[tuple[str, Amounts]]
"""What is given back by node."""


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
    """What is free on the nodes of a snapshot, but for what starts are advised on."""

    def __init__(self, snapshot: SchedulerSnapshot, starts: Iterable[Recommendation], now_s: float) -> None:
        self._ground = Ground(snapshot, now_s)
        jobs, started = {job.key: job for job in snapshot.jobs}, set[tuple[str, float]]()
        for start in starts:
            job = jobs.get((start.job_id, start.submit_s))
            wanted = need(job) if job is not None else None
            if wanted is not None and start.placement is not None:
                self._ground.take(start.placement, wanted)
                started.add((start.job_id, start.submit_s))
        waiting = sorted((job for job in snapshot.jobs if job.key not in started and eligible(job, now_s)),
                         key=lambda job: (job.submit_s, job.job_id))
        wishes = [(job.job_id, wanted) for job in waiting if (wanted := need(job)) is not None][:MOST_ASKED]
        lacking = {wanted for wanted in {wanted for _, wanted in wishes} if not self._fits(wanted)}
        self._waiting = [(job_id, wanted) for job_id, wanted in wishes if wanted in lacking]
        self._largest: dict[str, int] = {}
        for node in self._ground.nodes:
            for partition in node.partitions:
                self._largest[partition] = max(node.gpus, self._largest.get(partition, 1))

    def largest(self, job: Job) -> int:
        """Return the GPUs of the largest node in a job's partitions."""
        return max(self._largest.get(partition, 1) for partition in job.partition.split(","))

    def free_gpus(self, job: Job) -> int:
        """Return the GPUs that are free on the nodes that a job may use."""
        wanted = need(job)
        return 0 if wanted is None else int(self._ground.free[self._ground.allowed(wanted), 0].clip(0).sum())

    def has_room(self, job: Job, request: Request) -> bool:
        """Tell whether a job fits with another request, on what is free and what it holds itself."""
        wanted = need(replace(job, request=request))
        held = [(part.node, (part.gpus, part.cpus, part.memory_bytes)) for part in job.allocations]
        return wanted is not None and self._fits(wanted, held)

    def helped(self, job: Job, gpus: int) -> tuple[str, ...]:
        """Return waiting jobs that would have room, each by itself, if a running job gave up so many of its GPUs.

        A job of several nodes gives whole nodes up, its last ones; one of a single node its share of CPUs and memory.
        """
        if job.state is not JobState.RUNNING:
            return ()
        returned = _given_up(job, gpus)
        fits = {wanted for wanted in {wanted for _, wanted in self._waiting} if self._fits(wanted, returned)}
        return tuple(job_id for job_id, wanted in self._waiting if wanted in fits)[:MOST_HELPED]

    def _fits(self, wanted: Need, returned: Returned = ()) -> bool:
        """Tell whether there is room for a need, on what is free and what is given back."""
        free = self._ground.free.clip(0)
        for node, amounts in returned:
            if node in self._ground.row:
                free[self._ground.row[node]] += amounts
        each = (wanted.gpus, max(1, wanted.cpus), max(1, wanted.memory_bytes))
        sets = (free[self._ground.allowed(wanted)] // each).min(axis=1, initial=wanted.sets)
        return int(sets.sum() if wanted.splits else (sets > 0).sum()) >= wanted.sets


def _given_up(job: Job, gpus: int) -> Returned:
    """Return what a job gives back on which nodes."""
    if len(job.allocations) == 1:
        (part,) = job.allocations
        some = min(gpus, part.gpus) / max(1, part.gpus)
        return [(part.node, (min(gpus, part.gpus), int(part.cpus * some), int(part.memory_bytes * some)))]
    given, left = list[tuple[str, Amounts]](), gpus
    for part in reversed(job.allocations):
        if part.gpus <= left:
            given.append((part.node, (part.gpus, part.cpus, part.memory_bytes)))
            left -= part.gpus
    return given

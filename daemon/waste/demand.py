"""What jobs need of a node, and how often each need is asked for: the demand mix of the last seven days."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...storage.records import Job, Request

DAY_S = 86400.0
DAYS = 7
MOST_SHAPES_A_DAY = 1000
PLENTY = 2**62
"""More of anything than a node has, and what fits an array: "unlimited" may come as 2**64."""
MOST_CLASSES = 50
"""Task classes that the index weighs; the rest are rare by construction."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one task set of a job needs of one node, and how many such sets the job needs."""

    partitions: tuple[str, ...]
    gpus: int
    cpus: int
    memory_bytes: int
    sets: int
    splits: bool = False
    """Several sets may share a node: the scheduler may spread the GPUs as it likes."""
    model: str = ""
    features: str = ""
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    reservation: str = ""
    exclusive: bool = False
    switches: int = 0
    """Most places of the closest level (NVLink domains, leaf switches) that it may be spread over now; 0 for any."""

    @property
    def total_gpus(self) -> int:
        """Return the GPUs of all sets together."""
        return self.gpus * self.sets


def need(job: Job) -> Need | None:
    """Return what a job needs of each node; None for a job without GPUs."""
    request = job.request
    if request.gpus <= 0 and (request.gpus_per_node or 0) <= 0:
        return None
    gpus, sets, splits = _sets(request)
    cpus, memory = (min(amount, PLENTY) // sets for amount in (request.cpus + sets - 1, request.memory_bytes))
    return Need(tuple(job.partition.split(",")), min(gpus, PLENTY), cpus, memory, sets, splits,
                request.gpu_model.lower(), request.features, request.required_nodes, request.excluded_nodes,
                request.reservation, request.exclusive)


def need_now(job: Job, now_s: float) -> Need | None:
    """Return what a job needs of each node, and how close together these must be at this moment."""
    wanted, details = need(job), job.request.details
    given_up = details.switches_until_s is not None and now_s >= details.switches_until_s
    if wanted is None or wanted.sets == 1 or not details.switches or given_up:
        return wanted
    return replace(wanted, switches=details.switches)


def _sets(request: Request) -> tuple[int, int, bool]:
    """Return GPUs per set, the number of sets and whether they may share a node."""
    nodes = max(1, request.nodes)
    if request.gpus_per_node is not None and request.gpus_per_node > 0:
        return request.gpus_per_node, max(nodes, math.ceil(request.gpus / request.gpus_per_node)), False
    if nodes == 1:
        return 1, request.gpus, True
    return math.ceil(request.gpus / nodes), nodes, False


class DemandMix:
    """Count each submission once, by what it needs, in buckets of a day."""

    def __init__(self) -> None:
        self._days: dict[int, Counter[Need]] = {}
        self._seen: set[tuple[str, float]] = set()
        self._mixes: dict[str, list[tuple[Need, float]]] = {}

    def observe(self, jobs: Iterable[Job], now_s: float) -> None:
        """Count the jobs that the last snapshot did not have."""
        seen = {job.key for job in jobs}
        for job in jobs:
            if job.key not in self._seen:
                self._count(job, now_s)
        self._seen = seen
        today = int(now_s // DAY_S)
        for day in [day for day in self._days if not today - DAYS < day <= today]:
            del self._days[day]
            self._mixes.clear()

    def _count(self, job: Job, now_s: float) -> None:
        day = int(min(job.submit_s, now_s) // DAY_S)
        wanted = need(job)
        if wanted is None:
            return
        shape = replace(wanted, required_nodes=(), excluded_nodes=(), reservation="")
        counts = self._days.setdefault(day, Counter())
        if shape in counts or len(counts) < MOST_SHAPES_A_DAY:
            counts[shape] += job.tasks
            self._mixes.clear()

    def mix(self, partition: str) -> list[tuple[Need, float]]:
        """Return the task classes asked of a partition with their shares, which add up to 1."""
        if partition not in self._mixes:
            counts: Counter[Need] = Counter()
            for day in self._days.values():
                counts.update({shape: count for shape, count in day.items() if partition in shape.partitions})
            top = counts.most_common(MOST_CLASSES)
            total = sum(count for _, count in top)
            self._mixes[partition] = [(shape, count / total) for shape, count in top]
        return self._mixes[partition]

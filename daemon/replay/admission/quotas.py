"""Quotas of queues that lend to one another: what one more job would exceed, and which jobs would give back.

What is free is worked out as Kueue does it for cohorts of one level: a queue keeps what it does not lend, shares the
rest with its cohort, and borrows up to its limit. In a cohort that stands under another, or has quotas of its own,
only what is within the queue's own quota is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....storage.quotas import ANY, LOWER_PRIORITY, Queue, Quota
from ....storage.recommendations import Placement
from ....storage.records import Job, JobState, SchedulerSnapshot
from ....storage.waiting import WaitReason

_NAMES = {"gpu": "GPUs", "cpu": "CPUs", "mem": "bytes of memory", "pods": "pods"}
_LEAST = 1e-6
"""Sums of fractions of CPUs are inexact: a quota that is used up exactly is not exceeded."""
Key = tuple[str, str, str]
"""Queue, flavor and resource."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A quota that a job would exceed."""

    reason: str
    unknown: bool = False
    """Whether nobody here can tell."""


class Quotas:
    """What each queue uses; ``add`` books another job, ``give_back`` takes one off."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        self._queues = {queue.name: queue for queue in snapshot.rules.queues}
        self._nodes = {one.flavor: one.nodes for one in snapshot.rules.flavors}
        self._used: Counter[Key] = Counter()
        for queue in self._queues.values():
            for quota in queue.quotas:
                self._used[queue.name, quota.flavor, quota.resource] = quota.used  # type: ignore[assignment]

        self._ample = frozenset(self._found_ample(snapshot))
        """Quotas of no less than their nodes have: a job that waits for these waits for nodes."""

    def _found_ample(self, snapshot: SchedulerSnapshot) -> Iterator[Key]:
        for queue in self._queues.values():
            for quota in queue.quotas:
                nodes = [node for node in snapshot.nodes if node.name in self._nodes.get(quota.flavor, ())]
                has = {"gpu": sum(node.gpus for node in nodes), "cpu": sum(node.cpus for node in nodes),
                       "mem": sum(node.memory_bytes for node in nodes)}.get(quota.resource)
                if nodes and has is not None and quota.nominal >= has:
                    yield queue.name, quota.flavor, quota.resource

    def copy(self) -> Quotas:
        """Return quotas of which more can be booked."""
        other = object.__new__(Quotas)
        other.__dict__.update(self.__dict__)
        other._used = Counter(self._used)
        return other

    def judges(self, job: Job) -> bool:
        """Tell whether a job waits for a quota that is known here."""
        return job.reason is WaitReason.QUOTA and job.request.details.queue in self._queues

    def shortage(self, job: Job, wants: Mapping[str, float], placement: Placement | None) -> Shortage | None:
        """Return the quota that a start would exceed in each kind of nodes that it may use; None where none."""
        queue = self._queue(job)
        if queue is None:
            return None
        first = None
        for flavor in self._flavors(queue, placement):
            found = self._lacking(queue, flavor, wants)
            if found is None:
                return None
            first = first or found
        return first

    def add(self, job: Job, wants: Mapping[str, float], placement: Placement) -> None:
        """Book what a job uses, on the first kind of nodes that has its quota."""
        queue = self._queue(job)
        flavors = list(self._flavors(queue, placement)) if queue else []
        flavor = next((one for one in flavors if queue and self._lacking(queue, one, wants) is None),
                      flavors[0] if flavors else None)
        for quota in queue.quotas if queue else ():
            if quota.flavor == flavor:
                self._used[queue.name, flavor, quota.resource] += wants.get(quota.resource, 0.0)  # type: ignore

    def give_back(self, job: Job, held: Mapping[str, float]) -> None:
        """Take off what a running job uses."""
        queue = self._queues.get(job.request.details.queue)
        for key in self._keys(job):
            if queue is not None:
                self._used[key] = max(0.0, self._used[key] - held.get(key[2], 0.0))  # type: ignore[assignment]

    def lenders(self, job: Job, wants: Mapping[str, float]) -> Queue | None:
        """Return the queue of a job where it may take back what it has lent: within its own quota; else None."""
        queue = self._queue(job)
        if queue is None or not queue.cohort or queue.nested or queue.reclaims not in (ANY, LOWER_PRIORITY):
            return None
        within = any(all(self._used[queue.name, flavor, quota.resource] + wants.get(quota.resource, 0.0)
                         <= quota.nominal + _LEAST for quota in queue.quotas if quota.flavor == flavor)
                     for flavor in self._flavors(queue, None))
        return queue if within else None

    def yields(self, queue: Queue, job: Job, other: Job) -> bool:
        """Tell whether a running job uses what its queue has borrowed of a cohort, and may be preempted for that."""
        borrower = self._queues.get(other.request.details.queue)
        if other.state is not JobState.RUNNING or borrower is None or borrower.name == queue.name \
                or borrower.cohort != queue.cohort:
            return False
        if queue.reclaims == LOWER_PRIORITY and (other.priority or 0.0) >= (job.priority or 0.0):
            return False
        return any(self._used[key] > quota.nominal + _LEAST for key, quota in zip(
            self._keys(other), (one for one in borrower.quotas if self._is_of(one, other)), strict=True))

    def _queue(self, job: Job) -> Queue | None:
        if job.steering is not None and job.steering.reserved:
            return None  # what it uses is counted already
        return self._queues.get(job.request.details.queue)

    def _flavors(self, queue: Queue, placement: Placement | None) -> Iterator[str]:
        nodes = set(placement.nodes) if placement else set[str]()
        for flavor in dict.fromkeys(quota.flavor for quota in queue.quotas):
            if nodes <= self._nodes.get(flavor, frozenset(nodes)):
                yield flavor

    def _is_of(self, quota: Quota, job: Job) -> bool:
        nodes = self._nodes.get(quota.flavor)
        return nodes is None or any(part.node in nodes for part in job.allocations)

    def _keys(self, job: Job) -> list[Key]:
        queue = self._queues[job.request.details.queue]
        return [(queue.name, quota.flavor, quota.resource) for quota in queue.quotas if self._is_of(quota, job)]

    def _lacking(self, queue: Queue, flavor: str, wants: Mapping[str, float]) -> Shortage | None:
        for quota in queue.quotas:
            asks = wants.get(quota.resource, 0.0)
            if quota.flavor != flavor or asks <= 0 or (queue.name, flavor, quota.resource) in self._ample:
                continue
            used = self._used[queue.name, flavor, quota.resource]
            if queue.nested and queue.cohort and used + asks > quota.nominal + _LEAST:
                return Shortage(f"unknown: what queue {queue.name} may borrow of cohort {queue.cohort}, which has more "
                                "than its queues, is not known", unknown=True)
            free = self._free(queue, quota, used)
            if asks > free + _LEAST:
                return Shortage(_shortage_text(queue, quota, used, asks, free))
        return None

    def _free(self, queue: Queue, quota: Quota, used: float) -> float:
        """Return how much more a queue may use now."""
        if not queue.cohort or queue.nested:
            return quota.nominal - used
        shared = 0.0
        for other in self._queues.values():
            for one in other.quotas if other.cohort == queue.cohort else ():
                if (one.flavor, one.resource) == (quota.flavor, quota.resource):
                    kept = _kept(one)
                    shared += one.nominal - kept - max(0.0, self._used[other.name, one.flavor, one.resource] - kept)
        free = max(0.0, _kept(quota) - used) + shared
        return free if quota.borrowing is None else min(free, quota.nominal + quota.borrowing - used)


def _kept(quota: Quota) -> float:
    """Return what a queue lends to nobody."""
    return 0.0 if quota.lending is None else max(0.0, quota.nominal - quota.lending)


def _shortage_text(queue: Queue, quota: Quota, used: float, asks: float, free: float) -> str:
    what = _NAMES.get(quota.resource, quota.resource)
    cohort = f", and cohort {queue.cohort} lends {max(0.0, free):g} more" if queue.cohort else ""
    return (f"the quota of queue {queue.name} is {quota.nominal:g} {what} ({quota.flavor}): {used:g} in use, "
            f"it needs {asks:g}{cohort}")

"""Stranded GPUs: what jobs need of a node, the free GPUs that no eligible pending job can use, and what binds first.

How often each need is requested, the demand mix of the last seven days, tells what free GPUs are good for in general.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...storage.eligibility import eligible, has_features, same_model
from ...storage.records import Job, Node, NodeState, Request, StrandedCause
from .holders import MOST_GPUS

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
    user: str = ""
    """Whose it is, where that user has nodes that nobody else may use, or is to be alone on the job's."""
    alone: bool = False
    """It shares nodes with jobs of its user only."""

    @property
    def total_gpus(self) -> int:
        """Return the GPUs of all sets together."""
        return self.gpus * self.sets

    @property
    def least_nodes(self) -> int:
        """Return on how many nodes the job runs at least."""
        return 1 if self.splits else self.sets

    @property
    def indispensable(self) -> tuple[str, ...]:
        """Return the nodes that the job takes all of; of more than it needs, as Kubernetes names them, any will do."""
        return self.required_nodes if len(self.required_nodes) <= self.least_nodes else ()


def owners_of(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the users who have nodes that nobody else may use."""
    return frozenset(node.owner for node in nodes if node.owner)


def need(job: Job, owners: Collection[str] = ()) -> Need | None:
    """Return what a job needs of each node, some of which have owners; None for a job without GPUs."""
    request = job.request
    if request.gpus <= 0 and (request.gpus_per_node or 0) <= 0:
        return None
    gpus, sets, splits = _sets(request)
    alone = request.details.exclusive_user
    cpus, memory = (min(amount, PLENTY) // sets for amount in (request.cpus + sets - 1, request.memory_bytes))
    return Need(tuple(job.partition.split(",")), min(gpus, PLENTY), cpus, memory, sets, splits,
                request.gpu_model.lower(), request.features, request.required_nodes, request.excluded_nodes,
                request.reservation, request.exclusive, alone=alone,
                user=job.user if alone or job.user in owners else "")


def need_now(job: Job, now_s: float, owners: Collection[str] = ()) -> Need | None:
    """Return what a job needs of each node, and how close together these must be at this moment."""
    wanted, details = need(job, owners), job.request.details
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
        shape = replace(wanted, required_nodes=(), excluded_nodes=(), reservation="", user="", alone=False)
        counts = self._days.setdefault(day, Counter())
        if shape in counts or len(counts) < MOST_SHAPES_A_DAY:
            counts[shape] += job.tasks
            self._mixes.clear()

    def mix(self, partition: str) -> list[tuple[Need, float]]:
        """Return the task classes requested of a partition with their shares, which add up to 1."""
        if partition not in self._mixes:
            counts: Counter[Need] = Counter()
            for day in self._days.values():
                counts.update({shape: count for shape, count in day.items() if partition in shape.partitions})
            top = counts.most_common(MOST_CLASSES)
            total = sum(count for _, count in top)
            self._mixes[partition] = [(shape, count / total) for shape, count in top]
        return self._mixes[partition]


Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

class FreeNodes:
    """The nodes with free GPUs that may start jobs, as arrays."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = [node for node in nodes
                      if node.gpus > node.gpus_allocated
                      and (node.state.schedulable or node.state is NodeState.RESERVED)]
        self.index = {node.name: position for position, node in enumerate(self.nodes)}
        self.owners = owners_of(self.nodes)
        self.gpus = self._counts([min(node.gpus - node.gpus_allocated, MOST_GPUS) for node in self.nodes])
        self._cpus = self._counts([_left(node.cpus, node.cpus_allocated) for node in self.nodes])
        self._memory = self._counts([_left(node.memory_bytes, node.memory_allocated_bytes) for node in self.nodes])
        self._partitions: dict[str, Mask] = {}
        self._allowed: dict[tuple[object, ...], Mask] = {}
        self._places: Counts | None = None

    @staticmethod
    def _counts(values: list[int]) -> Counts:
        return np.array(values, dtype=np.int64)

    def _mask(self, flags: Iterable[bool]) -> Mask:
        return np.fromiter(flags, dtype=np.bool_, count=len(self.nodes))

    def in_partition(self, partition: str) -> Mask:
        """Return which nodes serve a partition."""
        if partition not in self._partitions:
            self._partitions[partition] = self._mask(partition in node.partitions for node in self.nodes)
        return self._partitions[partition]

    def addressed(self, wanted: Need) -> Mask:
        """Return which nodes are in the partitions that a job was submitted to."""
        mask = self.in_partition(wanted.partitions[0])
        for partition in wanted.partitions[1:]:
            mask = mask | self.in_partition(partition)
        return mask

    def allowed(self, wanted: Need) -> Mask:
        """Return which nodes satisfy everything that does not depend on how much is free."""
        key = (wanted.partitions, wanted.model, wanted.features, wanted.required_nodes, wanted.excluded_nodes,
               wanted.reservation, wanted.exclusive, wanted.splits, wanted.user,
               wanted.sets if wanted.features or wanted.required_nodes else 0)
        if key not in self._allowed:
            self._allowed[key] = self.addressed(wanted) & self._satisfying(wanted)
        return self._allowed[key]

    def _satisfying(self, wanted: Need) -> Mask:
        """Return which nodes meet the constraints of a job: none where one that it cannot do without is not free."""
        if not self.index.keys() >= set(wanted.indispensable):
            return np.zeros(len(self.nodes), np.bool_)
        own = sum(self.nodes[self.index[name]].gpus for name in wanted.indispensable)
        # Too small for all its GPUs even when empty, the named nodes are not all that the job takes.
        lifted = replace(wanted, required_nodes=()) if wanted.splits and 0 < own < wanted.sets else wanted
        return self._mask(satisfies(node, lifted) for node in self.nodes)

    def has_indispensable(self, mask: Mask, wanted: Need) -> bool:
        """Tell whether all nodes that a job cannot do without are among some."""
        return all(name in self.index and mask[self.index[name]] for name in wanted.indispensable)

    def close_together(self, sets: Counts, wanted: Need) -> Mask:
        """Return which nodes are in places of the closest level that can hold the job, no more than it may have."""
        if not wanted.switches:
            return np.ones(len(self.nodes), np.bool_)
        if self._places is None:
            names = [(node.leaf or node.name, node.spine) for node in self.nodes]
            numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
            self._places = np.array([numbers[name] for name in names], np.int64)
        have = np.bincount(self._places, weights=sets)
        most = np.sort(have)[::-1][:wanted.switches]
        # With the largest others: the place itself is one of those, or takes the place of the last.
        together = np.where(have >= most[-1], most.sum(), most[:-1].sum() + have)
        return np.asarray((together >= wanted.sets)[self._places], np.bool_)

    def room(self, wanted: Need) -> tuple[Counts, Counts, Counts]:
        """Return how many task sets fit each node by its free GPUs, CPUs and memory."""
        return (self.gpus // wanted.gpus, self._cpus // max(1, wanted.cpus),
                self._memory // max(1, wanted.memory_bytes))


def _left(total: int, allocated: int) -> int:
    """Return what is left; of an amount that the scheduler does not tell there is plenty."""
    return min(max(0, total - allocated), PLENTY) if total > 0 else PLENTY


def satisfies(node: Node, wanted: Need) -> bool:
    """Tell whether a node meets the type, feature, list, reservation and owner constraints of a job."""
    if node.name in wanted.excluded_nodes or node.reservation != wanted.reservation:
        return False
    if (node.state is NodeState.RESERVED and not wanted.reservation) or node.owner not in ("", wanted.user):
        return False
    # With fewer nodes named than needed the job may use others too.
    if node.name not in wanted.required_nodes and wanted.least_nodes <= len(wanted.required_nodes):
        return False
    if wanted.exclusive and (node.gpus_allocated or node.cpus_allocated):
        return False
    if not same_model(wanted.model, node.gpu_model):
        return False
    return has_features(node.features, wanted.features, 1 if wanted.splits else wanted.sets)


class PendingQueue:
    """The eligible pending jobs laid over the free nodes."""

    def __init__(self, nodes: Sequence[Node], jobs: Iterable[Job], now_s: float) -> None:
        self.free = FreeNodes(nodes)
        count = len(self.free.nodes)
        self._waiting = np.zeros(count, np.bool_)
        self._usable = np.zeros(count, np.bool_)
        self._allowed = np.zeros(count, np.bool_)
        self._short_of_cpu = np.zeros(count, np.bool_)
        self._short_of_memory = np.zeros(count, np.bool_)
        self._apart = np.zeros(count, np.bool_)
        self._smallest: dict[str, int] = {}
        wanted = (need_now(job, now_s, self.free.owners) for job in jobs if eligible(job, now_s))
        for shape in dict.fromkeys(shape for shape in wanted if shape is not None):
            self._lay(shape)
        self._enough = {partition: int(self.free.gpus[self.free.in_partition(partition)].sum()) >= smallest
                        for partition, smallest in self._smallest.items()}

    def _lay(self, wanted: Need) -> None:
        """Find ``N(j)``, the nodes with room for a task set; in each partition by itself they have to be enough."""
        for partition in wanted.partitions:
            smallest = self._smallest.get(partition, wanted.total_gpus)
            self._smallest[partition] = min(smallest, wanted.total_gpus)
        self._waiting |= self.free.addressed(wanted)
        allowed = self.free.allowed(wanted)
        self._allowed |= allowed
        by_gpus, by_cpus, by_memory = self.free.room(wanted)
        gpus_fit = allowed & (by_gpus > 0)
        if not gpus_fit.any():
            return
        self._short_of_cpu |= gpus_fit & (by_cpus == 0)
        self._short_of_memory |= gpus_fit & (by_cpus > 0) & (by_memory == 0)
        fits = gpus_fit & (by_cpus > 0) & (by_memory > 0)
        sets = np.where(fits, np.minimum(np.minimum(by_gpus, by_cpus), by_memory) if wanted.splits else 1, 0)
        for partition in wanted.partitions:
            self._lay_within(self.free.in_partition(partition), sets, wanted)

    def _lay_within(self, partition: Mask, sets: Counts, wanted: Need) -> None:
        """Make the nodes of one partition usable where they are enough: no job runs in two at a time."""
        sets = np.where(partition, sets, 0)
        if sets.sum() >= wanted.sets and self.free.has_indispensable(sets > 0, wanted):
            fits, close = sets > 0, self.free.close_together(sets, wanted)
            self._usable |= fits & close
            self._apart |= fits & ~close

    def cause(self, node: str) -> StrandedCause | None:
        """Return what strands the free GPUs of a node; None when a job can use them or none is waiting for them."""
        position = self.free.index.get(node)
        if position is None or not self._waiting[position] or self._usable[position]:
            return None
        if self._short_of_cpu[position]:
            return StrandedCause.CPU
        if self._short_of_memory[position]:
            return StrandedCause.MEMORY
        if not self._allowed[position]:
            return StrandedCause.CONSTRAINT
        if self._apart[position]:
            return StrandedCause.TOPOLOGY
        enough = any(self._enough.get(partition, False) for partition in self.free.nodes[position].partitions)
        return StrandedCause.GPU_FRAGMENT if enough else StrandedCause.INSUFFICIENT


def fragmentation(free: FreeNodes, partition: str, mix: Sequence[tuple[Need, float]]) -> float | None:
    """Return the share of a partition's free GPUs that its usual demand cannot use.

    ``F_n = sum over classes m of pi_m * free_gpus(n) * [n cannot host a task of m]`` (FGD, ATC'23), summed over the
    nodes and divided by the free GPUs: independent of the queue of the moment. None without free GPUs or demand.
    """
    here = free.in_partition(partition)
    gpus = free.gpus[here]
    if not mix or not gpus.sum():
        return None
    lost = 0.0
    for wanted, share in mix:
        by_gpus, by_cpus, by_memory = free.room(wanted)
        hosts = free.allowed(wanted) & (by_gpus > 0) & (by_cpus > 0) & (by_memory > 0)
        lost += share * float(gpus[~hosts[here]].sum())
    return lost / float(gpus.sum())

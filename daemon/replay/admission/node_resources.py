"""The nodes of a live snapshot and what is free on them now, laid out so that one job can be tried at a time.

The engine knows equal parts on any nodes that a job may use. Slurm knows more: GPUs split as they fit, nodes side by
side, under one switch, with features in counts, whole cores, memory by CPU or by GPU. What starts *now* is tried here.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ....storage.eligibility import has_features, same_model
from ....storage.recommendations import Placement
from ....storage.records import Job, JobState, NodeState, SchedulerSnapshot
from ..cluster import PLENTY
from .resource_demand import ResourceDemand, counts

HISTORIES, USUAL, FRESH = 2, 0, 1
LOOKED_AT = 511
"""Weight of a node in Slurm once a job that could use it was tried, of nodes whose ``Weight`` is 1."""
Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]


class NodeResources:
    """Nodes by row, and what is free on them; ``take`` books what starts."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        self.nodes = tuple({node.name: node for node in snapshot.nodes}.values())
        self.row = {node.name: row for row, node in enumerate(self.nodes)}
        self.site = snapshot.rules.site
        self.gpus = _longs(node.gpus for node in self.nodes)
        self.cpus = _longs(node.cpus or PLENTY for node in self.nodes)
        self.memory = _longs(node.memory_bytes or PLENTY for node in self.nodes)
        whole = self.site.cores_whole is not False
        self.threads = _longs(max(1, node.threads_per_core) if whole else 1 for node in self.nodes)
        self.sockets = min((node.sockets for node in self.nodes if node.gpus and node.sockets), default=1)
        self.free_gpus = _longs(max(0, node.gpus - node.gpus_allocated) for node in self.nodes)
        self.free_cpus = _longs(max(0, node.cpus - node.cpus_allocated) if node.cpus else PLENTY for node in self.nodes)
        self.free_memory = _longs(max(0, node.memory_bytes - node.memory_allocated_bytes) if node.memory_bytes
                                  else PLENTY for node in self.nodes)
        self.busy = self.mask(bool(node.gpus_allocated or node.cpus_allocated) for node in self.nodes)
        self.open = self.mask(node.state.schedulable or node.state is NodeState.RESERVED for node in self.nodes)
        self.leaf = np.unique([f"{node.spine}/{node.leaf}" for node in self.nodes], return_inverse=True)[1]
        self._slices = {(row, name): total - taken for row, node in enumerate(self.nodes)
                        for name, total, taken in node.slices}
        self.users = [frozenset[str]()] * len(self.nodes)
        self.owners = [node.owner for node in self.nodes]
        self._note_users(snapshot.jobs)
        self._idle = False
        self.as_planned = False
        """Nodes are picked as Slurm picks them for waiting jobs, not the fullest first."""
        self.weights = np.full((HISTORIES, len(self.nodes)), LOOKED_AT)
        """What Slurm prefers nodes by, the least first, as left by the last job looked at; copies share it.

        By what happened before, of which nobody tells: every node was looked at by now, or the controller has just read
        its configuration.
        """
        self.weights[FRESH] = 0
        self.history = USUAL
        """That of them which counts."""
        self._features: dict[tuple[str, int], Mask] = {}
        self._suited: dict[tuple[object, ...], Mask] = {}
        self._members: dict[str, Mask] = {}
        self._partitions = {partition.name: partition for partition in snapshot.partitions}

    def _note_users(self, jobs: Iterable[Job]) -> None:
        """Note which users run where, and where nobody else may."""
        for job in (job for job in jobs if job.state.active):
            for part in job.allocations:
                row = self.row.get(part.node)
                if row is None:
                    continue
                self.users[row] |= {job.user}
                if job.request.details.exclusive_user:
                    self.owners[row] = job.user
                if job.request.exclusive and job.state is not JobState.COMPLETING:
                    self.free_cpus[row] = self.free_gpus[row] = 0

    def gpu_model(self, name: str) -> str:
        """Return the type of a node's GPUs; '' where it is not known."""
        return self.nodes[self.row[name]].gpu_model

    def mask(self, flags: Iterable[bool]) -> Mask:
        """Return flags as an array."""
        return np.fromiter(flags, np.bool_, len(self.nodes))

    def named(self, names: Iterable[str]) -> Mask:
        """Return which nodes are among some names."""
        mask = np.zeros(len(self.nodes), np.bool_)
        mask[[self.row[name] for name in names if name in self.row]] = True
        return mask

    def members(self, partition: str) -> Mask:
        """Return which nodes serve a partition."""
        if partition not in self._members:
            known = self._partitions.get(partition)
            names = set(known.nodes) if known else set()
            self._members[partition] = self.mask(node.name in names or partition in node.partitions
                                                 for node in self.nodes)
        return self._members[partition]

    def featured(self, expression: str, nodes: int) -> Mask:
        """Return which nodes may be one of so many that meet an expression."""
        key = expression, nodes
        if key not in self._features:
            by_set: dict[tuple[str, ...], bool] = {}
            for node in self.nodes:
                if node.features not in by_set:
                    by_set[node.features] = has_features(node.features, expression, nodes)
            self._features[key] = self.mask(by_set[node.features] for node in self.nodes)
        return self._features[key]

    def suited(self, job: Job, demand: ResourceDemand, features: str) -> Mask:
        """Return which nodes have what a job asks for, whatever is free, open or reserved there."""
        request = job.request
        key = features, demand.least if features else 0, request.gpu_model, request.excluded_nodes
        if key not in self._suited:
            mask = self.featured(features, demand.least) if features else np.ones(len(self.nodes), bool)
            if request.gpu_model:
                mask = mask & self.mask(same_model(request.gpu_model, node.gpu_model) for node in self.nodes)
            if request.excluded_nodes:
                mask = mask & ~self.named(request.excluded_nodes)
            self._suited[key] = mask
        return self._suited[key]

    def large_enough(self, job: Job) -> Mask:
        """Return the nodes that have the CPUs and the memory which a job asks of each node, whatever is free there.

        Slurm's scheduler lists no others (``_build_node_list``).
        """
        details = job.request.details
        return (self.cpus >= details.cpus_per_node) & (self.memory >= details.memory_per_node_bytes)

    def configured(self, job: Job, demand: ResourceDemand) -> Mask:
        """Return the nodes that Slurm's backfill plans with: none that a job excludes, none without its features.

        Only jobs that end on these nodes are moments at which it looks again (``_attempt_backfill``).
        """
        request = job.request
        features = "" if counts(request.features) else request.features
        key = "configured", features, demand.least if features else 0, request.excluded_nodes
        if key not in self._suited:
            mask = self.featured(features, demand.least) if features else np.ones(len(self.nodes), bool)
            self._suited[key] = mask & ~self.named(request.excluded_nodes)
        return self._suited[key]

    def with_slices(self, job: Job) -> Mask:
        """Return which nodes can give all the parts of GPUs that a job asks for."""
        wanted = job.request.details.slices
        return self.mask(all(self._slices.get((row, name), 0) >= count for name, count in wanted)
                         for row in range(len(self.nodes)))

    def take_slices(self, job: Job, placement: Placement) -> None:
        """Book the parts of GPUs that a job takes."""
        for name, count in job.request.details.slices:
            key = self.row[placement.nodes[0]], name
            self._slices[key] = self._slices.get(key, 0) - count

    def shared(self, demand: ResourceDemand, user: str) -> Mask:
        """Return which nodes a job may share with the jobs that are there now."""
        return ~self.busy if demand.exclusive else self.unowned(demand, user)

    def unowned(self, demand: ResourceDemand, user: str) -> Mask:
        """Return which nodes are kept by no other user now, and used by none where the job shares with no other."""
        if demand.alone:
            return self.mask(not there - {user} for there in self.users)
        if any(self.owners):
            return self.mask(owner in ("", user) for owner in self.owners)
        return np.ones(len(self.nodes), bool)

    def empty(self) -> NodeResources:
        """Return the same nodes with nothing on them, to see what could ever start."""
        other = object.__new__(NodeResources)
        other.__dict__.update(self.__dict__)
        other.free_gpus, other.free_cpus, other.free_memory = self.gpus, self.cpus, self.memory
        other.busy, other.users = np.zeros(len(self.nodes), bool), [frozenset()] * len(self.nodes)
        other.owners, other._idle = [""] * len(self.nodes), True
        other._slices = {(row, name): total for row, node in enumerate(self.nodes) for name, total, _ in node.slices}
        return other

    def copy(self) -> NodeResources:
        """Return a copy of which things can be taken."""
        other = object.__new__(NodeResources)
        other.__dict__.update(self.__dict__)
        for name in ("free_gpus", "free_cpus", "free_memory", "busy"):
            setattr(other, name, getattr(self, name).copy())
        other.users, other.owners = list(self.users), list(self.owners)
        other._slices = dict(self._slices)
        return other

    def shared_out(self, cpus: NDArray[np.int64]) -> NodeResources:
        """Return a copy with no more free CPUs on each node than a partition's jobs may still use there."""
        other = self.copy()
        other.free_cpus = np.minimum(other.free_cpus, np.maximum(0, cpus))
        return other

    def clear(self, rows: NDArray[np.int64]) -> None:
        """Leave nobody on some nodes, and all of them free."""
        self.free_gpus[rows], self.free_memory[rows] = self.gpus[rows], self.memory[rows]
        self.busy[rows] = False
        for row in rows.tolist():
            self.users[row], self.owners[row] = frozenset(), ""

    def give_back(self, job: Job) -> None:
        """Free what a running job holds."""
        for part in job.allocations:
            row = self.row.get(part.node)
            if row is None:
                continue
            node = self.nodes[row]
            self.free_gpus[row] = min(self.gpus[row], self.free_gpus[row] + part.gpus)
            self.free_cpus[row] = min(self.cpus[row], self.free_cpus[row] + part.cpus)
            self.free_memory[row] = min(self.memory[row], self.free_memory[row] + part.memory_bytes)
            if job.request.exclusive or self.free_cpus[row] == self.cpus[row]:
                self.free_gpus[row], self.free_cpus[row] = self.gpus[row], self.cpus[row]
                self.busy[row], self.users[row], self.owners[row] = False, frozenset(), ""
                self.free_memory[row] = self.memory[row] if node.memory_bytes else PLENTY

    # What one job takes of each node.

    def least_gpus(self, demand: ResourceDemand) -> int:
        """Return the fewest GPUs of a job on each of its nodes."""
        if demand.gpus == 0:
            return 0
        return demand.per_node or max(1, demand.per_task)

    def cpus_for(self, demand: ResourceDemand, tasks: Counts, gpus: Counts) -> Counts:
        """Return the CPUs that so many tasks and GPUs take on each node, in whole cores."""
        wanted = np.maximum(tasks * demand.cpus_per_task, demand.cpus_per_node)
        wanted = np.maximum(wanted, gpus * demand.cpus_per_gpu)
        if demand.one_thread:
            wanted = wanted * self.threads
        return np.asarray(-(-wanted // self.threads) * self.threads)

    def memory_for(self, demand: ResourceDemand, cpus: Counts, gpus: Counts, nodes: int) -> Counts:
        """Return the bytes that go along with CPUs and GPUs on each node."""
        if self.site.memory_counts is False:
            return np.zeros_like(cpus)
        if demand.whole_memory:
            return self.memory
        if demand.exclusive:
            cpus, gpus = self.cpus, self.gpus  # memory goes along with all that a node has
        each = demand.memory + demand.memory_per_cpu * cpus + demand.memory_per_gpu * gpus
        return np.asarray(each + -(-demand.memory_total // max(1, nodes)))

    def capacity(self, demand: ResourceDemand, usable: Mask, nodes: int) -> tuple[Mask, Counts, Counts]:
        """Return where a part of a job fits, and how many tasks and GPUs of it fit there at most."""
        ones = np.ones(len(self.nodes), np.int64)
        first = ones * max(1, demand.tasks_per_node)
        gpus = self.free_gpus if demand.exclusive else ones * self.least_gpus(demand)
        least = self.least_gpus(demand)
        fits = usable & (self.free_gpus >= least) & self._holds(demand, first, ones * least, nodes)
        if demand.per_socket:
            fits &= self.sockets_for(demand) > 0
        if not fits.any():
            return fits, ones, gpus
        return fits, self._most_tasks(demand, nodes), self._most_gpus(demand, nodes)

    def _holds(self, demand: ResourceDemand, tasks: Counts, gpus: Counts, nodes: int) -> Mask:
        cpus = self.cpus_for(demand, tasks, gpus)
        memory = self.memory_for(demand, cpus, gpus, nodes)
        return np.asarray((self.free_cpus >= cpus) & (self.free_memory >= memory))

    def _most_tasks(self, demand: ResourceDemand, nodes: int) -> Counts:
        per_cpu = self.free_cpus if demand.memory_per_cpu == 0 or self.site.memory_counts is False else \
            np.minimum(self.free_cpus, self.free_memory // demand.memory_per_cpu)
        cores = per_cpu // self.threads * (1 if demand.one_thread else self.threads)
        most = cores // max(1, demand.cpus_per_task)
        if demand.per_task:
            most = np.minimum(most, self.free_gpus // demand.per_task)
        return np.asarray(np.minimum(most, demand.tasks_per_node) if demand.tasks_per_node else most)

    def _most_gpus(self, demand: ResourceDemand, nodes: int) -> Counts:
        most = self.free_gpus
        if demand.cpus_per_gpu:
            most = np.minimum(most, self.free_cpus // demand.cpus_per_gpu)
        if demand.memory_per_gpu and self.site.memory_counts is not False:
            most = np.minimum(most, self.free_memory // demand.memory_per_gpu)
        return np.asarray(most)

    def sockets_for(self, demand: ResourceDemand) -> Counts:
        """Return how many sockets of each node have enough GPUs free, if GPUs are spread over sockets in order.

        Where gres.conf binds no GPU to cores any will do for any socket, and it is their number that counts, as it is
        of later, of which it is not known which are free.
        """
        if self.as_planned:
            sockets = [node.sockets or 2 for node in self.nodes]
            return np.asarray(np.minimum(self.free_gpus // demand.per_socket, sockets))
        ready = _longs(_sockets_with(node.gpus, node.sockets or 2, () if self._idle else node.gpu_indexes_allocated,
                                     demand.per_socket) if node.gpus_bound else node.sockets or 2
                       for node in self.nodes)
        return np.asarray(np.minimum(ready, self.free_gpus // demand.per_socket))

    def gpus_by_socket(self, demand: ResourceDemand) -> Counts:
        """Return the GPUs that a job takes of each node for the sockets that its cores are on.

        Where none is bound to cores Slurm takes for each socket what is left, be it less than was requested.
        """
        requested = demand.sockets * demand.per_socket
        bound = self.mask(node.gpus_bound for node in self.nodes)
        bound_gpus = np.minimum(self.sockets_for(demand), demand.sockets) * demand.per_socket
        return np.asarray(np.where(bound, bound_gpus, np.minimum(self.free_gpus, requested)))

    def _dealt(self, demand: ResourceDemand, rows: Counts, gpus: Counts) -> Counts:
        """Return the tasks on each node: a core's worth on each, and then as many as there is room for, in order."""
        tasks, left = np.zeros(len(self.nodes), np.int64), demand.tasks
        if demand.per_task:
            return np.asarray(gpus // demand.per_task)
        least = self.first_tasks(demand, rows)
        tasks[rows] = least
        left -= least * rows.size
        room = self._most_tasks(demand, rows.size)
        for row in np.sort(rows).tolist():
            more = max(0, min(left, int(room[row]) - least))
            tasks[row] += more
            left -= more
        return tasks

    def first_tasks(self, demand: ResourceDemand, rows: Counts) -> int:
        """Return the tasks that Slurm puts on each node before it goes on in order: as many as one core holds."""
        return min(max(1, int(self.threads[rows].max()) // demand.cpus_per_task), max(1, demand.tasks // rows.size))

    def take(self, demand: ResourceDemand, placement: Placement, user: str, dealt: NodeResources | None = None) -> None:
        """Book what a job that starts there takes; its tasks are dealt by what its partition may use of the nodes."""
        rows = np.array([self.row[name] for name in placement.nodes], np.int64)
        gpus = np.zeros(len(self.nodes), np.int64)
        gpus[rows] = placement.gpus
        cpus = self.cpus_for(demand, (dealt or self)._dealt(demand, rows, gpus), gpus)
        memory = self.memory_for(demand, cpus, gpus, len(rows))
        split = demand.gpus and not (demand.per_node or demand.per_task or demand.exclusive)
        if split and (self._most_gpus(demand, len(rows))[rows] < np.minimum(self.free_gpus[rows], demand.gpus)).any():
            # Where CPUs or memory run out before GPUs, what Slurm may take of each node is not there for others.
            gpus[rows] = np.minimum(self.free_gpus[rows], demand.gpus - len(rows) + 1)
        self.free_gpus[rows] -= gpus[rows]
        self.free_cpus[rows] -= np.minimum(cpus[rows], self.free_cpus[rows])
        self.free_memory[rows] -= np.minimum(memory[rows], self.free_memory[rows])
        if demand.exclusive:
            self.free_gpus[rows] = self.free_cpus[rows] = 0
        self.busy[rows] = True
        for row in rows.tolist():
            self.users[row] |= {user}
            self.owners[row] = demand.alone or self.owners[row]


def _longs(values: Iterable[int]) -> Counts:
    return np.array([min(value, PLENTY) for value in values], np.int64)


def _sockets_with(gpus: int, sockets: int, taken: tuple[int, ...] | None, wanted: int) -> int:
    """Return how many sockets of a node have so many GPUs free; of a node that does not tell, as if they were apart."""
    if gpus == 0 or taken is None:
        return 0
    each = max(1, gpus // sockets)
    free = [0] * sockets
    for index in range(gpus):
        free[min(index // each, sockets - 1)] += index not in taken
    return sum(number >= wanted for number in free)

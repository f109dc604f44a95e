"""Why a job has to wait, or why it goes here: what binds, in one sentence with its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...storage.eligibility import eligible, named_reason
from ...storage.recommendations import Placement
from ...storage.records import Job, SchedulerSnapshot
from ..amounts import counted
from ..waste.stranded import FreeNodes, Need, need
from .node_sharing import NodeSharing, lone_users
from .topology_cost import FreeIndexes, TopologyCost

Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]
COMES_LATER = "there is room now, but jobs that come first take it or would be delayed"
"""The reason for a job that waits although nodes are free."""
PARTITION = "\N{INFORMATION SEPARATOR ONE}"
"""Stands in a reason for the partitions in which it holds."""
NONE_FREE = f"no GPU is free in {PARTITION}"
MOST_REASONS = 3
"""Reasons that are given for a job of several partitions, of those with most free GPUs first."""


class Diagnosis:
    """The free nodes of a snapshot, and why each job waits; jobs of the same shape are looked at once."""

    def __init__(self, snapshot: SchedulerSnapshot, now_s: float) -> None:
        self._free = FreeNodes(snapshot.nodes)
        self._now_s = now_s
        self._owners = self._free.owners | lone_users(snapshot.jobs)
        self._sharing = NodeSharing(self._free.index, snapshot.jobs, self._owners)
        self._partitions = {node.name: node.partitions for node in snapshot.nodes}
        self._sizes = {node.name: node.gpus for node in snapshot.nodes}
        self._rooms: dict[Need, str] = {}
        self.topology_cost = TopologyCost(snapshot.nodes)
        self.indexes = FreeIndexes(snapshot)

    def why_wait(self, job: Job) -> str:
        """Return what keeps a pending job from starting now."""
        if not eligible(job, self._now_s):
            return f"not eligible yet: the scheduler says {named_reason(job) or 'its begin time has not come'}"
        wanted = need(job, self._owners)
        if wanted is None:
            return "asks for no GPU; its CPUs or memory are not free, or others come first"
        if wanted not in self._rooms:
            self._rooms[wanted] = self._binding(wanted)
        return self._rooms[wanted] or COMES_LATER

    def free_gpus(self, node: str, taken: Mapping[str, int]) -> int:
        """Return the GPUs of a node that are free once some are taken, by node."""
        position = self._free.index.get(node)
        return 0 if position is None else int(self._free.gpus[position]) - taken.get(node, 0)

    def why_here(self, job: Job, placement: Placement, taken: Mapping[str, int]) -> str:
        """Return what speaks for a placement, by what it leaves beside the GPUs that others are to take first."""
        if len(placement.nodes) > 1:
            return f"fits now on {len(placement.nodes)} nodes{self._in_domains(job, placement, taken)}"
        (name,), (gpus,) = placement.nodes, placement.gpus
        free = self.free_gpus(name, taken)
        if free <= gpus:
            return "fits exactly: no GPU of the node stays free"
        if free == self._sizes.get(name):
            return f"opens an empty node and leaves {free - gpus} of its GPUs free"
        if taken.get(name):
            return f"leaves {counted(free - gpus)} free beside what is advised to start there before it"
        return f"leaves {counted(free - gpus)} free beside running jobs"

    def _in_domains(self, job: Job, placement: Placement, taken: Mapping[str, int]) -> str:
        """Return how the nodes of a placement lie in NVLink domains; '' where one of them is in none."""
        domains, count = self.topology_cost.domains(placement.nodes), len(placement.nodes)
        if domains is None:
            return ""
        if domains == 1:
            return f" of NVLink domain {self.topology_cost.domain_of(placement.nodes[0])}"
        room = Counter(map(self.topology_cost.domain_of, self.nodes_with_room(job, placement, taken)))
        enough = any(number >= count for domain, number in room.items() if domain)
        lost = "one alone has room, and is left whole" if enough else "none has room for all of it"
        return f" of {domains} NVLink domains: {lost}"

    def nodes_with_room(self, job: Job, placement: Placement, taken: Mapping[str, int]) -> list[str]:
        """Return nodes that have room for what a placement has of one node once some is taken, by the GPUs free now."""
        wanted, gpus = need(job, self._owners), max(placement.gpus)
        if wanted is None:
            return []
        by_gpus, by_cpus, by_memory = self._free.room(wanted)
        sets = -(-gpus // wanted.gpus)
        fits = self._in_place_of(placement, wanted) & (by_gpus >= sets) & (by_cpus >= sets) & (by_memory >= sets)
        positions = np.flatnonzero(fits)
        best_first = positions[np.argsort(self._free.gpus[positions], kind="stable")]
        names = [self._free.nodes[position].name for position in best_first]
        return [name for name in names if not taken.get(name) or self.free_gpus(name, taken) >= gpus]

    def cost_now(self, placement: Placement) -> float | None:
        """Return what a placement costs in communication on the GPUs that it would be given now."""
        (indexes,) = self.indexes.hand_out([placement])
        return self.topology_cost.cost(placement, indexes)

    def left_over(self, job: Job, placement: Placement) -> Placement | None:
        """Return as many GPUs as a placement has, of the nodes with least free first, however few each has."""
        wanted, gpus = need(job, self._owners), sum(placement.gpus)
        if wanted is None or gpus < 1:
            return None
        here = self._in_place_of(placement, wanted)
        by_gpus, by_cpus, by_memory = self._free.room(replace(
            wanted, gpus=1, cpus=-(-wanted.cpus // wanted.gpus), memory_bytes=-(-wanted.memory_bytes // wanted.gpus)))
        room = np.where(here, np.minimum(np.minimum(by_gpus, by_cpus), by_memory), 0)
        nodes, parts, left = list[str](), list[int](), gpus
        for place in np.argsort(room, kind="stable").tolist():
            part = min(int(room[place]), left)
            if part:
                nodes.append(self._free.nodes[place].name)
                parts.append(part)
                left -= part
        return None if left else Placement(tuple(nodes), tuple(parts))

    def _in_place_of(self, placement: Placement, wanted: Need) -> Mask:
        """Return the nodes that a job may use and share, of the partition of a placement: it runs in one."""
        open_nodes = self._free.allowed(wanted) & self._sharing.open_to(wanted)
        for name in wanted.partitions:
            if all(name in self._partitions.get(node, ()) for node in placement.nodes):
                return open_nodes & self._free.in_partition(name)
        return open_nodes

    def _binding(self, wanted: Need) -> str:
        """Return what binds first in each partition, since a job runs in one of them; '' when it has room now."""
        names = sorted(dict.fromkeys(wanted.partitions), key=lambda name: -self._free_in(name))
        allowed, by_reason = self._free.allowed(wanted), dict[str, list[str]]()
        for name in names:
            reason = self._binding_within(self._free.in_partition(name), allowed, wanted)
            if not reason:
                return ""
            by_reason.setdefault(reason, []).append(name)
        named = [_naming(alike, reason) for reason, alike in by_reason.items()][:MOST_REASONS]
        rest = [name for alike in list(by_reason.values())[MOST_REASONS:] for name in alike]
        return "; ".join(named + ["nor is there room in " + "/".join(rest)] * bool(rest))

    def _free_in(self, partition: str) -> int:
        return int(self._free.gpus[self._free.in_partition(partition)].sum())

    def _binding_within(self, here: Mask, allowed: Mask, wanted: Need) -> str:
        """Return the first constraint that binds in a partition, '' when the job has room there now."""
        if not here.any():
            return NONE_FREE
        allowed = allowed & here
        if not (allowed.any() and self._free.has_indispensable(allowed, wanted)):
            return (f"{_free(int(self._free.gpus[here].sum()))} in {PARTITION}, but on no node that meets its "
                    "constraints (type, features, reservation, node lists, owner)")
        by_gpus, by_cpus, by_memory = (np.where(allowed, room, 0) for room in self._free.room(wanted))
        most = np.minimum(np.minimum(by_gpus, by_cpus), by_memory)
        if _sets(most, wanted) >= wanted.sets:
            return self._barred(most, wanted)
        if _sets(by_gpus, wanted) >= wanted.sets:
            return self._host_bound(wanted, by_gpus, by_cpus)
        free = int(self._free.gpus[allowed].sum())
        if free < wanted.total_gpus:
            return f"needs {counted(wanted.total_gpus)}, {free} {_is(free)} free in {PARTITION}"
        each = f"{wanted.gpus} on one" if wanted.sets == 1 else f"{wanted.gpus} on each of {wanted.sets}"
        return (f"{_free(free)} in {PARTITION} but scattered: at most {int(self._free.gpus[allowed].max())} on "
                f"one node, it needs {each}")

    def _barred(self, sets: Counts, wanted: Need) -> str:
        """Return what keeps a job off nodes with room for so many of its task sets; '' when nothing does."""
        lacking = [name for name in wanted.indispensable if not sets[self._free.index[name]]]
        if lacking:
            return f"there is room in {PARTITION}, but not on {lacking[0]}, which it names"
        shared = np.where(self._sharing.open_to(wanted), sets, 0)
        if _sets(shared, wanted) >= wanted.sets and self._free.has_indispensable(shared > 0, wanted):
            return ""
        none = "it shares none with them" if wanted.alone else "they share none with it"
        return f"GPUs are free in {PARTITION}, but jobs of other users are on nodes that it needs, and {none}"

    def _host_bound(self, wanted: Need, by_gpus: Counts, by_cpus: Counts) -> str:
        """Say which of CPUs and memory keeps free GPUs from being used."""
        if _sets(np.minimum(by_gpus, by_cpus), wanted) < wanted.sets:
            return f"GPUs are free in {PARTITION}, but not the {wanted.cpus} CPUs beside them that it asks for"
        return (f"GPUs are free in {PARTITION}, but not the {wanted.memory_bytes / 2**30:.0f} GiB of memory beside "
                "them that it asks for")


def _naming(partitions: list[str], reason: str) -> str:
    """Return a reason with the partitions in which it holds; the figures are of each, not of all together."""
    names = "/".join(partitions)
    return reason.replace(PARTITION, names if len(partitions) == 1 or reason == NONE_FREE else f"each of {names}")


def _sets(room: Counts, wanted: Need) -> int:
    """Return how many of the job's task sets find room: one a node unless they may share."""
    return int(room.sum()) if wanted.splits else int((room > 0).sum())


def _free(gpus: int) -> str:
    return f"{counted(gpus)} {_is(gpus)} free"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"

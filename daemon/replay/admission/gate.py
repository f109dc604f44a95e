"""What may start now: everything beside the policy's order that decides about a start, as the scheduler itself decides.

The engine and its policies choose; the gate says whether the scheduler would take the choice, and if not why. What
starts is booked, so that the next is checked against what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....storage.eligibility import begins_later, eligible, named_reason
from ....storage.recommendations import Placement
from ....storage.records import Job, NodeState, SchedulerSnapshot
from ....storage.waiting import WaitReason
from ..priority.billing import gpus_of
from .limits import Licences, Limits
from .node_resources import Mask, NodeResources
from .node_search import find_nodes
from .partition_terms import PartitionTerms, refusal_text, unfit
from .quotas import Quotas
from .releases import PartitionShare
from .reservation_terms import Own, ReservationTerms
from .resource_demand import ResourceDemand, demand_of

HELD, LIMIT, LICENSES, RESERVATION, PARTITION, NODES, ROOM, NEVER, UNKNOWN, GROUP, AHEAD = (
    "held", "limit", "licenses", "reservation", "partition", "nodes", "room", "never", "unknown", "group", "ahead")
"""Causes of a hold."""
ARRAY_LIMIT = "JobArrayTaskLimit"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a job does not start now."""

    cause: str
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionNodes:
    """Nodes that a job may use through one of its partitions."""

    partition: str
    usable: Mask
    limit_s: float
    most_cpus: int | None = None
    """What all jobs of the partition may use on a node together."""
    own: Own = ()
    """The reservations that it uses for that."""


class Gate:
    """What the scheduler would let start, of one snapshot at one moment."""

    def __init__(self, snapshot: SchedulerSnapshot, now_s: float) -> None:
        self.now_s, self.snapshot = now_s, snapshot
        self.resources = NodeResources(snapshot)
        self.limits, self.licences, self.quotas = Limits(snapshot), Licences(snapshot), Quotas(snapshot)
        self.site = snapshot.rules.site
        self.partitions = {partition.name: partition for partition in snapshot.partitions}
        self._terms = PartitionTerms(snapshot)
        self._reserving = ReservationTerms(snapshot)
        self.reservations = self._reserving.known
        self._running = Counter(job.array for job in snapshot.jobs if job.array and job.state.active)
        self._leaves = len({(node.spine, node.leaf) for node in snapshot.nodes if node.leaf})
        self._kept = [{node.reservation} - {""} for node in self.resources.nodes]
        self._booked: dict[str, NDArray[np.int64] | int] = {}
        self._finds: dict[tuple[object, ...], Placement | Hold] = {}
        self._kinds: dict[tuple[object, ...], tuple[object, ...]] = {}
        self.whys: dict[tuple[object, ...], Hold] = {}
        """Why jobs of a kind find no nodes."""
        self._wishes: dict[tuple[object, ...], ResourceDemand] = {}
        self._cache: dict[tuple[object, ...], Mask] = {}
        self.assumed_switches: dict[tuple[str, float], int] = {}
        """Switches, by job, that jobs are taken to ask for of which nobody tells."""
        self.assume_no_switches = False
        """Whether the others of these are taken to ask for none; they start below one leaf where there is room."""

    def copy(self) -> Gate:
        """Return a gate on which starts can be booked without changing this one."""
        other = object.__new__(Gate)
        other.__dict__.update(self.__dict__)
        other.resources, other.limits, other.licences = self.resources.copy(), self.limits.copy(), self.licences.copy()
        other.quotas = self.quotas.copy()
        other._finds = dict(self._finds)
        other._running, other._booked = Counter(self._running), dict(self._booked)
        return other

    def demand(self, job: Job, name: str = "") -> ResourceDemand:
        """Return what a job asks of nodes in one of its partitions, by default in the first."""
        key = job.key, name or job.partition.split(",")[0], job.request.required_nodes
        if key not in self._wishes:
            partition = self._terms.of(job, key[1])
            threads = int(self.resources.threads.max(initial=1))
            self._wishes[key] = demand_of(job, partition, self.resources.sockets, threads)
        return self._wishes[key]

    def bars(self, job: Job) -> Hold | None:
        """Return what keeps a job from starting even if everything were free; None when nothing does."""
        if begins_later(job, self.now_s) and job.reason not in (WaitReason.HELD, WaitReason.DEPENDENCY):
            return Hold(HELD, "not eligible yet: the scheduler says BeginTime: its begin time has not come")
        if job.request.details.unknown:
            return Hold(UNKNOWN, f"unknown: {'; '.join(job.request.details.unknown)}: not known here")
        if not eligible(job, self.now_s) and not self.quotas.judges(job):
            # Slurm looks at limits before it looks for nodes, but for those that are named.
            unnamed = job.reason is WaitReason.NODES_UNAVAILABLE and not job.request.required_nodes
            broken = self.limits_bar(job) if unnamed else None
            reason = named_reason(job) or "its begin time has not come"
            return broken or Hold(HELD, f"not eligible yet: the scheduler says {reason}")
        shortest = job.least_limit_s or job.limit_s or 0.0
        if job.deadline_s is not None and self.now_s + shortest > job.deadline_s:
            return Hold(HELD, "not eligible yet: the scheduler says DeadLine: it could not end in time")
        return self._reservation_bars(job) or self._partitions_bar(job) or self.limits_bar(job)

    def limits_bar(self, job: Job) -> Hold | None:
        """Return the limit that a job breaks in each of its partitions, with what has started so far."""
        names = [name for name in job.partition.split(",") if self._partition_bars(job, name) is None]
        broken = [self.limit_bars(job, name, None) for name in names]
        return broken[0] if broken and all(broken) else None

    def _reservation_bars(self, job: Job) -> Hold | None:
        why = self._reserving.refusal(job, self.now_s)
        return Hold(RESERVATION, f"not eligible yet: the scheduler says Reservation: {why}") if why else None

    def _partitions_bar(self, job: Job) -> Hold | None:
        wrong = [self._partition_bars(job, name) for name in job.partition.split(",")]
        return wrong[0] if wrong and all(wrong) else None

    def _partition_bars(self, job: Job, name: str) -> Hold | None:
        known = self._terms.of(job, name)
        if known is None:
            return None
        refusal = unfit(job, self.demand(job, name), known)
        return Hold(PARTITION, refusal_text(job, refusal, name)) if refusal else None

    def kind(self, job: Job) -> tuple[object, ...]:
        """Return what jobs have alike that find the same nodes."""
        key = job.key, job.partition, job.request.required_nodes, job.request.excluded_nodes
        if key not in self._kinds:
            ways = self.ways(job)
            limit_s = max((way.limit_s for way in ways), default=0.0)
            alone = job.user if job.request.details.exclusive_user or any(self.resources.owners) else ""
            self._kinds[key] = (job.request, tuple((way.partition, way.own) for way in ways),
                                self.in_the_way(job, limit_s), alone, self._terms.lifted(job))
        return self._kinds[key]

    def ways(self, job: Job) -> list[PartitionNodes]:
        """Return the nodes that a job may use now, by partition, those of the highest tier first."""
        names = [name for name in job.partition.split(",") if self._partition_bars(job, name) is None]
        names.sort(key=lambda name: -self.tier(name))
        return [self._way(job, name, own) for name in names for own in self._reserving.ways(job, self.now_s)]

    def tier(self, partition: str) -> int:
        """Return the tier of a partition, of several the highest."""
        return max(known.priority_tier if (known := self.partitions.get(name)) else 1 for name in partition.split(","))

    def _way(self, job: Job, name: str, own: Own) -> PartitionNodes:
        known = self.partitions.get(name)
        limit_s = job.limit_s or (known.max_time_s if known else None) or float("inf")
        met = self._reserving.met(own, self.now_s, self.now_s + limit_s)
        key = ("way", name, own, self._reserving.own(job, self.now_s), met)
        if key not in self._cache:
            self._cache[key] = self.resources.members(name) & self.opened(job) & ~self.reserved(limit_s, own)
        return PartitionNodes(name, self._cache[key], limit_s, known.most_cpus_per_node if known else None, own)

    def opened(self, job: Job, waking: bool = False) -> Mask:
        """Return which nodes take new jobs now; those under maintenance do where the job's reservation is that."""
        own = self._reserving.own(job, self.now_s)
        key = ("open", own, waking)
        if key not in self._cache:
            nodes = self.resources.nodes
            self._cache[key] = self.resources.mask(
                node.state.schedulable or (node.state is NodeState.RESERVED and node.reservation != "")
                or (node.maintained and node.reservation in own)
                or (waking and node.wakes) for node in nodes)
        return self._cache[key]

    def usable_from(self, job: Job, way: PartitionNodes, begin_s: float) -> Mask:
        """Return the nodes that a job may use from a later time on, when some reservations are over."""
        if begin_s <= self.now_s or not self.reservations:
            return way.usable
        ends = {name: one.end_s for name, one in self.reservations.items()}
        met = self._reserving.met(way.own, begin_s, begin_s + way.limit_s)
        key = ("from", way.partition, way.own, met)
        if key not in self._cache:
            blocked = self.resources.mask(ends.get(node.reservation, np.inf if node.reservation else 0) > begin_s
                                       and node.reservation not in way.own for node in self.resources.nodes)
            for name in met:
                blocked |= self.resources.named(self.reservations[name].nodes)
            self._cache[key] = self.resources.members(way.partition) & self.opened_to_any() & ~blocked
        found = self._cache[key]
        return found & way.usable if way.own else found

    def opened_to_any(self) -> Mask:
        """Return which nodes take new jobs of anybody, be it of those who may use a reservation."""
        if ("any",) not in self._cache:
            self._cache["any",] = self.resources.mask(
                node.state.schedulable or node.maintained
                or (node.state is NodeState.RESERVED and node.reservation != "") for node in self.resources.nodes)
        return self._cache["any",]

    def in_the_way(self, job: Job, limit_s: float) -> tuple[str, ...]:
        """Return the reservations that a job may not use and would meet."""
        return self.meets(job, self.now_s, self.now_s + limit_s)

    def meets(self, job: Job, begin_s: float, end_s: float) -> tuple[str, ...]:
        """Return the reservations that are not its own and that a job would meet from one moment to another."""
        return self._reserving.met(self._reserving.own(job, self.now_s), begin_s, end_s)

    def perhaps(self, job: Job, way: PartitionNodes) -> Mask:
        """Return the nodes that a job may use if that is enough which reservations leave of those they keep in part."""
        if not self._reserving.partial:
            return way.usable
        reserved = self.reserved(way.limit_s, way.own, self._reserving.partial)
        return self.resources.members(way.partition) & self.opened(job) & ~reserved

    def reserved(self, limit_s: float, own: Own, but: Collection[str] = ()) -> Mask:
        """Return which nodes are kept for others for as long as a job may run, or are not those of its reservations.

        Some reservations of others may be left out.
        """
        blocked = self.resources.mask(bool(kept - set(own)) for kept in self._kept)
        for name in self._reserving.met((*own, *but), self.now_s, self.now_s + limit_s):
            blocked |= self.resources.named(self.reservations[name].nodes)
        if own:
            known = [self.reservations[name] for name in own if name in self.reservations]
            mine = self.resources.mask(bool(kept & set(own)) for kept in self._kept)
            for one in known:
                mine |= self.resources.named(one.nodes)
            blocked |= ~mine & (not any("FLEX" in one.flags for one in known))
        return np.asarray(blocked)

    def find(self, job: Job) -> Placement | Hold:
        """Return where a job could start on what is free now, or why it cannot; limits and licences are not checked."""
        kind = (*self.kind(job), self.switches(job), self.assume_no_switches)
        if kind not in self._finds:
            self._finds[kind] = self._found(job)
        return self._finds[kind]

    def _found(self, job: Job) -> Placement | Hold:
        for way in self.ways(job):
            found = self.sought(job, way)
            if found is not None:
                return found
        return Hold(ROOM, "")

    def sought(self, job: Job, way: PartitionNodes, resources: NodeResources | None = None) -> Placement | Hold | None:
        """Return where a job could start on some nodes, on what is free now or on what is free there otherwise."""
        resources, switches = resources or self.resources_of(way), self.switches(job)
        demand = self.demand(job, way.partition)
        if job.request.details.slices:
            way = replace(way, usable=way.usable & resources.with_slices(job))
        assumed_none = switches is None and self.assume_no_switches
        if switches == 0 or demand.least == 1 == demand.widest or (assumed_none and resources.as_planned):
            return find_nodes(resources, job, demand, way.usable)
        if resources.as_planned and (found := find_nodes(resources, job, demand, way.usable)) and len(found.nodes) == 1:
            return found
        found = find_nodes(resources, job, demand, way.usable, (switches or 1) if self._leaves else 0)
        if found is not None and (self._leaves or len(found.nodes) == 1):
            return found
        if switches is not None and self._leaves:
            return None
        found = found or find_nodes(resources, job, demand, way.usable)
        if found is None or len(found.nodes) == 1 or assumed_none:
            return found
        lacking = "which nodes share a switch" if switches else "whether it asks for few switches (TopologyPlugin)"
        return Hold(UNKNOWN, f"unknown: {lacking} is not known")

    def resources_of(self, way: PartitionNodes) -> NodeResources:
        """Return the nodes with what a partition's jobs may still use of their CPUs."""
        share = self.share(way)
        return self.resources if share is None else self.resources.shared_out(share.cpus)

    def share(self, way: PartitionNodes) -> PartitionShare | None:
        """Return the CPUs of each node that a partition's jobs may use besides those that they use; None for all."""
        if way.most_cpus is None:
            return None
        used = np.zeros(len(self.resources.nodes), np.int64)
        for part in (part for job in self.snapshot.jobs if job.state.active and job.partition == way.partition
                     for part in job.allocations if part.node in self.resources.row):
            used[self.resources.row[part.node]] += part.cpus
        return PartitionShare(way.partition, way.most_cpus - used - self._booked.get(way.partition, 0))

    def switches(self, job: Job) -> int | None:
        """Return on how few leaf switches a job has to be now; 0 for any number, None where that is not known."""
        details = job.request.details
        if self.site.tree is False or (details.switches_until_s is not None and self.now_s >= details.switches_until_s):
            return 0
        return self.assumed_switches.get(job.key) if details.switches is None else details.switches

    def admit(self, job: Job, placement: Placement | None, avoid: Mask | None = None) -> Placement | Hold:
        """Book a start where the policy wants it, or elsewhere where it can be; return where, or why not.

        Nodes that are to be avoided are kept for others.
        """
        if job.array_limit is not None and self._running[job.array] >= job.array_limit:
            return Hold(HELD, f"not eligible yet: the scheduler says JobArrayTaskLimit ({job.array_limit} at once)")
        lacking = self.license_bars(job)
        if lacking is not None:
            return lacking
        kept = self.kept(job, placement, avoid) if placement is not None else None
        found = kept or self.find_beside(job, avoid)
        if isinstance(found, Hold):
            return found
        partition = self.partition_of(job, found)
        breach = self.limit_bars(job, partition, found)
        if breach is None:
            self.book(job, partition, found)
        return breach or found

    def find_beside(self, job: Job, avoid: Mask | None) -> Placement | Hold:
        """Return where a job could start now but for nodes to be avoided, or why it cannot."""
        found = self.find(job)
        row = self.resources.row
        if avoid is None or isinstance(found, Hold) or not avoid[[row[name] for name in found.nodes]].any():
            return found
        others = (self.sought(job, replace(way, usable=way.usable & ~avoid)) for way in self.ways(job))
        return next((other for other in others if other is not None), Hold(ROOM, ""))

    def license_bars(self, job: Job) -> Hold | None:
        """Return which licences a job lacks; None when it lacks none."""
        wanted = job.request.details.licenses
        if not wanted:
            return None
        if not self.licences.known:
            return Hold(UNKNOWN, "unknown: how many licences are free is not known")
        lacking = self.licences.lacking(wanted)
        return Hold(LICENSES, f"the scheduler would say {lacking}") if lacking else None

    def kept(self, job: Job, placement: Placement, avoid: Mask | None = None) -> Placement | None:
        """Return a placement in the job's own shape if it can start on just those nodes; None when it cannot."""
        only = self.resources.named(placement.nodes)
        if avoid is not None:
            only = only & ~avoid
        for way in self.ways(job):
            found = self.sought(job, replace(way, usable=way.usable & only))
            if isinstance(found, Placement) and len(found.nodes) == len(placement.nodes):
                return found
        return None

    def partition_of(self, job: Job, placement: Placement) -> str:
        """Return the partition in which a job starts there."""
        rows = [self.resources.row[name] for name in placement.nodes]
        names = [way.partition for way in self.ways(job) if self.resources.members(way.partition)[rows].all()]
        return names[0] if names else job.partition.split(",")[0]

    def wants(self, job: Job, placement: Placement | None, partition: str = "") -> Counter[str]:
        """Return what a job uses of everything that may be limited, in a partition, by default in its first."""
        demand = self.demand(job, partition)
        gpus = sum(placement.gpus) if placement else demand.gpus
        nodes = len(placement.nodes) if placement else demand.least
        cpus = max(job.request.cpus, demand.cpus_per_gpu * gpus, demand.cpus_per_node * nodes)
        used = Counter({"jobs": 1, "node": nodes, "gpu": gpus, "cpu": cpus, "mem": job.request.memory_bytes,
                        "pods": job.request.details.tasks, **dict(job.request.details.slices)})
        held = zip(map(self.resources.gpu_model, placement.nodes), placement.gpus, strict=True) if placement else \
            [(job.request.gpu_model, gpus)]  # what a job asks for by type counts before it has a place
        for model, number in held:
            if model and number:
                used[gpus_of(model)] += number
        if demand.exclusive and placement:
            used["cpu"] = sum(int(self.resources.cpus[self.resources.row[name]]) for name in placement.nodes)
        return used

    def limit_bars(self, job: Job, partition: str, placement: Placement | None) -> Hold | None:
        """Return the limit that a start would break; None when there is none."""
        wants = self.wants(job, placement, partition)
        short = self.quotas.shortage(job, wants, placement)
        if short is not None:
            return Hold(UNKNOWN if short.unknown else LIMIT, short.reason)
        breach = self.limits.breach(job, partition, wants, job.limit_s)
        return None if breach is None else Hold(UNKNOWN if breach.unknown else LIMIT, breach.reason)

    def book(self, job: Job, partition: str, placement: Placement) -> None:
        """Take what a job that starts takes."""
        before = self.resources.free_cpus.copy()
        dealt = next((self.resources_of(way) for way in self.ways(job) if way.partition == partition), None)
        self.resources.take(self.demand(job, partition), placement, job.user, dealt)
        self.resources.take_slices(job, placement)
        self.quotas.add(job, self.wants(job, placement, partition), placement)
        # What found no room before finds none now.
        self._finds = {kind: found for kind, found in self._finds.items() if isinstance(found, Hold)}
        self._booked[partition] = self._booked.get(partition, 0) + before - self.resources.free_cpus
        self.limits.add(job, partition, self.wants(job, placement, partition))
        self.licences.take(job.request.details.licenses)
        self._running[job.array] += bool(job.array)

    def end(self, job: Job) -> None:
        """Free what a running job holds."""
        self.resources.give_back(job)
        self.quotas.give_back(job, {**self.limits.held(job), "pods": job.request.details.tasks})
        self._finds = {}

    def room_for_tasks(self, job: Job) -> int:
        """Return how many more tasks of its array may run now."""
        return max(0, job.array_limit - self._running[job.array]) if job.array_limit is not None else 1 << 30

"""Which jobs are on which node, which wait to go there, and what is known of the needs of each."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ....storage import records
from ....storage.eligibility import eligible
from ....storage.recommendations import Recommendation
from ....storage.records import Job, JobState, SchedulerSnapshot
from ....storage.uses import Use
from ...replay.runtime_prediction import template
from ...waste.stranded import Need, need, owners_of, satisfies
from .sensitivity import Evidence, LikeRun, NodeShare, SpeedEstimate, recognized, speed_estimate
from .tune import Key, Tenant, TunedNode
from .usage_meter import Run, UsageWindow

MOST_RUNS = 20
"""The most runs of a template that are kept: people change what their jobs do."""
MOST_KINDS = 5_000
"""Users' templates that are remembered; those learned of last."""
MOST_WAITING = 200
"""Jobs of the queue for which room is sought: each is held against each node that has GPUs free."""


_USED = np.dtype([("run", np.int64), ("updated_s", np.float64), ("gpus", np.int64), ("cpus", np.int64),
                  ("cpus_p95", np.float64), ("at_limit_ratio", np.float64), ("memory_peak_bytes", np.float64),
                  ("activity", np.float64)])
"""A run is known again by the hash of what identifies it; nothing else of its identity is kept. NaN means unknown."""


class Past:
    """What runs used, by user and name but for its numbers, in 64 bytes each: a large site has thousands of them."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], NDArray[np.void]] = {}

    def learn(self, uses: Iterable[Use]) -> None:
        """Take in uses; the same run again replaces, and one that ended long ago may come late."""
        for use in uses:
            kind, run = (sys.intern(use.user), sys.intern(use.template)), hash(use.run)
            known = self._kinds.pop(kind, np.empty(0, _USED))
            fields = (run, use.updated_s, use.gpus, use.cpus, use.cpus_p95, use.at_limit_ratio, use.memory_peak_bytes,
                      use.activity)
            rows = np.append(known[known["run"] != run], np.array([fields], _USED))
            self._kinds[kind] = rows[np.argsort(rows["updated_s"], kind="stable")[-MOST_RUNS:]]
            if len(self._kinds) > MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]

    def like(self, job: Job) -> list[LikeRun]:
        """Return the last runs of like jobs, the newest first."""
        rows = self._kinds.get((job.user, template(job.name)))
        if rows is None:
            return []
        return [LikeRun(gpus, cpus, p95, limited, None if math.isnan(peak) else peak,
                        None if math.isnan(activity) else activity)
                for _, _, gpus, cpus, p95, limited, peak, activity in rows[::-1].tolist()]


@dataclass(frozen=True)
class Insight:
    """What wait estimates are made from."""

    windows: Mapping[Run, UsageWindow]
    past: Past
    models: Mapping[str, str]
    """A site's patterns of job names, with the model or task of each."""
    margin: float
    starved: float
    _known: dict[tuple[Key, NodeShare, NodeShare], SpeedEstimate] = field(default_factory=dict, init=False)
    """A job that waits may go to many nodes that are alike."""
    tenants: dict[NodeShare, dict[Key, Tenant]] = field(default_factory=dict, init=False)
    """Jobs as they would be on nodes of which each GPU has such a share."""

    def of(self, job: Job, has: NodeShare, gpus: int, fair: NodeShare) -> SpeedEstimate:
        """Return the speed estimate of a job that holds, or asks for, a part of a node."""
        estimate = self._known.get((job.key, has, fair))
        if estimate is None:
            window = self.windows.get((*job.key, job.start_s or 0.0)) if job.state.active else None
            estimate = self._known[job.key, has, fair] = speed_estimate(
                Evidence(has, gpus, fair, window, self.past.like(job), recognized(job.name, self.models),
                         waits=not job.state.active), self.margin, self.starved)
        return estimate


@dataclass(frozen=True)
class WaitingJob:
    """A job that waits, and how it stands in the queue."""

    job: Job
    need: Need
    expected_start_s: float | None
    """If the active policy is followed."""
    place: int
    """The job's place in the queue."""


class Reservations:
    """When jobs are expected to start on each node, in the order of the queue."""

    def __init__(self) -> None:
        self._starts: dict[str, list[tuple[int, float]]] = {}

    def add(self, place: int, node: str, start_s: float) -> None:
        """Take in a job that comes after all those before."""
        starts = self._starts.setdefault(node, [])
        starts.append((place, min(start_s, starts[-1][1]) if starts else start_s))

    def before(self, place: int, node: str) -> float:
        """Return when the first of those that come before a place starts on a node; infinite when none does."""
        starts = self._starts.get(node, ())
        earlier = bisect_left(starts, (place,))
        return starts[earlier - 1][1] if earlier else float("inf")


@dataclass
class NodeView:
    """The nodes with their tenants, and the jobs that wait."""

    nodes: dict[str, TunedNode] = field(default_factory=dict)
    jobs: dict[Key, Job] = field(default_factory=dict)
    """The jobs that run."""
    waiting: dict[Key, WaitingJob] = field(default_factory=dict)
    reservations: Reservations = field(default_factory=Reservations)


def node_view(snapshot: SchedulerSnapshot, advice: Sequence[Recommendation], insight: Insight,
              now_s: float) -> NodeView:
    """Return the cluster as it is now; what the active policy would start at once counts as held."""
    view = NodeView()
    running = [job for job in snapshot.jobs if job.state is JobState.RUNNING and job.allocations]
    promised = _promised(advice, {job.key: job for job in snapshot.jobs if job.state is JobState.PENDING})
    for node in snapshot.nodes:
        if node.gpus and node.state.schedulable:
            view.nodes[node.name] = _node(node, promised.get(node.name, ()))
    for job in running:
        view.jobs[job.key] = job
        _move_in(job, view.nodes, insight)
    _line_up(view, {job.key: job for job in snapshot.jobs if eligible(job, now_s)}, advice,
             owners_of(snapshot.nodes))
    return view


def fair_share(fair: NodeShare, gpus: int) -> NodeShare:
    """Return what so many GPUs of a node have as their share of it."""
    return NodeShare(fair.cpus * gpus, fair.memory_bytes * gpus)


def candidates(node: records.Node, view: NodeView, insight: Insight, now_s: float) -> Iterator[Tenant]:
    """Yield the jobs that may go to a node and, as in EASY backfilling, delay no earlier job there."""
    here, partitions = view.nodes[node.name], frozenset(node.partitions)
    known = insight.tenants.setdefault(here.fair, {})
    for key, waiting in view.waiting.items() if here.free_gpus else ():
        request = waiting.job.request
        if request.gpus > here.free_gpus or partitions.isdisjoint(waiting.need.partitions):
            continue
        ends_s = now_s + (float("inf") if waiting.job.limit_s is None else waiting.job.limit_s)
        if ends_s <= view.reservations.before(waiting.place, node.name) and satisfies(node, waiting.need):
            if key not in known:
                has = NodeShare(request.cpus, request.memory_bytes)
                known[key] = Tenant(key, request.gpus,
                                    insight.of(waiting.job, has, request.gpus, fair_share(here.fair, request.gpus)))
            yield known[key]


def _node(node: records.Node, promised: Iterable[tuple[int, NodeShare]]) -> TunedNode:
    taken = list(promised)
    free = NodeShare(node.cpus - node.cpus_allocated - sum(part.cpus for _, part in taken),
                     node.memory_bytes - node.memory_allocated_bytes - sum(part.memory_bytes for _, part in taken))
    return TunedNode(NodeShare(max(free.cpus, 0), max(free.memory_bytes, 0)),
                     max(node.gpus - node.gpus_allocated - sum(gpus for gpus, _ in taken), 0),
                     NodeShare(node.cpus // node.gpus, node.memory_bytes // node.gpus), [])


def _promised(advice: Iterable[Recommendation], pending: Mapping[Key, Job]) -> dict[str, list[tuple[int, NodeShare]]]:
    """Return GPUs and part of each node that jobs to be started now would take."""
    taken: dict[str, list[tuple[int, NodeShare]]] = {}
    for row in advice:
        job = pending.get((row.job_id, row.submit_s))
        if row.shadow or row.action != "start" or row.placement is None or job is None:
            continue
        count = len(row.placement.nodes)
        part = NodeShare(-(-job.request.cpus // count), -(-job.request.memory_bytes // count))
        for name, gpus in zip(row.placement.nodes, row.placement.gpus, strict=True):
            taken.setdefault(name, []).append((gpus, part))
    return taken


def _move_in(job: Job, nodes: Mapping[str, TunedNode], insight: Insight) -> None:
    # Of a job on several nodes all would have to give, or be given, alike.
    alone = len(job.allocations) == 1
    measured = (*job.key, job.start_s or 0.0) in insight.windows
    for place in job.allocations:
        if place.node in nodes:
            node = nodes[place.node]
            known = insight.of(job, NodeShare(place.cpus, place.memory_bytes), place.gpus,
                               fair_share(node.fair, place.gpus))
            node.tenants = [*node.tenants, Tenant(job.key, place.gpus, known, gives=measured and alone,
                                                  takes=alone and place.gpus > 0)]


def _line_up(view: NodeView, pending: Mapping[Key, Job], advice: Iterable[Recommendation],
             owners: Collection[str]) -> None:
    """Take in held jobs that one node may serve, in the order of the active policy, and the nodes kept for jobs."""
    for place, row in enumerate(advice):
        job = pending.get((row.job_id, row.submit_s))
        if row.shadow or row.action != "hold" or job is None:
            continue
        wanted = need(job, owners)
        alone = job.request.nodes == 1 and not job.request.exclusive
        if wanted is not None and alone and len(view.waiting) < MOST_WAITING:
            view.waiting[job.key] = WaitingJob(job, wanted, row.expected_start_s, place)
        if row.placement is not None and row.expected_start_s is not None:
            for name in row.placement.nodes:
                view.reservations.add(place, name, row.expected_start_s)

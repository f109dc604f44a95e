"""The daemon's own history as something to replay: the cluster with its outages, the jobs, the energy it took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..storage.job_runs import JobRun
from ..storage.power_classes import PowerClass
from ..storage.reading import HistoryReader
from ..storage.records import Job, JobState, Node, NodeState, Request
from .recorded_scheduling import recorded_scheduling
from .recorded_speeds import held_by
from .recorded_watts import CATALOGUED, SiteWatts
from .replay.cluster import Cluster, ClusterError, NodeEvent
from .replay.power import Occupation, PowerModel, by_node
from .replay.recorded_work import as_work
from .replay.site_speeds import FLAT_SPEEDS, SiteSpeeds
from .replay.speed import SpeedTable
from .replay.timeline import Reserved
from .replay.workload import UNLIMITED_S, Workload, in_order, waits_from
from .runtime_history import RECENT, RuntimeHistory

Kind = Literal["down", "drain", "up"]

EVER_S = 1e12
"""Later than any time that is recorded."""
BEFORE_S = 1.0
"""The time before the window at which the jobs that run into it start, so that nobody else takes their nodes."""
_USABLE = {NodeState.UP, NodeState.PLANNED, NodeState.POWERED_DOWN, NodeState.POWERING_UP}
"""A job may start there, if need be after a boot."""
_DRAINED = {NodeState.DRAINING, NodeState.DRAINED, NodeState.RESERVED, NodeState.MAINTENANCE}


def recorded_cluster(history: HistoryReader, since_s: float | None = None, until_s: float = EVER_S, *,
                     reserved: Kind = "drain") -> Cluster:
    """Return the inventory as of ``since_s`` with what happened to its nodes until ``until_s``; without it, the latest.

    Every node is there from the start; what could not be used at ``since_s`` is drained then, and so is what was
    ``reserved``, unless stated otherwise, and what came later. Nodes that were there when recording began are taken to
    have been there before, up: accounts reach further back than the inventory. The scheduler orders and backfills as it
    was configured at ``since_s``. ClusterError when no node is recorded.
    """
    changes = () if since_s is None else history.node_changes(since_s, until_s)
    known = {node.name: node for node in history.nodes(since_s)}
    events = [] if since_s is None else [NodeEvent(since_s, node.name, _kind(node, reserved))
                                         for node in known.values()]
    began_s = history.nodes_since()
    first_s: dict[str, float] = {}
    for change in changes:
        first_s.setdefault(change.node.name, change.time_s)
    for change in reversed(changes):
        if change.node.name not in known and since_s is not None:
            if first_s[change.node.name] != began_s:
                events.append(NodeEvent(since_s, change.node.name, "drain"))
            known[change.node.name] = change.node
    if not known:
        raise ClusterError("the history holds no nodes; describe the cluster with --cluster")
    events += [NodeEvent(change.time_s, change.node.name, _kind(change.node, reserved) if change.present else "down")
               for change in changes]
    cluster = Cluster.from_records([replace(known[name], state=NodeState.UP) for name in sorted(known)])
    return replace(cluster.with_events(_changing(events)), scheduling=recorded_scheduling(history, since_s))


def _kind(node: Node, reserved: Kind) -> Kind:
    if node.reservation and node.state in (*_USABLE, NodeState.RESERVED):
        return reserved
    return "up" if node.state in _USABLE else "drain" if node.state in _DRAINED else "down"


def reservations(history: HistoryReader, since_s: float, until_s: float) -> tuple[Reserved, ...]:
    """Return how nodes were reserved at ``since_s`` and from when on otherwise."""
    before, reserved = {node.name: node.reservation for node in history.nodes(since_s)}, list[Reserved]()
    reserved += [Reserved(since_s, node, name) for node, name in before.items() if name]
    for change in history.node_changes(since_s, until_s):
        if change.node.reservation != before.get(change.node.name, ""):
            before[change.node.name] = change.node.reservation
            reserved.append(Reserved(max(since_s, change.time_s), change.node.name, change.node.reservation))
    return tuple(sorted(reserved, key=lambda change: change.time_s))


def _changing(events: Iterable[NodeEvent]) -> list[NodeEvent]:
    """Return the events that change what a node was before; at first all are up."""
    before: dict[str, Kind] = {}
    changes = []
    for event in sorted(events, key=lambda event: event.time):
        if event.kind != before.get(event.node, "up"):
            changes.append(event)
        before[event.node] = event.kind
    return changes


@dataclass(frozen=True)
class RecordedWindow:
    """A window of the history, ready to be replayed from its beginning."""

    since_s: float
    until_s: float
    cluster: Cluster
    jobs: tuple[Job, ...]
    """Rows are those of the workload. Jobs that ran into the window are cut at its beginning and keep their nodes."""
    workload: Workload
    reserved: tuple[Reserved, ...] = ()
    """Which reservation each node was for, by time."""
    speeds: SiteSpeeds = FLAT_SPEEDS
    """By which run times were turned into work, and replays go."""
    unplaced: int = 0
    """Jobs that ran, nobody knows where: their run times stand as they are."""
    power: PowerModel = PowerModel()
    """What its nodes draw; what its jobs do is in the workload."""

    @property
    def table(self) -> SpeedTable:
        """Return the speeds for the engine."""
        return self.speeds.table

    @property
    def started(self) -> NDArray[np.float64]:
        """Return when each job really started; NaN for one that did not."""
        return np.array([np.nan if job.start_s is None else job.start_s for job in self.jobs], np.float64)

    def occupation(self, since_s: float, until_s: float) -> Occupation:
        """Return how the nodes really spent a part of the window: busy while a job held some of them, else empty."""
        row = {name: index for index, name in enumerate(self.cluster.names)}
        held: list[list[tuple[float, float]]] = [[] for _ in row]
        parts: list[tuple[int, float, int]] = []
        for number, job in enumerate(self.jobs):
            if job.start_s is None:
                continue
            begin, end = max(job.start_s, since_s), until_s if job.end_s is None else min(until_s, job.end_s)
            for part in job.allocations:
                if end > begin and part.node in row:
                    parts.append((row[part.node], part.gpus * (end - begin), number))
                    held[row[part.node]].append((begin, end))
        busy = np.array([_covered(intervals) for intervals in held])
        node, gpu_s, job_row = np.array(parts, np.float64).reshape(-1, 3).T
        load, draw = (column[job_row.astype(np.int64)] for column in (self.workload.load, self.workload.draw))
        known_s = np.where(np.isnan(draw), 0.0, gpu_s)
        gpu, known, *load_and_draw = by_node(node.astype(np.int64), len(row), gpu_s, known_s,
                                             known_s * np.nan_to_num(load), known_s * np.nan_to_num(draw))
        return Occupation(until_s, busy, until_s - since_s - busy, np.zeros(len(row)), gpu,
                          np.full(len(row), until_s), float("inf"), known, *load_and_draw)


def _covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the seconds that lie in at least one interval."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def past(history: HistoryReader, since_s: float, until_s: float, speeds: SiteSpeeds = FLAT_SPEEDS,
         watts: SiteWatts = CATALOGUED) -> RecordedWindow:
    """Return what is recorded of a window; ClusterError when no node is.

    A job that was put back into the queue is there once for each run, and each waits for the one before it. Run times
    become the work that it was by these speeds, and nodes and jobs draw these watts.
    """
    known = {job.key: job for jobs in (history.jobs(since_s, until_s, overlap=True), history.jobs(since_s, until_s),
                                       history.unfinished_jobs()) for job in jobs}
    again = {job.key: (job, runs) for job, runs in history.requeued(since_s, until_s)}
    pieces = [[job] for key, job in known.items() if key not in again]
    pieces += [list(_runs_of(job, runs)) for job, runs in again.values()]
    jobs = in_order([part for piece in pieces for part in _within(piece, since_s, until_s)])
    workload = Workload.from_records(jobs, run={job.key: _run_s(job, until_s) for job in jobs},
                                     predictor=RuntimeHistory(history.load_columns(until_s=until_s, last=RECENT)))
    workload = _aged(workload, jobs, {piece.key: waits_from(piece) for parts in pieces for piece in parts})
    workload = watts.with_watts(workload, [job.user for job in jobs], [job.name for job in jobs])
    cluster = recorded_cluster(history, since_s, until_s, reserved="up")
    window = RecordedWindow(since_s, until_s, cluster, tuple(jobs), workload, reservations(history, since_s, until_s),
                            speeds, power=watts.on(cluster))
    return window if speeds.flat else _in_work(window)


def _in_work(window: RecordedWindow) -> RecordedWindow:
    """Return a window with the group of each job, and run times turned into work where the jobs ran."""
    users, names = ([getattr(job, column) for job in window.jobs] for column in ("user", "name"))
    each = np.arange(len(users))
    work = replace(window.workload, application=window.speeds.rows(each, users, each, names))
    started = window.started
    parts = [(row, part.node, part.gpus) for row, job in enumerate(window.jobs) if job.start_s is not None
             for part in job.allocations]
    work, placed = as_work(work, window.cluster, window.table, held_by(work, window.cluster, parts, started))
    return replace(window, workload=work, unplaced=int((~placed & np.isfinite(started)).sum()))


def _runs_of(job: Job, runs: Sequence[JobRun]) -> Iterator[Job]:
    """Yield a requeued job once for each run, put into the queue when the one before had ended, and as it waits now."""
    queued_s = job.submit_s
    for run in runs:
        eligible_s = job.eligible_s if queued_s <= (job.eligible_s or 0.0) <= run.start_s else None
        yield replace(job, submit_s=queued_s, eligible_s=eligible_s, state=run.state, start_s=run.start_s,
                      end_s=run.end_s, allocations=run.allocations)
        queued_s = run.start_s if run.end_s is None else run.end_s
    if job.state is JobState.PENDING:
        yield replace(job, submit_s=queued_s, start_s=None, end_s=None, allocations=())


def _within(pieces: Iterable[Job], since_s: float, until_s: float) -> Iterator[Job]:
    """Yield what of a job belongs to a window, each piece behind the one before it."""
    behind = ""
    for piece in pieces:
        gone = piece.end_s is not None and piece.end_s <= since_s
        if not gone and piece.submit_s < until_s and (piece.start_s is not None or not piece.state.finished):
            yield replace(_cut(piece, since_s), dependency=behind)
            behind = f"afterany:{piece.job_id}"


def _cut(job: Job, since_s: float) -> Job:
    """Return a job as it looks from the beginning of the window."""
    if job.start_s is None or job.start_s >= since_s:
        return replace(job, eligible_s=max(job.submit_s, job.eligible_s or 0.0, since_s))
    parts = job.allocations
    request = Request(sum(part.gpus for part in parts), max(1, len(parts)), cpus=sum(part.cpus for part in parts),
                      memory_bytes=sum(part.memory_bytes for part in parts),
                      required_nodes=tuple(part.node for part in parts))
    return replace(job, eligible_s=None, submit_s=since_s - BEFORE_S, start_s=since_s - BEFORE_S, request=request)


def _aged(workload: Workload, jobs: Sequence[Job], since_s: Mapping[tuple[str, float], float]) -> Workload:
    """Return a workload that knows how long its jobs had waited before the window began; ``since_s`` by ``Job.key``."""
    if workload.charged is None:
        return workload
    waited = [waits_from(job) - since_s.get(job.key, waits_from(job)) for job in jobs]
    return replace(workload, charged=replace(workload.charged, waited=np.array(waited, np.float64)))


def _run_s(job: Job, until_s: float) -> float:
    """Return how long a job runs: what it really took, else its whole limit, and in any case to the window's end."""
    if job.start_s is not None and job.end_s is not None:
        return job.end_s - job.start_s
    limit = UNLIMITED_S if job.limit_s is None else job.limit_s
    return limit if job.start_s is None else max(limit, until_s - job.start_s)


@dataclass(frozen=True, slots=True)
class Measured:
    """Energy that was really measured in a window."""

    joules: dict[PowerClass, float]
    coverage: float
    """Share of the window that the daemon watched."""
    first_s: float
    last_s: float
    """When it first and last watched within the window."""

    @property
    def total(self) -> float:
        """Return all joules, for the whole window."""
        return sum(self.joules.values())


def measured(history: HistoryReader, since_s: float, until_s: float) -> Measured:
    """Return the energy of the windows in [since, until), scaled up to what was not watched."""
    seconds: dict[float, float] = {}
    joules: dict[PowerClass, float] = {}
    for reading in history.waste(since_s, until_s):
        seconds[reading.start_s] = max(seconds.get(reading.start_s, 0.0), reading.seconds)
        joules[reading.power_class] = joules.get(reading.power_class, 0.0) + reading.energy_joules
    coverage = min(1.0, sum(seconds.values()) / max(1.0, until_s - since_s))
    scale = 1.0 / coverage if coverage > 0 else 0.0
    return Measured({power_class: scale * value for power_class, value in joules.items()}, coverage,
                    min(seconds, default=until_s), max((start + seconds[start] for start in seconds), default=since_s))

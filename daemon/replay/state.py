"""The one state that policies see: filled by the engine in simulated time, or from a live snapshot. They cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Job, JobState, Node, NodeState, Placement, SchedulerSnapshot
from . import arrays as a
from .bind import state_arrays
from .cluster import Cluster
from .moves import join, preempt, run_on, start
from .workload import UNLIMITED_S, Workload

OVERRUN_S = 60.0
"""How much longer a live job is expected to run that is past its limit."""

NOT_ELIGIBLE = frozenset({"Dependency", "DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "BeginTime"})
"""The scheduler's words for a pending job that must not start although there may be room."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A job that can never run, and why."""

    job: int
    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start or resume a waiting job on these nodes (rows of the cluster), with this many GPUs on each."""

    job: int
    nodes: tuple[int, ...]
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Preempt:
    """Send a running job back to the queue."""

    job: int


@dataclass(frozen=True, slots=True)
class Resize:
    """Continue a running elastic job on other GPUs; it pays the overhead."""

    job: int
    nodes: tuple[int, ...]
    gpus: tuple[int, ...]


Action = Start | Preempt | Resize
Actions = Sequence[Action]
"""In the order in which they happen; a waiting job that is left out is held."""


@dataclass
class ClusterState:
    """A cluster, its jobs and the moment; ``arrays`` is what compiled code works on."""

    cluster: Cluster
    workload: Workload
    arrays: a.State
    rejected: list[Rejection] = field(default_factory=list)

    @classmethod
    def of(cls, cluster: Cluster, workload: Workload, *, seed: int = 0, preemption_s: float = 0.0,
           speed: a.Speed | None = None) -> ClusterState:
        """Return the state before the first event: everything free, no job submitted."""
        arrays, refused = state_arrays(cluster, workload, seed, preemption_s, speed or NO_SPEED)
        return cls(cluster, workload, arrays, [Rejection(job, reason) for job, reason in sorted(refused.items())])

    @classmethod
    def from_snapshot(cls, snapshot: SchedulerSnapshot, now: float, *, seed: int = 0) -> ClusterState:
        """Return the live state: pending jobs wait, running jobs hold their nodes until their limit at the latest.

        Nodes that may not be used now are closed, not absent, so rows stay the same. Jobs on unknown nodes hold nothing;
        what a node says is allocated beyond its known jobs is taken away from what is free.
        """
        jobs = [job for job in snapshot.jobs if job.state.active or job.state is JobState.PENDING]
        cluster = Cluster.from_records(snapshot.nodes, snapshot.partitions)
        workload = Workload.from_records(jobs, run={job.key: _expected_run(job, now) for job in jobs})
        state = cls.of(cluster, workload, seed=seed)
        state.arrays.clock[a.NOW] = now
        _settle(state, sorted_like(workload, jobs), snapshot.nodes, now)
        return state

    @property
    def now(self) -> float:
        """Return the moment, in seconds."""
        return float(self.arrays.clock[a.NOW])

    @property
    def waiting(self) -> NDArray[np.intp]:
        """Return the jobs that could start if there were room, by (submit, id)."""
        return np.flatnonzero(self.arrays.progress.status == a.WAITING)

    @property
    def running(self) -> NDArray[np.int32]:
        """Return the jobs that hold resources, in no particular order."""
        return self.arrays.running.heap[:self.arrays.count[a.RUNNING_JOBS]]

    def nodes_of(self, job: int) -> NDArray[np.int32]:
        """Return the nodes a job holds, or held last."""
        first = self.arrays.progress.offset[job]
        return self.arrays.progress.node[first:first + self.arrays.progress.width[job]]

    def shares_of(self, job: int) -> NDArray[np.int32]:
        """Return the GPUs a job holds on each of its nodes."""
        first = self.arrays.progress.offset[job]
        return self.arrays.progress.share[first:first + self.arrays.progress.width[job]]

    def placement(self, job: int) -> Placement:
        """Return where a job runs, or ran last, by names."""
        return Placement(tuple(self.cluster.names[node] for node in self.nodes_of(job)), tuple(map(int, self.shares_of(job))))

    def copy(self) -> ClusterState:
        """Return a state that can be changed without changing this one; what never changes is shared."""
        old = self.arrays
        nodes = old.nodes._replace(free_gpus=old.nodes.free_gpus.copy(), free_cpus=old.nodes.free_cpus.copy(),
                                   free_memory=old.nodes.free_memory.copy(), open=old.nodes.open.copy(),
                                   busy=old.nodes.busy.copy(), random=old.nodes.random.copy())
        fresh = {name: type(part)(*(array.copy() for array in part)) for name, part in
                 (("progress", old.progress), ("queue", old.queue), ("running", old.running))}
        loose = {name: getattr(old, name).copy() for name in ("clock", "count", "usage", "digest", "log", "chosen")}
        return ClusterState(self.cluster, self.workload, old._replace(nodes=nodes, **fresh, **loose), self.rejected)

    def apply(self, actions: Actions) -> None:
        """Carry out actions; ValueError when one does not fit, naming the job."""
        for action in actions:
            status = self.arrays.progress.status[action.job]
            if isinstance(action, Start):
                self._expect(action, status, a.WAITING)
                start(self.arrays, action.job, self._room(action), len(action.nodes))
            else:
                self._expect(action, status, a.RUNNING)
                preempt(self.arrays, action.job)
                if isinstance(action, Resize):
                    start(self.arrays, action.job, self._room(action), len(action.nodes))

    def _expect(self, action: Action, status: int, expected: int) -> None:
        if status != expected:
            raise ValueError(f"{action}: job {self.workload.ids[action.job]} is not "
                             f"{'waiting' if expected == a.WAITING else 'running'}")

    def _room(self, action: Start | Resize) -> NDArray[np.int64]:
        """Return the nodes of a placement after checking that the job fits there."""
        chosen, nodes = np.array(action.nodes, np.int64), self.arrays.nodes
        if len(set(action.nodes)) < len(action.nodes) or not len(chosen):
            raise ValueError(f"{action}: a placement names each of its nodes once, and at least one")
        if (nodes.free_gpus[chosen] < np.array(action.gpus)).any() or not nodes.open[chosen].all():
            raise ValueError(f"{action}: not enough free GPUs there")
        return chosen


NO_SPEED = a.Speed(np.ones((1, 1)), np.ones((1, 4)))
"""Speed does not depend on where a job runs."""


def sorted_like(workload: Workload, jobs: Sequence[Job]) -> list[Job]:
    """Return records in the order of the workload's rows."""
    by_id = {job.job_id: job for job in jobs}
    return [by_id[job_id] for job_id in workload.ids if isinstance(job_id, str)]


def _expected_run(job: Job, now: float) -> float:
    """Return how long a live job takes in all if it uses its whole limit."""
    limit = UNLIMITED_S * 12 if job.limit_s is None else job.limit_s
    if job.state.active and job.start_s is not None:
        return max(limit, now + OVERRUN_S - job.start_s)
    return limit


def _settle(state: ClusterState, jobs: Sequence[Job], nodes: Sequence[Node], now: float) -> None:
    """Put live jobs where they are, and close what may not be used."""
    arrays = state.arrays
    row = {name: index for index, name in enumerate(state.cluster.names)}
    for job, record in enumerate(jobs):
        if arrays.progress.status[job] == a.REJECTED and not record.state.active:
            continue
        if record.state.active:
            _hold(state, job, record, row, now)
        elif record.reason in NOT_ELIGIBLE:
            arrays.progress.status[job] = a.HELD
        else:
            join(arrays, job)
    for index, node in enumerate(nodes):
        _correct(arrays.nodes, index, node)


def _hold(state: ClusterState, job: int, record: Job, row: dict[str, int], now: float) -> None:
    """Let a running job hold the nodes it holds in reality, whatever it asked for."""
    arrays = state.arrays
    held = [part for part in record.allocations if part.node in row]
    progress, jobs = arrays.progress, arrays.jobs
    room = int(progress.offset[job + 1] - progress.offset[job])
    if not held or len(held) > room:
        progress.status[job] = a.REJECTED
        state.rejected.append(Rejection(job, "runs on nodes the scheduler does not list"))
        return
    # What it holds is the truth; the request is rewritten so that all books agree.
    widest = max(part.gpus for part in held)
    equal = [part for part in held if part.gpus == widest]
    ordered = equal + [part for part in held if part.gpus != widest]
    jobs.chunk[job], jobs.chunks[job] = widest, len(equal)
    jobs.rest[job] = ordered[-1].gpus if len(ordered) > len(equal) else 0
    jobs.cpus[job] = max(part.cpus for part in held)
    jobs.memory[job] = max(part.memory_bytes for part in held)
    chosen = np.array([row[part.node] for part in ordered], np.int64)
    started = now if record.start_s is None else min(record.start_s, now)
    progress.start[job] = started
    progress.remaining[job] = max(0.0, progress.remaining[job] - (now - started))
    jobs.limit[job] = max(jobs.limit[job], now + OVERRUN_S - started)
    progress.attained[job] = (now - started) * sum(part.gpus for part in held)
    run_on(arrays, job, chosen, len(chosen))


def _correct(nodes: a.Nodes, index: int, node: Node) -> None:
    """Take away what the scheduler says is taken beyond the jobs we know."""
    nodes.free_gpus[index] = max(0, min(nodes.free_gpus[index], node.gpus - node.gpus_allocated))
    if node.cpus:
        nodes.free_cpus[index] = max(0, min(nodes.free_cpus[index], node.cpus - node.cpus_allocated))
    if node.memory_bytes:
        free = node.memory_bytes - node.memory_allocated_bytes
        nodes.free_memory[index] = max(0, min(nodes.free_memory[index], free))
    if node.state is NodeState.UNKNOWN or node.reservation:
        nodes.open[index] = 0

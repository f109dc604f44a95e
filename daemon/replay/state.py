"""The one state that policies see: filled in simulated time, or from a live snapshot. Policies cannot tell which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from ...storage.columns import JobColumns
from ...storage.recommendations import Placement
from ...storage.records import Job, SchedulerSnapshot
from . import arrays as a
from . import ended_runs, live
from .admission.gate import Gate, Hold
from .cluster import Cluster
from .compiled import Entrance
from .feasibility import ReplayOptions, state_arrays
from .moves import held_by, preempt, resize, start_shares, take
from .priority.calculator import PriorityCalculator
from .priority.site import Scheduling
from .site_speeds import FLAT_SPEEDS, SiteSpeeds
from .speed import FLAT, SpeedTable
from .workload import RuntimePredictor, Workload


@dataclass(frozen=True, slots=True)
class Rejection:
    """A job that can never run, and why."""

    job: int
    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start or resume a waiting job on these nodes (rows of the cluster), with this many GPUs on each.

    ``cpus`` and ``memory`` are what it is granted where that is not what it requested, for each ``chunk`` of its GPUs.
    """

    job: int
    nodes: tuple[int, ...]
    gpus: tuple[int, ...]
    cpus: int | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Preempt:
    """Send a running job back to the queue."""

    job: int


@dataclass(frozen=True, slots=True)
class Resize:
    """Let a running job go on with other GPUs, or with other CPUs and memory only; both cost it time."""

    job: int
    nodes: tuple[int, ...]
    gpus: tuple[int, ...]
    cpus: int | None = None
    memory: int | None = None


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
    records: tuple[Job, ...] = ()
    """The job behind each row of a live state; tasks of an array that wait together share one."""
    gate: Gate | None = None
    """What the scheduler would let start in a live state."""
    holds: dict[int, Hold] = field(default_factory=dict)
    """Why some waiting jobs of a live state may not start now, by row."""
    known: SpeedTable = FLAT
    """What is known of speeds, which policies go by; what they really are is the engine's."""
    calculator: PriorityCalculator | None = None
    """Ranks the jobs, where the order is computed from time to time."""
    walk: object = None
    """The walk through the queue, where that is another than the rules have."""
    ended: Callable[[], a.Floats] = ended_runs.none
    """Returns for a live state the recorded runs of ended jobs (:mod:`.ended_runs`), which few orders need."""
    entrance: Entrance = field(default_factory=Entrance)
    """The way of this run into the compiled loop."""

    @classmethod
    def of(cls, cluster: Cluster, workload: Workload, *, seed: int = 0, **terms: Unpack[ReplayOptions]) -> ClusterState:
        """Return the state before the first event: everything free, no job submitted."""
        arrays, refused = state_arrays(cluster, workload, seed, **terms)
        rejected = [Rejection(job, reason) for job, reason in sorted(refused.items())]
        return cls(cluster, workload, arrays, rejected, known=terms.get("known", terms.get("speed", FLAT)))

    @classmethod
    def from_snapshot(cls, snapshot: SchedulerSnapshot, now: float, *, seed: int = 0,
                      predictor: RuntimePredictor | None = None, speeds: SiteSpeeds = FLAT_SPEEDS,
                      past: JobColumns | None = None) -> ClusterState:
        """Return the live state: pending jobs wait, running jobs hold their nodes until their limit at the latest.

        Nodes that may not be used now are closed, not absent, so rows stay the same. Jobs on unknown nodes hold
        nothing; what a node says is allocated beyond its known jobs is taken away from what is free. Waiting jobs that
        the scheduler itself holds back (dependencies, limits, begin times) are held, not waiting. Jobs of the ``past``
        that have ended get no row.
        """
        jobs = live.jobs_of(snapshot)
        cluster = replace(Cluster.from_records(live.nodes_of(snapshot), snapshot.partitions),
                          scheduling=replace(Scheduling.of(snapshot.rules, snapshot.partitions), current=True))
        workload = Workload.from_records(jobs, run={job.key: live.expected_run(job, now) for job in jobs},
                                         predictor=predictor)
        limits = live.limits(workload, jobs, now)
        workload = replace(workload, run=np.where(np.isfinite(workload.limit) | np.isinf(limits), workload.run, limits))
        if not speeds.flat:
            groups = np.array([speeds.row(job.user, job.name) for job in jobs], np.int32)
            least, most = speeds.sizes(groups, workload.gpus)
            free = (workload.nodes == 0) & ~np.array([job.state.active for job in jobs], bool)
            least, most = (np.where(free, sizes, workload.gpus) for sizes in (least, most))
            workload = replace(workload, application_names=speeds.labels, application=groups, minimum=least,
                               maximum=most)
        state = cls.of(cluster, workload, seed=seed, known=speeds.fungible)
        state.records = tuple(jobs)
        state.arrays.clock[a.NOW], state.arrays.jobs.limit = now, limits
        if past is not None:
            codes = {name: code + 1 for code, name in enumerate(workload.user_names)}  # as rows of jobs have them
            state.ended = partial(ended_runs.beside, past, jobs, codes)
        state.gate = Gate(snapshot, now)
        state.arrays, state.holds = live.settle(state.arrays, cluster, jobs, snapshot, state.gate)
        state.rejected = [rejection for rejection in state.rejected if not jobs[rejection.job].state.active
                          and state.arrays.jobs[rejection.job].status == a.REJECTED]
        return state

    @property
    def now(self) -> float:
        """Return the moment, in seconds."""
        return float(self.arrays.clock[a.NOW])

    @property
    def waiting(self) -> NDArray[np.intp]:
        """Return the jobs that could start if there were room, by (submit, id)."""
        return np.flatnonzero(self.arrays.jobs.status == a.WAITING)

    @property
    def running(self) -> NDArray[np.int32]:
        """Return the jobs that hold resources, in no particular order."""
        return self.arrays.heap[:self.arrays.counts[a.RUNNING_JOBS]]

    @property
    def occupant(self) -> NDArray[np.int32]:
        """Return the job on each GPU, [node, slot]; -1 where free, -2 where there is no GPU."""
        return self.arrays.occupant

    def held(self, job: int) -> a.Records:
        """Return the nodes a job holds, or held last, and the GPUs on each: columns ``node`` and ``gpus``."""
        row = self.arrays.jobs[job]
        return self.arrays.held[row.held:row.held + row.nodes_held]

    def placement(self, job: int) -> Placement:
        """Return where a job runs, or ran last, by names."""
        held = self.held(job)
        return Placement(tuple(self.cluster.names[node] for node in held.node), tuple(held.gpus.tolist()))

    def copy(self) -> ClusterState:
        """Return a state that can be changed without changing this one."""
        fixed = {"eligible", "demand", "speed", "spread", "company", "grants", "islands", "costs", "weights", "traits",
                 "kin"}
        fresh = {name: getattr(self.arrays, name).copy() for name in a.State._fields if name not in fixed}
        return ClusterState(self.cluster, self.workload, self.arrays._replace(**fresh), list(self.rejected),
                            self.records, self.gate, dict(self.holds), self.known,
                            self.calculator and self.calculator.copy(), self.walk, self.ended)

    def apply(self, actions: Actions) -> None:
        """Carry out actions; ValueError, naming the job, when one does not fit."""
        for action in actions:
            expected = a.WAITING if isinstance(action, Start) else a.RUNNING
            if self.arrays.jobs[action.job].status != expected:
                raise ValueError(f"{action}: job {self.workload.ids[action.job]} is not "
                                 f"{'waiting' if isinstance(action, Start) else 'running'}")
            if isinstance(action, Preempt):
                preempt(self.arrays, action.job)
            elif isinstance(action, Start):
                row = self.arrays.jobs[action.job]
                row.cpus_held, row.memory_held = self._place(action, self.arrays.nodes)
                start_shares(self.arrays, action.job, len(action.nodes))
            else:
                self._resize(action)

    def _resize(self, action: Resize) -> None:
        """Carry out a resize; the cheaper one where no GPU changes hands."""
        held, nodes, costs = self.held(action.job), self.arrays.nodes.copy(), self.arrays.costs
        for part in held:
            take(nodes, part.node, held_by.py_func(self.arrays, action.job), part.gpus, -1)  # type: ignore[attr-defined]
            nodes[part.node].busy -= 1
        granted = self._place(action, nodes)
        same = held.node.tolist() == list(action.nodes) and held.gpus.tolist() == list(action.gpus)
        resize(self.arrays, action.job, len(action.nodes), *granted, costs[a.GRANT if same else a.RESIZE])

    def _place(self, action: Start | Resize, nodes: a.Records) -> tuple[int, int]:
        """Write a placement down after checking that the job fits there; return the CPUs and memory of a chunk."""
        chosen, shares = np.array(action.nodes, np.int64), np.array(action.gpus, np.int64)
        row = self.arrays.jobs[action.job]
        if not 0 < len(set(action.nodes)) == len(chosen) == len(shares) <= row.room:
            raise ValueError(f"{action}: a placement names each node once with its GPUs, {row.room} at most")
        if not row.minimum <= shares.sum() <= row.maximum or (shares < 0).any():
            raise ValueError(f"{action}: the job takes {row.minimum} to {row.maximum} GPUs")
        if not (nodes.open[chosen] & self.arrays.eligible[row.pool, chosen]).all():
            raise ValueError(f"{action}: closed, or not a node for this job")
        if row.whole and (nodes.busy[chosen] > 0).any():
            raise ValueError(f"{action}: the job shares no node, and others run there")
        granted = (int(row.cpus if action.cpus is None else action.cpus),
                   int(row.memory if action.memory is None else action.memory))
        if min(granted) < 0:
            raise ValueError(f"{action}: nobody can be granted less than nothing")
        scale = np.maximum(row.chunk, 1)
        cpus, memory = (np.where(row.chunk > 0, -(-amount * shares // scale), amount) for amount in granted)
        if ((nodes.free_gpus[chosen] < shares) | (nodes.free_cpus[chosen] < cpus)
                | (nodes.free_memory[chosen] < memory)).any():
            raise ValueError(f"{action}: not enough room there")
        self.arrays.chosen[:len(chosen)], self.arrays.shares[:len(chosen)] = chosen, shares
        return granted

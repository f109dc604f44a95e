"""What a run looked like over time: queue, use, watts, and what ran where; gathered while it runs, in bounded space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from .arrays import CHANGED, WAITING_JOBS, WAKE
from .cluster import Cluster
from .engine import Policy, Run, go_on, prepare, stepwise
from .events import EventList, event_list_of, next_time
from .feasibility import ReplayOptions
from .outcome import fragmentation
from .power import Energy, PowerModel, energy, joules, occupation
from .rules import Rules
from .state import ClusterState
from .workload import Workload

Floats = NDArray[np.float64]

SAMPLES = 512
"""Most intervals of a timeline; where more are needed each becomes twice as long."""
CLASSES = tuple(part.name for part in fields(Energy))

BARS, ROWS = 3000, 48
"""Most bars and nodes that a Gantt chart shows."""
BAR = np.dtype([("node", "i4"), ("slot", "i4"), ("gpus", "i4"), ("job", "i8"), ("start", "f8"), ("end", "f8")])


@dataclass(frozen=True)
class Timeline:
    """A run over time; row ``k`` is the interval from ``time[k]`` to ``time[k + 1]``."""

    time: Floats
    """Seconds; one more than there are intervals."""
    waiting: Floats
    """Jobs at the end of the interval."""
    used: Floats
    """Share of the GPUs' time that jobs held."""
    watts: Floats
    """[interval, class] mean watts, classes as in ``CLASSES``; their integral is the run's energy."""
    fragmentation: float
    """Share of free GPUs that the typical job cannot use (FGD), at the ends of the intervals, weighed by their length
    and by how many GPUs were free; NaN when none ever was."""


@dataclass(frozen=True, slots=True)
class _Mark:
    time: float
    waiting: int
    gpu_s: float
    joules: tuple[float, ...]
    free: int
    fragmentation: float


def proceed(state: ClusterState, event_list: EventList, policy: Policy, until: float) -> None:
    """Let everything happen up to a moment; the state must have been prepared for the policy's rules."""
    rules: Rules | None = getattr(policy, "rules", None)
    if rules is not None:
        go_on(state, event_list, rules, until)
        return
    for _ in stepwise(state, event_list, policy, until):
        pass


def begun(cluster: Cluster, workload: Workload, policy: Policy, *, seed: int = 0,
          **terms: Unpack[ReplayOptions]) -> tuple[Run, EventList]:
    """Return a run in which nothing has happened yet, and what is to come; :func:`proceed` goes on from there."""
    state = ClusterState.of(cluster, workload, seed=seed, **terms)
    rules: Rules | None = getattr(policy, "rules", None)
    if rules is not None:
        prepare(state, rules)
    return Run(policy.name, seed, cluster, workload, state), event_list_of(cluster)


def follow(cluster: Cluster, workload: Workload, policy: Policy, *, model: PowerModel, seed: int = 0,
           **terms: Unpack[ReplayOptions]) -> tuple[Run, Timeline]:
    """Replay as :func:`.engine.run` does, to the same digest, and return its timeline beside it."""
    run, event_list = begun(cluster, workload, policy, seed=seed, **terms)
    state = run.state
    known = workload.submit[np.isfinite(workload.submit)]
    first, last = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
    if not np.isfinite(first):
        return run, _timeline([], cluster)
    step, marks = max(1.0, last - first) / (SAMPLES / 2), [_Mark(first, 0, 0.0, (0.0,) * len(CLASSES), 0, 0.0)]
    # As plain Python it is faster than the way into compiled code, on which all arrays are looked at.
    upcoming_at = next_time.py_func  # type: ignore[attr-defined]
    while np.isfinite(upcoming_at(state.arrays, event_list)):
        until = marks[-1].time + step
        proceed(state, event_list, policy, until)
        over = not np.isfinite(upcoming_at(state.arrays, event_list))
        marks.append(_mark(run, model, state.now if over else until))
        if len(marks) > SAMPLES:
            marks, step = marks[::2], 2 * step
    return run, _timeline(marks, cluster)


@dataclass(frozen=True, slots=True)
class Reserved:
    """From ``time_s`` on a node is for jobs that name this reservation; for all jobs when it is ''."""

    time_s: float
    node: str
    name: str


class ReservedNodes:
    """Lets jobs onto reserved nodes if they name the reservation, and onto the others if they name none.

    Changes are in order of time. A job whose reservation no node has any more, or ever has, counts as one without.
    """

    def __init__(self, state: ClusterState, workload: Workload, cluster: Cluster, changes: Sequence[Reserved]) -> None:
        """Note the reservation of each job."""
        self._state, self._cluster, self._later = state, cluster, list(changes)
        self._ends = _ends(changes)
        self._anyway = state.arrays.eligible.copy()
        self._reserved = np.full(len(cluster), "", object)
        pools, first = np.unique(state.arrays.jobs.pool, return_index=True)
        self._reservation_of = {int(pool): _reservation_of(workload, int(job))
                                for pool, job in zip(pools, first, strict=True)}

    def proceed(self, proceed_until: Callable[[float], None], until: float) -> None:
        """Let everything happen up to a moment, by a function that knows no reservations."""
        while self._later and self._later[0].time_s <= until:
            time_s = self._later[0].time_s
            proceed_until(float(np.nextafter(time_s, -np.inf)))
            self._change([change for change in self._later if change.time_s == time_s])
            self._later = [change for change in self._later if change.time_s > time_s]
        proceed_until(until)

    def _change(self, changes: Sequence[Reserved]) -> None:
        """Change what is reserved, all at one moment, and have a decision taken then."""
        time_s = changes[0].time_s
        for change in changes:
            self._reserved[self._cluster.index(change.node)] = change.name
        arrays = self._state.arrays
        for pool, name in self._reservation_of.items():
            named = name if time_s < self._ends.get(name, -np.inf) else ""
            arrays.eligible[pool] = self._anyway[pool] & (self._reserved == named)
        arrays.counts[CHANGED], arrays.outlook[:] = 1, 0
        arrays.clock[WAKE] = min(arrays.clock[WAKE], max(time_s, self._state.now))


def _ends(changes: Sequence[Reserved]) -> dict[str, float]:
    """Return from when on no node has a reservation any more, by its name; infinite where one always has."""
    names, ends = dict[str, str](), dict[str, float]()
    for change in changes:
        before, names[change.node] = names.get(change.node, ""), change.name
        if before not in names.values():
            ends[before] = change.time_s
        ends[change.name] = np.inf
    return ends


def _reservation_of(workload: Workload, job: int) -> str:
    row = int(workload.eligible[job])
    return workload.constraints[row].reservation if row >= 0 else ""


def replay(cluster: Cluster, workload: Workload, policy: Policy, reserved: Sequence[Reserved],
           **terms: Unpack[ReplayOptions]) -> Run:
    """Replay to the end as :func:`.engine.run` does, while nodes are ``reserved`` as for :func:`energies`."""
    done, event_list = begun(cluster, workload, policy, **terms)
    ReservedNodes(done.state, workload, cluster, reserved).proceed(
        partial(proceed, done.state, event_list, policy), np.inf)
    return done


def energies(cluster: Cluster, workload: Workload, policy: Policy, instants: Sequence[float], model: PowerModel,
             seed: int = 0, reserved: Sequence[Reserved] = (), **terms: Unpack[ReplayOptions]) -> tuple[Run, Floats]:
    """Replay up to the last of these ascending moments; return the joules drawn from the first to each of them.

    Meanwhile nodes are ``reserved``, in order of time: only jobs that name a reservation may start on its nodes.
    ``terms`` are those of the replay, speeds among them.
    """
    state = ClusterState.of(cluster, workload, seed=seed, **terms)
    # An empty cluster draws power before the first job comes.
    state.arrays.meters.changed = np.minimum(state.arrays.meters.changed, instants[0])
    run, event_list = Run(policy.name, seed, cluster, workload, state), event_list_of(cluster)
    if getattr(policy, "rules", None) is not None:
        prepare(state, policy.rules)  # type: ignore[attr-defined]
    drawn, reserved_nodes = [], ReservedNodes(state, workload, cluster, reserved)
    for until in instants:
        reserved_nodes.proceed(partial(proceed, state, event_list, policy), until)
        drawn.append(energy(run, model, until=until).total)
    return run, np.array(drawn) - drawn[0]


def _mark(run: Run, model: PowerModel, time: float) -> _Mark:
    nodes, spent = np.asarray(run.state.arrays.nodes), occupation(run, time)
    return _Mark(time, int(run.state.arrays.counts[WAITING_JOBS]), float(spent.gpu.sum()),
                 astuple(joules(spent, run.cluster.gpus, model)), int(nodes["free_gpus"][nodes["open"] == 1].sum()),
                 fragmentation(run.state.arrays))


def _timeline(marks: list[_Mark], cluster: Cluster) -> Timeline:
    if len(marks) < 2:
        return Timeline(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros((0, len(CLASSES))), np.nan)
    time = np.array([mark.time for mark in marks])
    length = np.maximum(np.diff(time), 1e-9)
    used = np.diff([mark.gpu_s for mark in marks]) / (length * max(1, int(cluster.gpus.sum())))
    watts = np.diff(np.array([mark.joules for mark in marks]), axis=0) / length[:, None]
    free = length * [mark.free for mark in marks[1:]]
    stuck = float((free * [mark.fragmentation for mark in marks[1:]]).sum())
    return Timeline(time, np.array([mark.waiting for mark in marks[1:]], np.float64), used, watts,
                  stuck / float(free.sum()) if free.any() else np.nan)


def bars(run: Run) -> NDArray[np.void]:
    """Return what ran where, [bar] of ``BAR``, on the first nodes: all the run, or its middle if that is too much.

    A job that was preempted appears with its last stretch only.
    """
    jobs = run.state.arrays.jobs
    ended = np.flatnonzero(~np.isnan(run.end))
    rows = np.repeat(ended, jobs.nodes_held[ended])
    first = jobs.held[rows] + np.arange(len(rows)) - np.repeat(
        np.cumsum(jobs.nodes_held[ended]) - jobs.nodes_held[ended], jobs.nodes_held[ended])
    parts = run.state.arrays.held[first]
    run_bars = np.zeros(len(rows), BAR)
    run_bars["node"], run_bars["gpus"], run_bars["job"] = parts.node, parts.gpus, rows
    run_bars["start"], run_bars["end"] = jobs.since[rows], run.end[rows]
    run_bars = run_bars[(run_bars["node"] < ROWS) & (run_bars["gpus"] > 0) & (run_bars["end"] > run_bars["start"])]
    run_bars = run_bars[np.argsort(run_bars["start"], kind="stable")]
    return _slotted(_middle(run_bars) if len(run_bars) > BARS else run_bars, run.cluster)


def _middle(run_bars: NDArray[np.void]) -> NDArray[np.void]:
    """Return the bars of the stretch in the middle of the run that can be drawn, cut off at its ends."""
    begin = (len(run_bars) - BARS) // 2
    first, last = run_bars["start"][begin], run_bars["start"][begin + BARS - 1]
    reaching = np.flatnonzero(run_bars["end"][:begin] > first)
    shown = run_bars[np.concatenate([reaching, np.arange(begin, begin + BARS - len(reaching))])]
    last = min(last, shown["start"].max(initial=first))
    shown["start"], shown["end"] = np.maximum(shown["start"], first), np.minimum(shown["end"], last)
    return np.asarray(shown[shown["end"] > shown["start"]])


def _slotted(run_bars: NDArray[np.void], cluster: Cluster) -> NDArray[np.void]:
    """Give each bar GPUs of its node that nobody else holds: the lowest free ones, a bar for each run of neighbours."""
    free_from = np.full((min(ROWS, len(cluster)), int(cluster.gpus.max(initial=1))), -np.inf)
    placed = []
    for bar in run_bars:
        slots = free_from[bar["node"]]
        chosen = np.flatnonzero(slots <= bar["start"])[:bar["gpus"]]
        slots[chosen] = bar["end"]
        for group in np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1):
            if len(group):
                placed.append((bar["node"], group[0], len(group), bar["job"], bar["start"], bar["end"]))
    return np.array(placed, BAR)

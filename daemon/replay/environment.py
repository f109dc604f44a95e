"""Many episodes side by side for agents to learn in: the engine's own moves, and observations built in compiled code.

A decision names the waiting job that starts next. If it does not fit it keeps its claim, time passes and nobody
overtakes it, as in RLScheduler (SC'20); who always names the oldest is FIFO, start for start. An episode is a stretch
of a workload on an empty cluster; its reward sums up to minus the job completion times of all its jobs, in hours.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import (
    NOW,
    REJECTED,
    RUNNING_JOBS,
    STARTED,
    WAITING_JOBS,
    Longs,
    Records,
    State,
)
from .cluster import Cluster
from .compiled import compiled, compiled_without_lock
from .events import Agenda, advance, next_time
from .moves import ask_of, site_of, start
from .queue import following
from .rules import Place
from .state import ClusterState
from .workload import COLUMNS, UNLIMITED_S, Workload, WorkloadError

VISIBLE = 128
"""Waiting jobs that are shown, the oldest first; younger ones wait unseen."""
FEATURES = ("wait", "limit", "gpus", "fits")
"""Of a job: w / (w + 1 h) for its wait w and likewise for its limit, its share of all GPUs, and whether as many nodes
have as many free GPUs as it wants."""
SQUASH_S = 3600.0
_FIXED = 2
"""Features that never change: limit and gpus."""

Floats32 = NDArray[np.float32]


class Batch(NamedTuple):
    """The episodes: every array of a :class:`State` with one more axis in front, and what agents see of them."""

    state: Any
    """A ``State`` of [episode, …] arrays."""
    agenda: Longs
    """[episode, 2]"""
    nothing: NDArray[np.float64]
    nobody: Longs
    fresh: Any
    """The ``State`` that an episode begins in, with all jobs of the workload."""
    fixed: Floats32
    """[job of the workload, feature that never changes]"""
    offset: Longs
    """[episode] first job of its stretch."""
    shown: Longs
    """[episode] how many jobs are shown."""
    visible: NDArray[np.int32]
    """[episode, place] which."""
    jobs: Floats32
    """[episode, place, feature]"""
    nodes: Floats32
    """[episode, GPUs] share of the nodes that have so many free."""
    reward: Floats32
    """[episode] of the last decision."""
    done: NDArray[np.bool_]
    """[episode] whether it ended the episode; the observation is then that of the next one."""


@compiled
def episode(batch: Batch, index: int) -> State:
    """Return one episode as the engine knows it."""
    s = batch.state
    return State(
        s.nodes[index], s.eligible, s.demand, s.jobs[index], s.held[index], s.order, s.leaves[index],
        s.branches[index], s.roots[index], s.lines[index], s.heap[index], s.estimates[index], s.occupant[index],
        s.islands, s.speed, s.spread, s.company, s.grants, s.clock[index], s.counts[index],
        s.words[index], s.costs, s.meters[index], s.usage[index],
        s.log[index], s.chosen[index], s.shares[index], s.imagined[index], s.listed[index], s.keys[index],
        s.weights, s.traits, s.mood)


@compiled
def reset(batch: Batch, index: int, offset: int) -> None:
    """Begin a new episode with the jobs from ``offset`` on, and go to its first decision."""
    state, fresh = episode(batch, index), batch.fresh
    batch.offset[index] = offset
    held = 0
    for job in range(state.jobs.size):
        state.jobs[job] = fresh.jobs[offset + job]
        state.jobs[job].rank, state.jobs[job].held = job, held
        held += state.jobs[job].room
    for node in range(state.nodes.size):
        state.nodes[node] = fresh.nodes[node]
        state.meters[node] = fresh.meters[node]
        for slot in range(state.occupant.shape[1]):
            state.occupant[node, slot] = fresh.occupant[node, slot]
    state.leaves[:], state.branches[:], state.roots[:] = 0, 0, 0
    state.usage[:] = 0.0
    for place in range(state.counts.size):
        state.counts[place] = fresh.counts[place]
    for place in range(state.clock.size):
        state.clock[place] = fresh.clock[place]
    batch.agenda[index, 0] = 0
    to_next_decision(batch, index, state)
    observe(batch, index, state)


@compiled
def to_next_decision(batch: Batch, index: int, state: State) -> float:
    """Let time pass until a job waits or none will come; return the seconds that jobs spent in the system meanwhile."""
    agenda = Agenda(batch.agenda[index], batch.nothing, batch.nobody, batch.nobody)
    spent = 0.0
    while state.counts[WAITING_JOBS] == 0 and agenda.next[0] < state.jobs.size:
        spent += pass_time(state, agenda)
    return spent


@compiled
def pass_time(state: State, agenda: Agenda) -> float:
    """Let the next event happen; return the seconds that jobs spent in the system until then."""
    present = state.counts[WAITING_JOBS] + state.counts[RUNNING_JOBS]
    spent = present * (next_time(state, agenda) - state.clock[NOW]) if present > 0 else 0.0
    advance(state, agenda, np.inf)
    return spent


@compiled
def decide(batch: Batch, index: int, job: int, place: Place) -> float:
    """Start a waiting job as soon as it fits; return the seconds that jobs spent in the system meanwhile."""
    state = episode(batch, index)
    agenda = Agenda(batch.agenda[index], batch.nothing, batch.nobody, batch.nobody)
    state.counts[STARTED] = 0
    spent = 0.0
    count = place(site_of(state), ask_of(state, job), state.chosen)
    while count == 0:
        spent += pass_time(state, agenda)
        count = place(site_of(state), ask_of(state, job), state.chosen)
    start(state, job, count)
    return spent + to_next_decision(batch, index, state)


@compiled
def left_over(state: State) -> float:
    """Return the seconds that running jobs will still spend in the system, when nobody waits any more."""
    spent = 0.0
    for place in range(state.counts[RUNNING_JOBS]):
        spent += state.jobs[state.heap[place]].end - state.clock[NOW]
    return spent


@compiled
def observe(batch: Batch, index: int, state: State) -> None:
    """Write down what an agent sees of an episode."""
    capable = batch.nodes[index]
    count_nodes(state.nodes, capable)
    total, rank, shown = batch.shown[index], following(state, 0, 0), 0
    while rank >= 0 and shown < batch.visible.shape[1]:
        describe(batch, index, shown, rank, state, capable)
        shown += 1
        rank = following(state, 0, rank + 1)
    for place in range(shown, total):
        batch.visible[index, place] = -1
        for feature in range(batch.jobs.shape[2]):
            batch.jobs[index, place, feature] = 0.0
    batch.shown[index] = shown
    share = np.float32(1.0 / state.nodes.size)
    for gpus in range(capable.size - 1):
        capable[gpus] = (capable[gpus] - capable[gpus + 1]) * share
    capable[capable.size - 1] *= share


@compiled
def count_nodes(nodes: Records, capable: Any) -> None:
    """Count the open nodes that have at least so many free GPUs."""
    capable[:] = 0.0
    for node in range(nodes.size):
        capable[nodes[node].free_gpus] += nodes[node].open
    for gpus in range(capable.size - 2, -1, -1):
        capable[gpus] += capable[gpus + 1]


@compiled
def describe(batch: Batch, index: int, place: int, job: int, state: State, capable: Any) -> None:
    """Write down the features of one waiting job."""
    row, features, fixed = state.jobs[job], batch.jobs[index, place], batch.fixed[batch.offset[index] + job]
    wait = state.clock[NOW] - row.submit
    fits = capable[row.chunk] >= row.chunks and capable[row.rest] >= row.chunks + row.rests
    features[0] = wait / (wait + SQUASH_S)
    features[1], features[2] = fixed[0], fixed[1]
    features[3] = 1.0 if fits else 0.0
    batch.visible[index, place] = job


@compiled_without_lock
def step_some(batch: Batch, actions: Longs, offsets: Longs, place: Place, first: int, last: int) -> None:
    """Take one decision in each of some episodes; one that ends begins anew at its offset."""
    for index in range(first, last):
        spent = decide(batch, index, batch.visible[index, actions[index]], place)
        state = episode(batch, index)
        batch.done[index] = state.counts[WAITING_JOBS] == 0
        if batch.done[index]:
            spent += left_over(state)
            reset(batch, index, offsets[index])
        else:
            observe(batch, index, state)
        batch.reward[index] = -spent / 3600.0


@compiled_without_lock
def reset_some(batch: Batch, offsets: Longs, first: int, last: int) -> None:
    """Begin anew in some episodes."""
    for index in range(first, last):
        reset(batch, index, offsets[index])


class Environment:
    """A batch of episodes of equal length; observations are views that the next decision overwrites."""

    def __init__(self, cluster: Cluster, workload: Workload, place: Place, *, episodes: int = 256, length: int = 256,
                 seed: int = 0, threads: int = 1) -> None:
        """Cut episodes of ``length`` jobs from a workload of one queue; ``place`` is a placement's ``rules.place``.

        Raises ``WorkloadError`` when no such stretch can be had.
        """
        state = ClusterState.of(cluster, _possible(cluster, workload, length), seed=seed)
        self._batch = _batch(state, episodes, length)
        self._place, self._length = place, length
        self._random = np.random.default_rng(seed)
        self._threads = ThreadPoolExecutor(threads) if threads > 1 else None
        edges = np.linspace(0, episodes, threads + 1).astype(int).tolist()
        self._parts = list(zip(edges, edges[1:], strict=False))
        self.reset(self._draw())

    @property
    def jobs(self) -> Floats32:
        """Return the visible jobs, [episode, place, feature] as in ``FEATURES``; zeros beyond ``shown``."""
        return self._batch.jobs

    @property
    def nodes(self) -> Floats32:
        """Return the share of nodes by free GPUs, [episode, GPUs]."""
        return self._batch.nodes

    @property
    def shown(self) -> Longs:
        """Return how many jobs are visible, [episode]; at least one. Actions lie below it."""
        return self._batch.shown

    @property
    def reward(self) -> Floats32:
        """Return the rewards of the last decisions, hours, [episode]."""
        return self._batch.reward

    @property
    def done(self) -> NDArray[np.bool_]:
        """Return which episodes ended with the last decision, [episode]; they have begun anew."""
        return self._batch.done

    def state(self, index: int) -> State:
        """Return one episode as the engine knows it, to look at."""
        return episode.py_func(self._batch, index)  # type: ignore[attr-defined]

    def reset(self, offsets: Any) -> None:
        """Begin anew in every episode, at these rows of the workload."""
        chosen = np.ascontiguousarray(offsets, np.int64)
        reset_some(self._batch, chosen, 0, len(chosen))

    def step(self, actions: Any) -> None:
        """Start, in each episode, the visible job at this place; ValueError for a place where none is."""
        chosen = np.ascontiguousarray(actions, np.int64)
        if chosen.shape != self.shown.shape or not ((chosen >= 0) & (chosen < self.shown)).all():
            raise ValueError("an action is the place of a visible job, one for each episode")
        arguments = self._batch, chosen, self._draw(), self._place
        if self._threads is None:
            step_some(*arguments, *self._parts[0])
        else:
            list(self._threads.map(lambda part: step_some(*arguments, *part), self._parts))

    def _draw(self) -> Longs:
        most = len(self._batch.fixed) - self._length
        return self._random.integers(0, most + 1, len(self._batch.shown))


def _possible(cluster: Cluster, workload: Workload, length: int) -> Workload:
    """Return the workload without the jobs that can never run."""
    if (workload.dependency >= 0).any() or len(np.unique(workload.partition)) > 1 or cluster.events:
        raise WorkloadError("episodes are cut from one queue of jobs that do not depend on each other, without outages")
    kept = ClusterState.of(cluster, workload).arrays.jobs.status != REJECTED
    if kept.sum() < length:
        raise WorkloadError(f"an episode of {length} jobs cannot be cut from {int(kept.sum())}")
    names = {name: getattr(workload, name) for name in ("partition_names", "model_names", "user_names", "constraints")}
    columns = {name: getattr(workload, name)[kept] for name in COLUMNS}
    return Workload(ids=range(int(kept.sum())), **columns, **names)


_SHARED = {"eligible", "demand", "order", "islands", "speed", "spread", "company", "grants", "costs", "weights",
           "traits", "mood"}
_PER_JOB = {"order": 0, "heap": 1, "estimates": 1, "listed": 1, "keys": 0}


def _batch(fresh: ClusterState, episodes: int, length: int) -> Batch:
    arrays, jobs = fresh.arrays, fresh.arrays.jobs
    room = np.concatenate([[0], np.cumsum(jobs.room)])
    sizes: dict[str, Any] = {"jobs": length, "held": int((room[length:] - room[:-length]).max()), "log": 3 * length + 3,
             **{name: length + more for name, more in _PER_JOB.items()}}
    sizes |= {name: (1, (length >> 6 * level) + 1) for level, name in enumerate(("leaves", "branches", "roots"), 1)}
    made = {name: array if name in _SHARED else _repeated(array, episodes, sizes.get(name))
            for name, array in arrays._asdict().items()}
    made["order"] = np.arange(length, dtype=np.int32)
    limit = np.minimum(jobs.limit, UNLIMITED_S)
    total = float(fresh.cluster.gpus.sum())
    fixed = np.stack([limit / (limit + SQUASH_S), jobs.gpus / total], axis=1).astype(np.float32)
    return Batch(
        State(**made), np.zeros((episodes, 2), np.int64), np.zeros(0), np.zeros(0, np.int64), arrays, fixed,
        np.zeros(episodes, np.int64), np.zeros(episodes, np.int64), np.full((episodes, VISIBLE), -1, np.int32),
        np.zeros((episodes, VISIBLE, len(FEATURES)), np.float32),
        np.zeros((episodes, int(fresh.cluster.gpus.max()) + 1), np.float32), np.zeros(episodes, np.float32),
        np.zeros(episodes, bool))


def _repeated(array: Any, episodes: int, size: Any) -> Any:
    """Return an array for each episode: a copy, or zeros of another size where it goes by jobs."""
    if size is None:
        return np.array(np.broadcast_to(array, (episodes, *array.shape)), order="C").view(type(array))
    shape = size if isinstance(size, tuple) else (size, *array.shape[1:])
    return np.zeros((episodes, *shape), array.dtype).view(type(array))

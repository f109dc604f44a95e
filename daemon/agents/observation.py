"""What agents observe of a state, the same live and in replay: never more than a live site knows.

It has no true run times and speeds; ends of running jobs are estimates from limits and predictions. Agents decide by
this alone; policies that know more are oracles and have that in their name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..replay import arrays as a
from ..replay.arrays import Floats, Longs, Masks
from ..replay.speed import SpeedTable
from ..replay.state import ClusterState
from ..replay.workload import UNLIMITED_S

USUAL_USE = 0.45
"""Expected run time of a job, as a share of its limit, where nothing is known of similar jobs."""
LEFT = 0.25
"""Expected remaining time of a job that has outlived its prediction, as a share of that prediction: jobs that have run
for long tend to go on for long."""
OLDEST, SHORTEST = 64, 64
"""Waiting jobs that are considered at a time: those submitted first, and those expected to run for the shortest."""


@dataclass(frozen=True)
class ObservedNodes:
    """The nodes; row ``n`` of every array is node ``n`` of the cluster."""

    gpus: Longs
    cpus: Longs
    memory: Longs
    """Bytes."""
    free: Longs
    """[node, GPUs, CPUs and bytes] free now."""
    open: Masks
    busy: Longs
    """Jobs that run there."""
    leaf: Longs
    spine: Longs
    higher: tuple[Longs, ...]
    """Switch of each node on the levels above the spines, the lowest first, without the one that joins all."""
    island: Longs | None
    """Most free GPUs on one island; None where nodes are not divided."""
    largest_island: Longs | None
    """GPUs of the largest one."""


@dataclass(frozen=True)
class WaitingJobs:
    """The waiting jobs, by (submit, id); row ``j`` of every array is job ``rows[j]`` of the state."""

    rows: NDArray[np.intp]
    demands: Longs
    """[job, ...] pool, GPUs, CPUs and bytes of a chunk, chunks, GPUs of the rest, rests, whole nodes."""
    gpus: Longs
    minimum: Longs
    """Fewest and most GPUs that it can use."""
    maximum: Longs
    widest: Longs
    """Most GPUs that it can use of one node."""
    application: Longs
    submit: Floats
    limit: Floats
    guess: Floats
    """Seconds that it is expected to run for."""


@dataclass(frozen=True)
class RunningJobs:
    """The running jobs, by row of the state."""

    rows: NDArray[np.intp]
    demands: Longs
    """The original requests, as of waiting jobs."""
    gpus: Longs
    """GPUs held now."""
    requested_gpus: Longs
    minimum: Longs
    maximum: Longs
    widest: Longs
    application: Longs
    since: Floats
    attained: Floats
    """GPU-seconds received so far."""
    left: Floats
    """Seconds that it is expected to continue."""
    latest: Floats
    """When it ends at the latest, by its limit."""
    shares: Longs
    """[share, ...] index among the running jobs, node, GPUs, CPUs, bytes."""


@dataclass(frozen=True)
class Observation:
    """The observed state at one time."""

    now: float
    nodes: ObservedNodes
    waiting: WaitingJobs
    running: RunningJobs
    eligible: Masks
    """[pool, node] whether jobs of the pool may run on the node."""
    known: SpeedTable
    """The estimated speeds, which may differ from the true ones."""


def observe(state: ClusterState) -> Observation:
    """Return the observation of a state."""
    return Observation(state.now, _nodes(state), _waiting(state), _running(state), state.arrays.eligible == 1,
                       state.known)


def of_application(table: Floats, application: Longs) -> Floats:
    """Return the rows of a speed table for jobs; the last row serves all further applications."""
    return np.asarray(table[np.minimum(application, len(table) - 1)])


def spread_known(known: SpeedTable, application: Longs) -> Masks:
    """Tell for which jobs the slowdown by distance is known: unknown cells are 1, measurements hardly ever are."""
    return np.asarray((of_application(known.spread, application) != 1.0).any(axis=1))


def grants_known(known: SpeedTable, application: Longs) -> Masks:
    """Tell for which jobs the speed by CPUs or memory is known."""
    grants = known.grants.reshape(len(known.grants), -1)
    return np.asarray(of_application((grants != grants[:, :1]).any(axis=1)[:, None], application)[:, 0])


def guesses(state: ClusterState, rows: NDArray[np.intp]) -> Floats:
    """Return the expected run times of jobs, seconds: the prediction, else a share of the limit."""
    work, limit = state.workload, np.minimum(_plain(state.arrays.jobs)["limit"][rows], UNLIMITED_S)
    use, expected = work.use[rows], work.prediction[rows]
    expected = np.where(np.isnan(expected), limit * np.where(np.isnan(use), USUAL_USE, use), expected)
    return np.asarray(np.maximum(1.0, np.minimum(expected, limit)))


def _nodes(state: ClusterState) -> ObservedNodes:
    nodes = _plain(state.arrays.nodes)
    island = largest = None
    if state.arrays.counts[a.DIVIDED]:
        present, numbers = state.arrays.occupant != -2, range(int(state.arrays.islands.max(initial=0)) + 1)
        free = state.arrays.occupant == -1
        of_island = [state.arrays.islands == number for number in numbers]
        island = np.max([(free & part).sum(axis=1) for part in of_island], axis=0)
        largest = np.max([(present & part).sum(axis=1) for part in of_island], axis=0)
    free = np.stack([nodes["free_gpus"], nodes["free_cpus"], nodes["free_memory"]], axis=1)
    return ObservedNodes(nodes["gpus"].copy(), nodes["cpus"].copy(), nodes["memory"].copy(), free, nodes["open"] == 1,
                         nodes["busy"].copy(), nodes["leaf"].copy(), nodes["spine"].copy(), _higher(nodes), island,
                         largest)


def _higher(nodes: NDArray[np.void]) -> tuple[Longs, ...]:
    joined = nodes["joined"]
    return tuple(np.cumsum(joined > level)[nodes["spine"]] for level in range(1, int(joined.max(initial=0))))


_DEMANDS = ("pool", "chunk", "cpus", "memory", "chunks", "rest", "rests", "whole")
_OF_ALL = (*_DEMANDS, "gpus", "minimum", "maximum", "widest", "model")
_OF_WAITING = (*_OF_ALL, "submit", "limit")
_OF_RUNNING = (*_OF_ALL, "gpus_held", "since", "estimate", "attained", "nodes_held", "held", "cpus_held", "memory_held")


def _waiting(state: ClusterState) -> WaitingJobs:
    rows = state.waiting
    jobs = _columns(state.arrays.jobs, rows, _OF_WAITING)
    return WaitingJobs(rows, _demands(jobs), _long(jobs["gpus"]), _long(jobs["minimum"]), _long(jobs["maximum"]),
                       _long(jobs["widest"]), _long(jobs["model"]), jobs["submit"], jobs["limit"],
                       guesses(state, rows))


def _demands(jobs: Mapping[str, NDArray[Any]]) -> Longs:
    demands = np.empty((len(jobs["pool"]), len(_DEMANDS)), np.int64)
    for column, name in enumerate(_DEMANDS):
        demands[:, column] = jobs[name]
    return demands


def _running(state: ClusterState) -> RunningJobs:
    rows = np.sort(state.running).astype(np.intp)
    jobs = _columns(state.arrays.jobs, rows, _OF_RUNNING)
    ran, guess, latest = state.now - jobs["since"], guesses(state, rows), jobs["estimate"]
    left = np.minimum(np.maximum(guess - ran, LEFT * guess), np.maximum(0.0, latest - state.now))
    return RunningJobs(rows, _demands(jobs), _long(jobs["gpus_held"]), _long(jobs["gpus"]), _long(jobs["minimum"]),
                       _long(jobs["maximum"]), _long(jobs["widest"]), _long(jobs["model"]), jobs["since"].copy(),
                       jobs["attained"] + ran * jobs["gpus_held"], left, latest, _shares(state, jobs))


def considered_jobs(observation: Observation) -> NDArray[np.intp]:
    """Return the waiting jobs to consider in a round, by index, in order of submission."""
    count = len(observation.waiting.rows)
    if count <= OLDEST + SHORTEST:
        return np.arange(count)
    shortest = OLDEST + np.argsort(observation.waiting.guess[OLDEST:], kind="stable")[:SHORTEST]
    return np.concatenate([np.arange(OLDEST), np.sort(shortest)])


def _columns(records: a.Records, rows: NDArray[np.intp], names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """Return some columns of some records; copying whole records would take many times as long."""
    plain = _plain(records)
    return {name: plain[name][rows] for name in names}


def _shares(state: ClusterState, jobs: Mapping[str, NDArray[Any]]) -> Longs:
    """Return the allocations of running jobs, as ``RunningJobs.shares``."""
    count = jobs["nodes_held"].astype(np.int64)
    owner = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count) + jobs["held"][owner]
    held = _plain(state.arrays.held)
    shares = np.empty((len(owner), 5), np.int64)
    shares[:, 0], shares[:, 1], shares[:, 2] = owner, held["node"][place], held["gpus"][place]
    size = jobs["chunk"][owner].astype(np.int64)
    chunk = np.maximum(1, size)
    for column, name in ((3, "cpus_held"), (4, "memory_held")):
        amount = jobs[name].astype(np.int64)[owner]
        shares[:, column] = np.where(size > 0, -(-amount * shares[:, 2] // chunk), amount)
    whole_nodes = jobs["whole"][owner] == 1
    if whole_nodes.any():
        shares[whole_nodes, 3] = _plain(state.arrays.nodes)["cpus"][shares[whole_nodes, 1]]
    return shares


def _plain(records: a.Records) -> a.Records:
    """Return records as a plain array, whose columns are read ten times as fast as those of a record array."""
    return records.view(np.ndarray)


def _long(column: NDArray[np.int32]) -> Longs:
    return column.astype(np.int64)

"""What an agent may see of a moment, live and in replay alike: never more than a site has.

There is no true run time in it, no true speed, no end of a running job but what its limit and a guess allow. Agents
decide on this alone; oracles are other policies, and are called so.
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
"""Share of its limit that a job runs for of whose like nothing is known."""
LEFT = 0.25
"""Share of its guess that a job still runs for once it has outlived it: a job that ran for long runs on for long."""
OLDEST, SHORTEST = 64, 64
"""Waiting jobs that are considered at a time: those submitted first, and those expected to run for the shortest."""


@dataclass(frozen=True)
class NodesSeen:
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
    """Place of each node on the levels above the spines, the lowest first, without the one that holds all."""
    island: Longs | None
    """Most free GPUs on one island; None where nodes are not divided."""
    largest_island: Longs | None
    """GPUs of the largest one."""


@dataclass(frozen=True)
class WaitingSeen:
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
class RunningSeen:
    """The running jobs, by row of the state."""

    rows: NDArray[np.intp]
    demands: Longs
    """As of waiting jobs: what it once asked for."""
    gpus: Longs
    """GPUs held now."""
    asked: Longs
    minimum: Longs
    maximum: Longs
    widest: Longs
    application: Longs
    since: Floats
    attained: Floats
    """GPU-seconds received so far."""
    left: Floats
    """Seconds that it is expected to go on."""
    latest: Floats
    """When it ends at the latest, by its limit."""
    shares: Longs
    """[share, ...] index among the running jobs, node, GPUs, CPUs, bytes."""


@dataclass(frozen=True)
class Observation:
    """A moment."""

    now: float
    nodes: NodesSeen
    waiting: WaitingSeen
    running: RunningSeen
    eligible: Masks
    """[pool, node] whether jobs of the pool may run on the node."""
    known: SpeedTable
    """What is known of speeds, be it true or not."""


def observe(state: ClusterState) -> Observation:
    """Return what an agent may see of a state."""
    return Observation(state.now, _nodes(state), _waiting(state), _running(state), state.arrays.eligible == 1,
                       state.known)


def of_application(table: Floats, application: Longs) -> Floats:
    """Return the rows of a speed table for jobs; a table of one row serves all."""
    return np.asarray(table[np.minimum(application, len(table) - 1)])


def spread_known(known: SpeedTable, application: Longs) -> Masks:
    """Tell for which jobs it is known what distance costs: unknown cells are 1, and a measurement hardly ever is."""
    return np.asarray((of_application(known.spread, application) != 1.0).any(axis=1))


def grants_known(known: SpeedTable, application: Longs) -> Masks:
    """Tell for which jobs it is known what CPUs or memory are worth."""
    grants = known.grants.reshape(len(known.grants), -1)
    return np.asarray(of_application((grants != grants[:, :1]).any(axis=1)[:, None], application)[:, 0])


def guesses(state: ClusterState, rows: NDArray[np.intp]) -> Floats:
    """Return how long jobs are expected to run, seconds: as predicted, else by the limit, else for as long as any."""
    work, limit = state.workload, np.minimum(_plain(state.arrays.jobs)["limit"][rows], UNLIMITED_S)
    use, found = work.use[rows], work.prediction[rows]
    found = np.where(np.isnan(found), limit * np.where(np.isnan(use), USUAL_USE, use), found)
    return np.asarray(np.maximum(1.0, np.minimum(found, limit)))


def _nodes(state: ClusterState) -> NodesSeen:
    nodes = _plain(state.arrays.nodes)
    island = largest = None
    if state.arrays.counts[a.DIVIDED]:
        there, numbers = state.arrays.occupant != -2, range(int(state.arrays.islands.max(initial=0)) + 1)
        free = state.arrays.occupant == -1
        of_island = [state.arrays.islands == number for number in numbers]
        island = np.max([(free & part).sum(axis=1) for part in of_island], axis=0)
        largest = np.max([(there & part).sum(axis=1) for part in of_island], axis=0)
    free = np.stack([nodes["free_gpus"], nodes["free_cpus"], nodes["free_memory"]], axis=1)
    return NodesSeen(nodes["gpus"].copy(), nodes["cpus"].copy(), nodes["memory"].copy(), free, nodes["open"] == 1,
                     nodes["busy"].copy(), nodes["leaf"].copy(), nodes["spine"].copy(), _higher(nodes), island, largest)


def _higher(nodes: NDArray[np.void]) -> tuple[Longs, ...]:
    joined = nodes["joined"]
    return tuple(np.cumsum(joined > level)[nodes["spine"]] for level in range(1, int(joined.max(initial=0))))


_ASKS = ("pool", "chunk", "cpus", "memory", "chunks", "rest", "rests", "whole")
_OF_ALL = (*_ASKS, "gpus", "minimum", "maximum", "widest", "model")
_OF_WAITING = (*_OF_ALL, "submit", "limit")
_OF_RUNNING = (*_OF_ALL, "gpus_held", "since", "estimate", "attained", "nodes_held", "held", "cpus_held", "memory_held")


def _waiting(state: ClusterState) -> WaitingSeen:
    rows = state.waiting
    jobs = _columns(state.arrays.jobs, rows, _OF_WAITING)
    return WaitingSeen(rows, _asks(jobs), _long(jobs["gpus"]), _long(jobs["minimum"]), _long(jobs["maximum"]),
                       _long(jobs["widest"]), _long(jobs["model"]), jobs["submit"], jobs["limit"],
                       guesses(state, rows))


def _asks(jobs: Mapping[str, NDArray[Any]]) -> Longs:
    found = np.empty((len(jobs["pool"]), len(_ASKS)), np.int64)
    for column, name in enumerate(_ASKS):
        found[:, column] = jobs[name]
    return found


def _running(state: ClusterState) -> RunningSeen:
    rows = np.sort(state.running).astype(np.intp)
    jobs = _columns(state.arrays.jobs, rows, _OF_RUNNING)
    ran, guess, latest = state.now - jobs["since"], guesses(state, rows), jobs["estimate"]
    left = np.minimum(np.maximum(guess - ran, LEFT * guess), np.maximum(0.0, latest - state.now))
    return RunningSeen(rows, _asks(jobs), _long(jobs["gpus_held"]), _long(jobs["gpus"]), _long(jobs["minimum"]),
                       _long(jobs["maximum"]), _long(jobs["widest"]), _long(jobs["model"]), jobs["since"].copy(),
                       jobs["attained"] + ran * jobs["gpus_held"], left, latest, _shares(state, jobs))


def looked_at(seen: Observation) -> NDArray[np.intp]:
    """Return the waiting jobs that are considered at a time, by index; they stand in order of submission."""
    count = len(seen.waiting.rows)
    if count <= OLDEST + SHORTEST:
        return np.arange(count)
    short = OLDEST + np.argsort(seen.waiting.guess[OLDEST:], kind="stable")[:SHORTEST]
    return np.concatenate([np.arange(OLDEST), np.sort(short)])


def _columns(records: a.Records, rows: NDArray[np.intp], names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """Return some columns of some records: whole records are many times as long as what is asked of them."""
    plain = _plain(records)
    return {name: plain[name][rows] for name in names}


def _shares(state: ClusterState, jobs: Mapping[str, NDArray[Any]]) -> Longs:
    """Return what running jobs hold where."""
    count = jobs["nodes_held"].astype(np.int64)
    which = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + jobs["held"][which]
    held = _plain(state.arrays.held)
    found = np.empty((len(which), 5), np.int64)
    found[:, 0], found[:, 1], found[:, 2] = which, held["node"][place], held["gpus"][place]
    size = jobs["chunk"][which].astype(np.int64)
    chunk = np.maximum(1, size)
    for column, name in ((3, "cpus_held"), (4, "memory_held")):
        amount = jobs[name].astype(np.int64)[which]
        found[:, column] = np.where(size > 0, -(-amount * found[:, 2] // chunk), amount)
    whole = jobs["whole"][which] == 1
    if whole.any():
        found[whole, 3] = _plain(state.arrays.nodes)["cpus"][found[whole, 1]]
    return found


def _plain(records: a.Records) -> a.Records:
    """Return records as a plain array: a column of a record array, asked for in Python, takes ten times as long."""
    return records.view(np.ndarray)


def _long(column: NDArray[np.int32]) -> Longs:
    return column.astype(np.int64)

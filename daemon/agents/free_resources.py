"""Free resources, allocated within one decision: where a job fits, how close together, and when it would fit.

Jobs with the same demand are one *kind* and are checked once; nodes on which no job fits are left out, and after a
start a kind is checked again only where it fitted on the nodes that changed (``placing``, compiled).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..replay.arrays import Floats, Longs, Masks
from ..replay.state import ClusterState, Start
from . import placing
from .candidate_placement import CandidatePlacement, members, released
from .demands import CHUNK, CHUNKS, CPUS, MEMORY, POOL, REST, RESTS, WHOLE, kinds_of, needs, suffices
from .observation import Observation
from .placing import FURTHER, ISLAND, LEAF, LEFTOVER, LEVEL, NODE, OPENS, SPINE, FreeResourceArrays

FAR = 1 << 60


class FreeResources:
    """The free resources while jobs are placed one by one."""

    def __init__(self, observation: Observation, demands: Longs) -> None:
        """Take the jobs' demands, [job, ...] as ``WaitingJobs.demands``; ``kind`` then is the kind of each job."""
        nodes = observation.nodes
        self._observation, self.free, self.busy = observation, nodes.free.copy(), nodes.busy.copy()
        self.kinds, self.kind = kinds_of(demands)
        self._allowed = observation.eligible[self.kinds[:, POOL]] & nodes.open
        whole_nodes = self.kinds[:, WHOLE] == 1
        self._whole = whole_nodes if whole_nodes.any() else None
        self._full, self._last = needs(self.kinds, CHUNK), needs(self.kinds, REST)
        self._fits = self._everywhere(self._full)
        rests = bool((self.kinds[:, RESTS] > 0).any())
        self._rest_fits = self._everywhere(self._last) if rests else self._fits[:0]
        self._chunks = self.kinds[:, CHUNKS].tolist()
        self._alone = (self.kinds[:, CHUNKS] + self.kinds[:, RESTS] == 1).tolist()
        self.arrays = self._arrays()
        self._soonest: dict[tuple[int, int], float] = {}
        self._best: dict[tuple[int, ...], int] = {}
        self._ready: dict[int, tuple[Floats, int]] = {}
        """By kind: when nodes are ready, and the number of changes at which that was computed."""
        self._changed_nodes: list[NDArray[np.intp]] = []
        self._members: dict[int, NDArray[np.intp]] = {}
        self._releases: tuple[Longs, Floats, Longs] | None = None

    def _arrays(self) -> FreeResourceArrays:
        """Return the arrays for compiled code; free resources, busy nodes and fits are shared with it."""
        nodes, keys = self._observation.nodes, 2 * len(self.kinds)
        switches = np.array([nodes.leaf, nodes.spine, *nodes.higher], np.int64)
        most = max(len(self.free), int(switches.max(initial=0)), int(self.free[:, 0].max(initial=0)),
                   int(nodes.gpus.max(initial=0))) + 1
        island = np.zeros(0, np.int64) if nodes.island is None else nodes.island.astype(np.int64)
        near = np.flatnonzero(self._fits.any(axis=0) | self._rest_fits.any(axis=0))
        return FreeResourceArrays(
            self.free, self.busy, nodes.gpus, nodes.cpus, island, switches, self.kinds, self._full, self._last,
            self._allowed, self._fits, self._rest_fits, np.zeros(len(self.free), bool), near, near.copy(),
            np.zeros(1, bool), np.zeros((keys, 4), np.int64), np.ones(keys, bool), switches.max(axis=1, initial=0) + 1,
            np.zeros(len(self.free), np.int64), np.zeros((2, len(self.free)), np.int64), np.zeros((3, most), np.int64),
            np.zeros(len(self.free), bool))

    def keys(self, beside: Masks) -> Longs:
        """Return the keys of jobs for :meth:`could_start`; a job that is ``beside`` keeps off reserved nodes."""
        return 2 * self.kind + beside

    def could_start(self, keys: Longs, left: Masks) -> Masks:
        """Tell which of the jobs that are left could start now."""
        startable = np.empty(len(keys), bool)
        placing.look(self.arrays, keys, left, startable)
        return startable

    @property
    def summaries(self) -> Longs:
        """Return ``FreeResourceArrays.summaries``, valid for keys that were looked up."""
        return self.arrays.summaries

    def placement(self, kind: int, *, beside: bool = False) -> CandidatePlacement | None:
        """Return the closest placement for a job of this kind now; ``beside`` excludes reserved nodes."""
        key = 2 * kind + beside
        count = placing.find(self.arrays, key)
        if not count:
            return None
        summary = self.arrays.summaries[key].tolist()
        return CandidatePlacement(self.arrays.place[:count].copy(), summary[LEVEL], summary[LEFTOVER],
                                  summary[OPENS] == 1)

    @property
    def reserved(self) -> Masks:
        """Return which nodes are reserved for a waiting job."""
        return self.arrays.reserved

    def fitting(self, kind: int, *, beside: bool = False) -> Masks:
        """Tell which nodes have room for a chunk of this kind now; ``beside`` excludes reserved nodes."""
        fits = self._fits[kind]
        return np.asarray(fits & ~self.arrays.reserved if beside else fits)

    def take(self, kind: int, placement: CandidatePlacement, row: int, *, granted: bool = False) -> Start:
        """Allocate a placement to a job; return the action, with CPUs and memory where ``granted``."""
        placing.take(self.arrays, kind, placement.nodes)
        self._note(placement.nodes)
        chunks, demand = self._chunks[kind], self.kinds[kind]
        gpus = [int(demand[CHUNK])] * chunks + [int(demand[REST])] * (len(placement.nodes) - chunks)
        more = (int(demand[CPUS]), int(demand[MEMORY])) if granted else (None, None)
        return Start(row, tuple(placement.nodes.tolist()), tuple(gpus), *more)

    def give_back(self, shares: Longs) -> None:
        """Release what a running job holds, [share, ...] node, GPUs, CPUs, bytes."""
        nodes = self._changed(shares, -1)
        near = np.union1d(self.arrays.near, nodes)
        self.arrays = self.arrays._replace(near=near, order=near.copy())

    def hold(self, shares: Longs) -> None:
        """Allocate again what a running job released, [share, ...] node, GPUs, CPUs, bytes."""
        self._changed(shares, 1)

    def _changed(self, shares: Longs, sign: int) -> NDArray[np.intp]:
        nodes = shares[:, 0].astype(np.intp)
        self.free[nodes] -= sign * shares[:, 1:]
        self.busy[nodes] += sign
        placing.renew(self.arrays, nodes)
        self._note(nodes)
        return nodes

    def _note(self, nodes: NDArray[np.intp]) -> None:
        """Mark nodes as changed: times at which jobs would fit there are computed again."""
        self._changed_nodes.append(nodes)
        self._soonest.clear()

    def best_level(self, kind: int) -> int:
        """Return how close together a job of this kind could ever be on this cluster."""
        demand, nodes = self.kinds[kind], self._observation.nodes
        if self._alone[kind]:
            return NODE if nodes.largest_island is not None and nodes.largest_island.max() < demand[CHUNK] else ISLAND
        most = int(demand[POOL]), int(demand[CHUNK])
        for level, switch in ((LEAF, nodes.leaf), (SPINE, nodes.spine)):
            if (*most, level) not in self._best:
                able = self._observation.eligible[demand[POOL]] & (nodes.gpus >= demand[CHUNK])
                self._best[*most, level] = int(np.bincount(switch[able], minlength=1).max())
            if self._best[*most, level] >= demand[CHUNKS] + demand[RESTS]:
                return level
        return FURTHER

    def ready(self, kind: int) -> Floats:
        """Return by when each node has room for a chunk of this kind if running jobs use their whole time limits."""
        times, seen_moves = self._ready.get(kind, (None, 0))
        if times is None:
            times = self._ends(kind, np.arange(len(self.free)))
        elif seen_moves < len(self._changed_nodes):
            nodes = np.unique(np.concatenate(self._changed_nodes[seen_moves:]))
            times[nodes] = self._ends(kind, nodes)
        self._ready[kind] = times, len(self._changed_nodes)
        return times

    def _ends(self, kind: int, nodes: NDArray[np.intp]) -> Floats:
        """Return by when some nodes, in rising order, have room for a chunk of this kind."""
        demand, observation = self.kinds[kind], self._observation
        if self._releases is None:
            self._releases = released(self._observation.running)
        node, end, freed = self._releases
        if len(nodes) < len(self.free):
            begins, ends = np.searchsorted(node, nodes), np.searchsorted(node, nodes, side="right")
            some = np.concatenate([np.arange(begin, last) for begin, last in zip(begins, ends, strict=True)])
            node, end, freed = node[some], end[some], freed[some]
        columns = observation.nodes.gpus, observation.nodes.cpus
        gpus, cpus = (np.where(demand[WHOLE], column, 0)[node] for column in columns)
        had = self.free[node] + freed
        enough = (had >= self._full[kind]).all(axis=1) & (had[:, 0] >= gpus) & (had[:, 1] >= cpus)
        times = np.full(len(nodes), np.inf)
        times[np.searchsorted(nodes, node[enough][::-1])] = end[enough][::-1]  # of a node the earliest, written last
        times[self._fits[kind, nodes]] = observation.now
        times[~(observation.nodes.open[nodes] & observation.eligible[demand[POOL], nodes])] = np.inf
        return np.asarray(np.maximum(times, observation.now))

    def soonest(self, kind: int, level: int) -> float:
        """Return by when a job of this kind fits at this distance level; infinite where that is unknown."""
        if (kind, level) not in self._soonest:
            self._soonest[kind, level] = self._together(kind, level)
        return self._soonest[kind, level]

    def _together(self, kind: int, level: int) -> float:
        times, needed = self.ready(kind), int(self.kinds[kind, CHUNKS] + self.kinds[kind, RESTS])
        if level in (LEAF, SPINE):
            if level not in self._members:
                nodes = self._observation.nodes
                self._members[level] = members(nodes.leaf if level == LEAF else nodes.spine)
            inside = self._members[level]
            if needed > inside.shape[1]:
                return np.inf
            ready_times = np.append(times, np.inf)[inside]  # a place without a node is never ready
            return float(np.partition(ready_times, needed - 1, axis=1)[:, needed - 1].min(initial=np.inf))
        return float(np.partition(times, needed - 1)[needed - 1]) if needed <= len(times) else np.inf

    def reserve(self, kind: int) -> float:
        """Reserve the nodes that a job of this kind gets first; return when, infinite where that is unknown."""
        times, needed = self.ready(kind), int(self.kinds[kind, CHUNKS] + self.kinds[kind, RESTS])
        chosen = np.argsort(times, kind="stable")[:needed]
        when = float(times[chosen].max()) if len(chosen) == needed > 0 else np.inf
        if np.isfinite(when):
            self.arrays.reserved[chosen] = self.arrays.stale[:] = True
        return when

    def _everywhere(self, wanted: Longs) -> Masks:
        """Tell which kinds fit where, [kind, node]; nodes with too few GPUs for every kind are skipped."""
        fits = np.zeros((len(wanted), len(self.free)), bool)
        near = np.flatnonzero(self._observation.nodes.open & (self.free[:, 0] >= wanted[:, 0].min(initial=FAR)))
        fits[:, near] = self._fitting(wanted, near)
        return fits

    def _fitting(self, wanted: Longs, nodes: NDArray[np.intp]) -> Masks:
        """Tell which kinds fit on which of these nodes, [kind, node]."""
        observation, free = self._observation, self.free[nodes]
        fits = self._allowed[:, nodes]
        for column in range(3):
            fits &= suffices(free[:, column], wanted[:, column])
        if self._whole is not None:
            idle = (free[:, 0] == observation.nodes.gpus[nodes]) & (free[:, 1] == observation.nodes.cpus[nodes]) & (
                self.busy[nodes] == 0)
            fits[self._whole] &= idle
        return np.asarray(fits)


def somebody_fits(state: ClusterState) -> bool:
    """Tell whether any waiting job might find its GPUs on a node; a cheap necessary condition."""
    waiting, nodes = state.waiting, state.arrays.nodes.view(np.ndarray)
    if not len(waiting):
        return False
    chunk = state.arrays.jobs.view(np.ndarray)["chunk"]
    return bool(chunk[waiting].min() <= nodes["free_gpus"][nodes["open"] == 1].max(initial=-1))

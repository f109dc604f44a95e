"""Room as an agent hands it out within one decision: where a job fits, how close together, and when it would fit.

Best fit at every level, so that big holes survive: the node, else the leaf, else the spine, else the place above
spines, with the least room that suffices. Jobs that ask for the same are one *kind* and are looked at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..replay.state import ClusterState, Start
from .observation import Observation

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Masks = NDArray[np.bool_]

POOL, CHUNK, CPUS, MEMORY, CHUNKS, REST, RESTS, WHOLE = range(8)
"""Columns of ``WaitingSeen.asks``."""
ISLAND, NODE, LEAF, SPINE, FURTHER = range(5)
"""Levels, columns of ``SpeedTable.spread``."""
FAR = 1 << 60


@dataclass(frozen=True)
class Spot:
    """Where a job could start now."""

    nodes: Longs
    level: int
    """How far apart its GPUs would be."""
    leftover: int
    """GPUs that stay free on the fullest of its nodes."""
    opens: bool
    """Whether one of its nodes was empty."""


class Room:
    """What is free while jobs are placed one by one."""

    def __init__(self, seen: Observation, asks: Longs) -> None:
        """Look at jobs that ask for this, [job, ...] as ``WaitingSeen.asks``; ``kind`` then is the kind of each."""
        nodes = seen.nodes
        self._seen, self.free, self.busy = seen, nodes.free.copy(), nodes.busy.copy()
        self._island = None if nodes.island is None else nodes.island.copy()
        self.kinds, self.kind = _kinds(asks)
        self._full, self._last = self._needs(CHUNK), self._needs(REST)
        self._fits = self._fitting(self._full, np.arange(len(self.free)))
        rests = bool((self.kinds[:, RESTS] > 0).any())
        self._rest_fits = self._fitting(self._last, np.arange(len(self.free))) if rests else self._fits
        self._reserved, self._keeps = np.zeros(len(self.free), bool), False
        self._spots: dict[tuple[int, bool], Spot | None] = {}
        self._soonest: dict[tuple[int, int], float] = {}
        self._releases: tuple[Longs, Floats, Longs] | None = None

    def spot(self, kind: int, *, beside: bool = False) -> Spot | None:
        """Return the closest place for a job of this kind now; ``beside`` keeps off what is reserved."""
        key = (kind, beside and self._keeps)
        if key not in self._spots:
            full, last = self._fits[kind], self._rest_fits[kind]
            if key[1]:
                full, last = full & ~self._reserved, last & ~self._reserved
            one = self.kinds[kind, CHUNKS] + self.kinds[kind, RESTS] == 1
            self._spots[key] = self._one(kind, full) if one else self._several(kind, full, last)
        return self._spots[key]

    @property
    def reserved(self) -> Masks:
        """Return which nodes are kept free for somebody."""
        return self._reserved

    def fitting(self, kind: int, *, beside: bool = False) -> Masks:
        """Tell which nodes hold a chunk of this kind now; ``beside`` keeps off what is reserved."""
        fits = self._fits[kind]
        return np.asarray(fits & ~self._reserved if beside else fits)

    def take(self, kind: int, spot: Spot, row: int) -> Start:
        """Give a job its place; return the action."""
        ask = self.kinds[kind]
        chunks = int(ask[CHUNKS])
        for index, node in enumerate(spot.nodes.tolist()):
            need = self._full[kind] if index < chunks else self._last[kind]
            self.free[node] -= need
            if ask[WHOLE]:
                self.free[node, 1] = 0
            if self._island is not None:  # of the tightest that suffices, as the engine does; at worst too careful
                self._island[node] = min(self._island[node], self.free[node, 0])
        self.busy[spot.nodes] += 1
        self._renew(spot.nodes)
        gpus = [int(ask[CHUNK])] * chunks + [int(ask[REST])] * (len(spot.nodes) - chunks)
        return Start(row, tuple(spot.nodes.tolist()), tuple(gpus))

    def give_back(self, shares: Longs) -> None:
        """Let a running job give up what it holds, [share, ...] node, GPUs, CPUs, bytes."""
        nodes = shares[:, 0].astype(np.intp)
        self.free[nodes] += shares[:, 1:]
        self.busy[nodes] -= 1
        self._renew(nodes)
        self._spots.clear()

    def hold(self, shares: Longs) -> None:
        """Let it have that again."""
        nodes = shares[:, 0].astype(np.intp)
        self.free[nodes] -= shares[:, 1:]
        self.busy[nodes] += 1
        self._renew(nodes)

    def best_level(self, kind: int) -> int:
        """Return how close together a job of this kind could ever be on this cluster."""
        ask, nodes = self.kinds[kind], self._seen.nodes
        if ask[CHUNKS] + ask[RESTS] == 1:
            return NODE if nodes.largest_island is not None and nodes.largest_island.max() < ask[CHUNK] else ISLAND
        able = self._seen.eligible[ask[POOL]] & (nodes.gpus >= ask[CHUNK])
        for level, switch in ((LEAF, nodes.leaf), (SPINE, nodes.spine)):
            if np.bincount(switch[able], minlength=1).max(initial=0) >= ask[CHUNKS] + ask[RESTS]:
                return level
        return FURTHER

    def ready(self, kind: int) -> Floats:
        """Return when each node can hold a chunk of this kind at the latest, as running jobs reach their limits."""
        ask, seen = self.kinds[kind], self._seen
        if self._releases is None:
            self._releases = self._released()
        node, end, freed = self._releases
        need = self._full[kind].copy()
        there = np.where(ask[WHOLE], seen.nodes.gpus, 0)[node], np.where(ask[WHOLE], seen.nodes.cpus, 0)[node]
        had = self.free[node] + freed
        enough = (had >= need).all(axis=1) & (had[:, 0] >= there[0]) & (had[:, 1] >= there[1])
        times = np.full(len(self.free), np.inf)
        times[node[enough][::-1]] = end[enough][::-1]  # of a node the earliest, which is written last
        times[self._fits[kind]] = seen.now
        times[~(seen.nodes.open & seen.eligible[ask[POOL]])] = np.inf
        return np.asarray(np.maximum(times, seen.now))

    def soonest(self, kind: int, level: int) -> float:
        """Return when a job of this kind can be so close together at the latest; infinite where nobody knows."""
        if (kind, level) not in self._soonest:
            self._soonest[kind, level] = self._together(kind, level)
        return self._soonest[kind, level]

    def _together(self, kind: int, level: int) -> float:
        times, needed = self.ready(kind), int(self.kinds[kind, CHUNKS] + self.kinds[kind, RESTS])
        if level in (LEAF, SPINE):
            switch = self._seen.nodes.leaf if level == LEAF else self._seen.nodes.spine
            order = np.lexsort((times, switch))
            first = np.searchsorted(switch[order], np.arange(int(switch.max(initial=0)) + 1))
            last = first + needed - 1
            inside = (last < len(order)) & (switch[order][np.minimum(last, len(order) - 1)] == np.arange(len(first)))
            return float(times[order][last[inside]].min(initial=np.inf))
        return float(np.partition(times, needed - 1)[needed - 1]) if needed <= len(times) else np.inf

    def reserve(self, kind: int) -> float:
        """Keep the nodes free that a job of this kind gets first; return when, infinite where nobody knows."""
        times, needed = self.ready(kind), int(self.kinds[kind, CHUNKS] + self.kinds[kind, RESTS])
        chosen = np.argsort(times, kind="stable")[:needed]
        when = float(times[chosen].max()) if len(chosen) == needed > 0 else np.inf
        if np.isfinite(when):
            self._reserved[chosen] = self._keeps = True
            self._shrink()
        return when

    def _renew(self, nodes: NDArray[np.intp]) -> None:
        """Look again at nodes on which something has changed."""
        self._fits[:, nodes] = self._fitting(self._full, nodes)
        if self._rest_fits is not self._fits:
            self._rest_fits[:, nodes] = self._fitting(self._last, nodes)
        self._shrink()
        self._soonest.clear()

    def _shrink(self) -> None:
        """Look anew for places, but not for those who had none: there is not more room than before."""
        self._spots = {key: None for key, spot in self._spots.items() if spot is None}

    def _needs(self, gpus: int) -> Longs:
        """Return the GPUs, CPUs and bytes of each kind's chunk, or rest: its share, rounded up."""
        ask, size = self.kinds, self.kinds[:, gpus]
        scale = np.maximum(1, ask[:, CHUNK])
        whole = (ask[:, CHUNK] == size) | (ask[:, CHUNK] == 0)
        shares = [np.where(whole, ask[:, what], -(-ask[:, what] * size // scale)) for what in (CPUS, MEMORY)]
        return np.stack([size, *shares], axis=1)

    def _fitting(self, needs: Longs, nodes: NDArray[np.intp]) -> Masks:
        """Tell which kinds fit on which of these nodes, [kind, node]."""
        seen, free = self._seen, self.free[nodes]
        fits = seen.eligible[self.kinds[:, POOL]][:, nodes] & seen.nodes.open[nodes]
        for what in range(3):
            fits &= free[:, what] >= needs[:, what, None]
        whole = self.kinds[:, WHOLE] == 1
        if whole.any():
            idle = (free[:, 0] == seen.nodes.gpus[nodes]) & (free[:, 1] == seen.nodes.cpus[nodes]) & (
                self.busy[nodes] == 0)
            fits[whole] &= idle
        return np.asarray(fits)

    def _one(self, kind: int, fits: Masks) -> Spot | None:
        """Return the fullest node that holds the job, on one island where there is such a node."""
        gpus, level = int(self.kinds[kind, CHUNK]), ISLAND
        if self._island is not None and gpus > 0:
            together = fits & (self._island >= gpus)
            fits, level = (together, ISLAND) if together.any() else (fits, NODE)
        node = int(np.where(fits, self.free[:, 0], FAR).argmin())
        return self._spot(np.array([node]), level, gpus) if fits[node] else None

    def _several(self, kind: int, full: Masks, last: Masks) -> Spot | None:
        """Return the nodes that are closest together."""
        ask, nodes = self.kinds[kind], self._seen.nodes
        chunks, rests = int(ask[CHUNKS]), int(ask[RESTS])
        able = last if rests else full
        if np.count_nonzero(full) < chunks or np.count_nonzero(able) < chunks + rests:
            return None
        leaves = np.bincount(nodes.leaf[able], minlength=int(nodes.leaf.max()) + 1)
        higher = [(FURTHER, place) for place in nodes.higher]
        for level, switch in ((LEAF, nodes.leaf), (SPINE, nodes.spine), *higher):
            room = np.bincount(switch[able], minlength=int(switch.max()) + 1)
            holds = (np.bincount(switch[full], minlength=len(room)) >= chunks) & (room >= chunks + rests)
            if holds.any():
                inside = switch == int(np.where(holds, room, FAR).argmin())
                return self._picked(kind, full & inside, able & inside, leaves, level)
        return self._picked(kind, full, able, leaves, FURTHER)

    def _picked(self, kind: int, full: Masks, able: Masks, leaves: Longs, level: int) -> Spot:
        """Return the fullest nodes of those that are able, of the leaves with most room first."""
        ask, rank = self.kinds[kind], -leaves[self._seen.nodes.leaf] * 1024 + self.free[:, 0]
        order = np.argsort(np.where(full, rank, FAR), kind="stable")[:int(ask[CHUNKS])]
        others = np.where(able, rank, FAR)
        others[order] = FAR
        rest = np.argsort(others, kind="stable")[:int(ask[RESTS])]
        return self._spot(np.concatenate([order, rest]), level, int(ask[CHUNK]))

    def _spot(self, nodes: Longs, level: int, gpus: int) -> Spot:
        free = self.free[nodes, 0]
        return Spot(nodes, level, int(free.min()) - gpus, bool((free == self._seen.nodes.gpus[nodes]).any()))

    def _released(self) -> tuple[Longs, Floats, Longs]:
        """Return the shares of running jobs by (node, end): node, end, and all that the node has given back by then."""
        running = self._seen.running
        end = running.latest[running.shares[:, 0]]
        order = np.lexsort((end, running.shares[:, 1]))
        node, freed = running.shares[order, 1], running.shares[order, 2:].cumsum(axis=0)
        first = np.searchsorted(node, node)
        before = np.vstack([np.zeros((1, 3), np.int64), freed])[first]
        return node, end[order], freed - before


def somebody_fits(state: ClusterState) -> bool:
    """Tell whether a waiting job might find its GPUs; what is quick to tell comes first."""
    waiting, nodes = state.waiting, state.arrays.nodes.view(np.ndarray)
    if not len(waiting):
        return False
    chunk = state.arrays.jobs.view(np.ndarray)["chunk"]
    return bool(chunk[waiting].min() <= nodes["free_gpus"][nodes["open"] == 1].max(initial=-1))


def _kinds(asks: Longs) -> tuple[Longs, NDArray[np.intp]]:
    """Return the different asks, and which of them each job's is."""
    numbers: dict[tuple[int, ...], int] = {}
    kind = [numbers.setdefault(tuple(ask), len(numbers)) for ask in asks.tolist()]
    return np.array(list(numbers), np.int64).reshape(-1, asks.shape[1]), np.array(kind, np.intp)

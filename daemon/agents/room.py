"""Room as an agent hands it out within one decision: where a job fits, how close together, and when it would fit.

Best fit at every level, so that big holes survive: the node, else the leaf, else the spine, else the place above
spines, with the least room that suffices. Jobs that ask for the same are one *kind* and are looked at once; nodes on
which nobody fits are left out, and after a start a kind is looked at again only where it can have changed its place.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..replay.state import ClusterState, Start
from .asks import CHUNK, CHUNKS, POOL, REST, RESTS, WHOLE, kinds_of, needs, suffices
from .observation import Observation
from .spots import NOWHERE, KeptPlace, Spot, lowest, members, preferred, released

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Masks = NDArray[np.bool_]
Rows = NDArray[np.intp]

ISLAND, NODE, LEAF, SPINE, FURTHER = range(5)
"""Levels, columns of ``SpeedTable.spread``."""
FAR = 1 << 60
FEW = 2
"""Kinds, from which on it pays to look for all of them at once."""


class Room:
    """What is free while jobs are placed one by one."""

    def __init__(self, seen: Observation, asks: Longs) -> None:
        """Look at jobs that ask for this, [job, ...] as ``WaitingSeen.asks``; ``kind`` then is the kind of each."""
        nodes = seen.nodes
        self._seen, self.free, self.busy = seen, nodes.free.copy(), nodes.busy.copy()
        self._island = None if nodes.island is None else nodes.island.copy()
        self.kinds, self.kind = kinds_of(asks)
        self._may = seen.eligible[self.kinds[:, POOL]] & nodes.open
        whole = self.kinds[:, WHOLE] == 1
        self._whole = whole if whole.any() else None
        self._one_leaf = not nodes.leaf.any()
        self._full, self._last = needs(self.kinds, CHUNK), needs(self.kinds, REST)
        self._fits = self._everywhere(self._full)
        rests = bool((self.kinds[:, RESTS] > 0).any())
        self._rest_fits = self._everywhere(self._last) if rests else self._fits
        self._near = self._with_room()
        self._chunks, self._rests = self.kinds[:, CHUNKS].tolist(), self.kinds[:, RESTS].tolist()
        self._sizes: list[int] = self.kinds[:, CHUNK].tolist()
        self._alone = (self.kinds[:, CHUNKS] + self.kinds[:, RESTS] == 1).tolist()
        self._order: Rows | None = None
        """The nodes near, the fullest first; None once one of them has changed."""
        self._reserved, self._keeps = np.zeros(len(self.free), bool), False
        self._places: dict[tuple[int, bool], KeptPlace] = {}
        self._soonest: dict[tuple[int, int], float] = {}
        self._best: dict[tuple[int, ...], int] = {}
        self._ready: dict[int, tuple[Floats, int]] = {}
        """By kind: when nodes are ready, and after how many moves that was so."""
        self._moved: list[NDArray[np.intp]] = []
        self._members: dict[int, NDArray[np.intp]] = {}
        self._releases: tuple[Longs, Floats, Longs] | None = None

    def spot(self, kind: int, *, beside: bool = False) -> Spot | None:
        """Return the closest place for a job of this kind now; ``beside`` keeps off what is reserved."""
        key = self.key(kind, beside=beside)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._looked(kind, beside=key[1])
        return place.spot

    def key(self, kind: int, *, beside: bool) -> tuple[int, bool]:
        """Return what a place is remembered by, until nodes are reserved."""
        return kind, beside and self._keeps

    def forgotten(self, keys: Sequence[tuple[int, bool]]) -> list[int]:
        """Return which of some places have to be looked for again, by index."""
        return [index for index, key in enumerate(keys) if key not in self._places]

    def _looked(self, kind: int, *, beside: bool) -> KeptPlace:
        """Look for a place."""
        if self._plain(kind):
            return self._fullest(kind, beside=beside)
        full = self._beside(self._fits[kind, self._near], beside)
        spot = self._one(kind, full) if self._alone[kind] else self._several(
            kind, full, full if self._rest_fits is self._fits else
            self._beside(self._rest_fits[kind, self._near], beside))
        if spot is None:
            return NOWHERE
        held = spot.nodes.tolist()
        return KeptPlace(spot, frozenset(held), max(zip(self.free[spot.nodes, 0].tolist(), held, strict=True)),
                      int(self._seen.nodes.leaf[held[0]]))

    def look(self, keys: Sequence[tuple[int, bool]]) -> None:
        """Look for places of several kinds at once; what is asked for later is then known already."""
        missing = [key for key in keys if key not in self._places and self._plain(key[0])]
        if len(missing) < FEW:
            return
        order = self._fullest_first()
        fits = self._fits[np.array([kind for kind, _ in missing])[:, None], order]
        if any(beside for _, beside in missing):
            fits[[beside for _, beside in missing]] &= ~self._reserved[order]
        for key, row, there in zip(missing, fits, fits.sum(axis=1).tolist(), strict=True):
            self._places[key] = self._first_of(key[0], order, row) if there >= self._needed(key[0]) else NOWHERE

    def _plain(self, kind: int) -> bool:
        """Tell whether nothing but how full nodes are tells places for a kind apart."""
        return self._island is None if self._alone[kind] else self._one_leaf and not self._rests[kind]

    def _needed(self, kind: int) -> int:
        return 1 if self._alone[kind] else self._chunks[kind]

    def _first_of(self, kind: int, order: Rows, fits: Masks) -> KeptPlace:
        """Return the first of the nodes in order that hold a job; there are enough."""
        alone = self._alone[kind]
        if alone:
            at = int(fits.argmax())
            nodes = order[at:at + 1]
        else:
            nodes = order[fits.nonzero()[0][:self._chunks[kind]]]
        held, free = nodes.tolist(), self.free[nodes, 0].tolist()
        opens = any(map(operator.eq, free, self._seen.nodes.gpus[nodes].tolist()))
        spot = Spot(nodes, ISLAND if alone else LEAF, free[0] - self._sizes[kind], opens)
        leaf = 0 if self._one_leaf else int(self._seen.nodes.leaf[held[0]])
        return KeptPlace(spot, frozenset(held), (free[-1], held[-1]), leaf)

    def _fullest_first(self) -> Rows:
        if self._order is None:
            self._order = self._near[np.argsort(self.free[self._near, 0], kind="stable")]
        return self._order

    def _fullest(self, kind: int, *, beside: bool) -> KeptPlace:
        """Return the fullest nodes that hold a job, where nothing else tells nodes apart."""
        order = self._fullest_first()
        fits = self._fits[kind, order]
        if beside:
            fits &= ~self._reserved[order]
        return self._first_of(kind, order, fits) if np.count_nonzero(fits) >= self._needed(kind) else NOWHERE

    @property
    def near(self) -> NDArray[np.intp]:
        """Return the nodes on which somebody fitted at first, or has come to fit: nobody fits on others."""
        return self._near

    @property
    def reserved(self) -> Masks:
        """Return which nodes are kept free for somebody."""
        return self._reserved

    def fitting(self, kind: int, *, beside: bool = False) -> Masks:
        """Tell which nodes hold a chunk of this kind now; ``beside`` keeps off what is reserved."""
        fits = self._fits[kind]
        return np.asarray(fits & ~self._reserved if beside else fits)

    def fitting_each(self, kinds: Sequence[int], *, beside: bool = False) -> Masks:
        """Tell the same of several kinds, [kind, node]."""
        fits = self._fits[np.array(kinds, np.intp)]
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
        self._near, self._order = np.union1d(self._near, nodes), None
        self._places.clear()

    def hold(self, shares: Longs) -> None:
        """Let it have that again."""
        nodes = shares[:, 0].astype(np.intp)
        self.free[nodes] -= shares[:, 1:]
        self.busy[nodes] += 1
        self._renew(nodes)

    def best_level(self, kind: int) -> int:
        """Return how close together a job of this kind could ever be on this cluster."""
        ask, nodes = self.kinds[kind], self._seen.nodes
        if self._alone[kind]:
            return NODE if nodes.largest_island is not None and nodes.largest_island.max() < ask[CHUNK] else ISLAND
        most = int(ask[POOL]), int(ask[CHUNK])
        for level, switch in ((LEAF, nodes.leaf), (SPINE, nodes.spine)):
            if (*most, level) not in self._best:
                able = self._seen.eligible[ask[POOL]] & (nodes.gpus >= ask[CHUNK])
                self._best[*most, level] = int(np.bincount(switch[able], minlength=1).max())
            if self._best[*most, level] >= ask[CHUNKS] + ask[RESTS]:
                return level
        return FURTHER

    def ready(self, kind: int) -> Floats:
        """Return when each node can hold a chunk of this kind at the latest, as running jobs reach their limits."""
        times, known = self._ready.get(kind, (None, 0))
        if times is None:
            times = self._ends(kind, np.arange(len(self.free)))
        elif known < len(self._moved):
            nodes = np.unique(np.concatenate(self._moved[known:]))
            times[nodes] = self._ends(kind, nodes)
        self._ready[kind] = times, len(self._moved)
        return times

    def _ends(self, kind: int, nodes: NDArray[np.intp]) -> Floats:
        """Return when some nodes, in rising order, can hold a chunk of this kind at the latest."""
        ask, seen = self.kinds[kind], self._seen
        if self._releases is None:
            self._releases = released(self._seen.running)
        node, end, freed = self._releases
        if len(nodes) < len(self.free):
            begins, ends = np.searchsorted(node, nodes), np.searchsorted(node, nodes, side="right")
            some = np.concatenate([np.arange(begin, last) for begin, last in zip(begins, ends, strict=True)])
            node, end, freed = node[some], end[some], freed[some]
        there = np.where(ask[WHOLE], seen.nodes.gpus, 0)[node], np.where(ask[WHOLE], seen.nodes.cpus, 0)[node]
        had = self.free[node] + freed
        enough = (had >= self._full[kind]).all(axis=1) & (had[:, 0] >= there[0]) & (had[:, 1] >= there[1])
        times = np.full(len(nodes), np.inf)
        times[np.searchsorted(nodes, node[enough][::-1])] = end[enough][::-1]  # of a node the earliest, written last
        times[self._fits[kind, nodes]] = seen.now
        times[~(seen.nodes.open[nodes] & seen.eligible[ask[POOL], nodes])] = np.inf
        return np.asarray(np.maximum(times, seen.now))

    def soonest(self, kind: int, level: int) -> float:
        """Return when a job of this kind can be so close together at the latest; infinite where nobody knows."""
        if (kind, level) not in self._soonest:
            self._soonest[kind, level] = self._together(kind, level)
        return self._soonest[kind, level]

    def _together(self, kind: int, level: int) -> float:
        times, needed = self.ready(kind), int(self.kinds[kind, CHUNKS] + self.kinds[kind, RESTS])
        if level in (LEAF, SPINE):
            if level not in self._members:
                self._members[level] = members(self._seen.nodes.leaf if level == LEAF else self._seen.nodes.spine)
            inside = self._members[level]
            if needed > inside.shape[1]:
                return np.inf
            found = np.append(times, np.inf)[inside]  # whoever is no node is never ready
            return float(np.partition(found, needed - 1, axis=1)[:, needed - 1].min(initial=np.inf))
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
        self._order = None
        fitted: Masks = np.asarray(self._fits[:, nodes].any(axis=1))
        fits = self._fits[:, nodes] = self._fitting(self._full, nodes)
        if self._rest_fits is not self._fits:
            fitted |= self._rest_fits[:, nodes].any(axis=1)
            self._rest_fits[:, nodes] = self._fitting(self._last, nodes)
        changed = list(zip(nodes.tolist(), self.free[nodes, 0].tolist(), self._seen.nodes.leaf[nodes].tolist(),
                           strict=True))
        some, now = fitted.tolist(), fits.tolist()
        if len(changed) == 1 and self._island is None:
            self._forget(changed[0], some, [one for one, in now])
        else:
            self._places = {key: place for key, place in self._places.items() if place.spot is None or not some[key[0]]
                            or self._stays(key[0], place, list(zip(changed, now[key[0]], strict=True)))}
        self._moved.append(nodes)
        self._soonest.clear()

    def _forget(self, changed: tuple[int, int, int], some: Sequence[bool], fits: Sequence[bool]) -> None:
        """Forget who would not be placed where it was, now that one node is fuller."""
        node, free, _ = changed
        for key, place in list(self._places.items()):
            kind = key[0]
            if place.spot is None or not some[kind]:
                continue
            if not self._alone[kind]:
                if not self._stays(kind, place, [(changed, fits[kind])]):
                    del self._places[key]
            elif node in place.held or (fits[kind] and (free, node) < place.last):
                del self._places[key]

    def _stays(self, kind: int, place: KeptPlace, changed: Sequence[tuple[tuple[int, int, int], bool]]) -> bool:
        """Tell whether a job is still best placed where it was, though others became fuller."""
        assert place.spot is not None
        if self._alone[kind]:
            return self._island is None and not preferred(place, changed)
        if place.spot.level != LEAF or self.kinds[kind, RESTS]:
            return False
        inside = []
        for one in changed:
            if one[0][2] == place.leaf:
                inside.append(one)
            elif not one[1]:  # a leaf that has lost a node may hold the job more tightly now
                return False
        return not preferred(place, inside)

    def _shrink(self) -> None:
        """Look anew for places, but not for those who had none: there is not more room than before."""
        self._places = {key: place for key, place in self._places.items() if place.spot is None}

    def _with_room(self) -> NDArray[np.intp]:
        found = self._fits.any(axis=0)
        return np.flatnonzero(found if self._rest_fits is self._fits else found | self._rest_fits.any(axis=0))

    def _beside(self, fits: Masks, beside: bool) -> Masks:
        """Return where somebody fits of the nodes near, without those that are kept for others."""
        return fits & ~self._reserved[self._near] if beside else fits

    def _everywhere(self, wanted: Longs) -> Masks:
        """Tell which kinds fit where, [kind, node]; where nobody finds the GPUs, nobody looks for the rest."""
        found = np.zeros((len(wanted), len(self.free)), bool)
        near = np.flatnonzero(self._seen.nodes.open & (self.free[:, 0] >= wanted[:, 0].min(initial=FAR)))
        found[:, near] = self._fitting(wanted, near)
        return found

    def _fitting(self, wanted: Longs, nodes: NDArray[np.intp]) -> Masks:
        """Tell which kinds fit on which of these nodes, [kind, node]."""
        seen, free = self._seen, self.free[nodes]
        fits = self._may[:, nodes]
        for what in range(3):
            fits &= suffices(free[:, what], wanted[:, what])
        if self._whole is not None:
            idle = (free[:, 0] == seen.nodes.gpus[nodes]) & (free[:, 1] == seen.nodes.cpus[nodes]) & (
                self.busy[nodes] == 0)
            fits[self._whole] &= idle
        return np.asarray(fits)

    def _one(self, kind: int, fits: Masks) -> Spot | None:
        """Return the fullest node that holds the job, on one island where there is such a node."""
        gpus, level = int(self.kinds[kind, CHUNK]), ISLAND
        if not fits.any():
            return None
        if self._island is not None and gpus > 0:
            together = fits & (self._island[self._near] >= gpus)
            fits, level = (together, ISLAND) if together.any() else (fits, NODE)
        able = self._near[fits]
        return self._spot(able[[self.free[able, 0].argmin()]], level, gpus)

    def _several(self, kind: int, fits: Masks, last: Masks) -> Spot | None:
        """Return the nodes that are closest together."""
        ask, nodes = self.kinds[kind], self._seen.nodes
        chunks, needed, same = int(ask[CHUNKS]), int(ask[CHUNKS] + ask[RESTS]), not ask[RESTS]
        full: Rows = self._near[fits]
        able: Rows = full if same else self._near[last]
        if len(full) < chunks or len(able) < needed:
            return None
        if self._one_leaf:
            return self._picked(kind, full, able, nodes.leaf, LEAF)  # there are no leaves to choose from
        leaves = room = np.bincount(nodes.leaf[able])
        higher = [(FURTHER, place) for place in nodes.higher]
        for level, switch in ((LEAF, nodes.leaf), (SPINE, nodes.spine), *higher):
            room = room if level == LEAF else np.bincount(switch[able])
            holds = room >= needed
            if not same:
                holds &= np.bincount(switch[full], minlength=len(room))[:len(room)] >= chunks
            if holds.any():
                inside = int(np.where(holds, room, FAR).argmin())
                if len(room) > 1:
                    full, able = full[switch[full] == inside], able[switch[able] == inside]
                return self._picked(kind, full, able, leaves, level)
        return self._picked(kind, full, able, leaves, FURTHER)

    def _picked(self, kind: int, full: Rows, able: Rows, leaves: Longs, level: int) -> Spot:
        """Return the fullest nodes of those that are able, of the leaves with most room first."""
        ask, leaf = self.kinds[kind], self._seen.nodes.leaf
        rank = self.free[full, 0] - 1024 * leaves[leaf[full]] if level > LEAF else self.free[full, 0]
        chosen = full[lowest(rank, int(ask[CHUNKS]))]
        if ask[RESTS]:
            others = able[~np.isin(able, chosen)]
            rank = self.free[others, 0] - 1024 * leaves[leaf[others]]
            chosen = np.concatenate([chosen, others[lowest(rank, int(ask[RESTS]))]])
        return self._spot(chosen, level, int(ask[CHUNK]))

    def _spot(self, nodes: Longs, level: int, gpus: int) -> Spot:
        free = self.free[nodes, 0]
        return Spot(nodes, level, int(free.min()) - gpus, bool((free == self._seen.nodes.gpus[nodes]).any()))

def somebody_fits(state: ClusterState) -> bool:
    """Tell whether a waiting job might find its GPUs; what is quick to tell comes first."""
    waiting, nodes = state.waiting, state.arrays.nodes.view(np.ndarray)
    if not len(waiting):
        return False
    chunk = state.arrays.jobs.view(np.ndarray)["chunk"]
    return bool(chunk[waiting].min() <= nodes["free_gpus"][nodes["open"] == 1].max(initial=-1))

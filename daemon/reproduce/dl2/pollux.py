"""Elastic rules in Pollux's arena: who gets the next GPUs, by how much faster each job learns for them.

Both rules read the tables (an oracle for speed and statistical efficiency): compare the one with fixed batches with
Tiresias and Optimus, the one with free batches with Pollux. Between changes of the set of jobs nothing is moved.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..published import pollux
from ..published.pollux import NODE_GPUS, NODES, Allocations, Nodes, PolluxJob, free_gpus
from ..published.pollux_speed import Application, BatchSplit, Placement

STEPS = (1, 2, 4, 8)
"""GPUs that a job may be given at a time."""
BATCHES = 30
"""Geometric sizes that a free batch is chosen from."""


class FreeJob(PolluxJob):
    """A job whose batch follows its GPUs and its epoch, by true goodput; ncf's is fixed, as for Pollux."""

    def _refresh(self) -> None:
        placement = pollux.shape(self.nodes)
        self.batch = best_batch(self.application, placement, self.epoch)
        super()._refresh()


def best_batch(application: Application, placement: Placement, epoch: int) -> int:
    """Return the batch of most goodput."""
    if application.name == "ncf":
        return 32768
    gpus = sum(placement)
    least = max(application.smallest_batch, gpus * application.smallest_local)
    sizes = np.unique(np.geomspace(least, max(application.largest_batch, least), BATCHES).round().astype(int))
    return int(max(sizes, key=lambda size: _goodput(application, placement, application.split(int(size), gpus), epoch)))


def _goodput(application: Application, placement: Placement, split: BatchSplit, epoch: int) -> float:
    if not application.smallest_local <= split.atomic <= application.largest_local:
        return 0.0
    return application.goodput(placement, split, epoch)


@dataclass
class RelativeGain:
    """Most gain in log goodput per GPU, by steps of several; proportional fairness."""

    haste: float = 0.0
    """Exponent of a job's remaining time on one GPU that divides its gain: above 0 short jobs come first."""
    _known: dict[tuple[str, int, int, int], float] = field(default_factory=dict)
    _active: tuple[str, ...] = ()

    def decide(self, now: int, active: Sequence[PolluxJob], held: Allocations) -> Allocations:
        """Plan anew when jobs came or went; else leave everything."""
        names = tuple(job.name for job in active)
        if names == self._active:
            return {name: held.get(name, []) for name in names}
        self._active = names
        return packed(dict(zip(names, self.sizes(active), strict=True)), held)

    def sizes(self, active: Sequence[PolluxJob]) -> list[int]:
        """Return the GPUs of each job: one for everybody while there are any, in file order, then by gain."""
        left = NODES * NODE_GPUS
        sizes = [int(place < left) for place in range(len(active))]
        left -= sum(sizes)
        weights = [self._weight(job) for job in active]
        while left:
            gain, place, step = max(((weights[place] * self._gain(job, sizes[place], step), -place, step)
                                     for place, job in enumerate(active) for step in STEPS if step <= left),
                                    default=(0.0, 0, 0))
            if gain <= 0.0:
                break
            sizes[-place] += step
            left -= step
        return sizes

    def _weight(self, job: PolluxJob) -> float:
        if not self.haste:
            return 1.0
        boundaries = job.application.boundaries
        left = float(boundaries[job.epochs]) - job.progress
        return float((max(left, 1.0) / self._at(job, 1)) ** -self.haste)

    def _gain(self, job: PolluxJob, gpus: int, step: int) -> float:
        """Return the gain in log goodput per GPU; 0 beyond what its batch can feed."""
        if gpus == 0 or gpus + step > most(job):
            return 0.0
        return math.log(max(self._at(job, gpus + step), 1e-12) / self._at(job, gpus)) / step

    def _at(self, job: PolluxJob, gpus: int) -> float:
        """Return the goodput on the fewest nodes."""
        batch = 0 if isinstance(job, FreeJob) else job.batch
        key = job.application.name, batch, job.epoch, gpus
        if key not in self._known:
            whole, rest = divmod(gpus, NODE_GPUS)
            placement = (NODE_GPUS,) * whole + (rest,) * (rest > 0)
            size = batch or best_batch(job.application, placement, job.epoch)
            self._known[key] = job.application.goodput(placement, job.application.split(size, gpus), job.epoch)
        return self._known[key]


@dataclass
class RandomSizes:
    """GPUs to anybody whose batch can feed one more: the floor under every claim."""

    draw: random.Random
    _active: tuple[str, ...] = ()

    def decide(self, now: int, active: Sequence[PolluxJob], held: Allocations) -> Allocations:
        """Draw anew when jobs came or went; else leave everything."""
        names = tuple(job.name for job in active)
        if names == self._active:
            return {name: held.get(name, []) for name in names}
        self._active = names
        left = NODES * NODE_GPUS
        sizes = {job.name: int(place < left) for place, job in enumerate(active)}
        hungry = [job for job in active if 0 < sizes[job.name] < most(job)]
        for _ in range(left - sum(sizes.values())):
            if not hungry:
                break
            job = self.draw.choice(hungry)
            sizes[job.name] += 1
            if sizes[job.name] == most(job):
                hungry.remove(job)
        return packed(sizes, held)


def most(job: PolluxJob) -> int:
    """Return the GPUs that a job's batch, or the largest that it may have, can feed."""
    if job.application.name == "ncf":
        return 1
    batch = job.application.largest_batch if isinstance(job, FreeJob) else job.batch
    return min(NODES * NODE_GPUS, max(1, batch // job.application.smallest_local))


def packed(sizes: dict[str, int], held: Allocations) -> Allocations:
    """Return nodes for sizes: who keeps its size on the fewest nodes stays, then whole nodes, then the best fit."""
    kept = {name: nodes for name, nodes in held.items()
            if len(nodes) == sizes.get(name) and len(set(nodes)) == math.ceil(len(nodes) / NODE_GPUS)}
    free, placed = free_gpus(kept), dict(kept)
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if name not in placed:
            placed[name] = _fewest_nodes(sizes[name], free)
    return {name: placed[name] for name in sizes}


def _fewest_nodes(gpus: int, free: list[int]) -> Nodes:
    """Take the node with the least room that is enough; without one, the roomiest, and go on."""
    taken: Nodes = []
    while len(taken) < gpus:
        wanted = min(NODE_GPUS, gpus - len(taken))
        enough = [node for node, count in enumerate(free) if count >= wanted]
        node = min(enough, key=free.__getitem__) if enough else max(range(len(free)), key=free.__getitem__)
        count = min(wanted, free[node])
        free[node] -= count
        taken += [node] * count
    return sorted(taken)


def freed(jobs: Sequence[PolluxJob]) -> list[PolluxJob]:
    """Return the same jobs with free batches."""
    return [FreeJob(job.name, job.submit_s, job.application, job.wanted, job.batch) for job in jobs]

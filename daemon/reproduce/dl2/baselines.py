"""What the paper compares with, as its code has it and done right, and rules that it does not compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Floats, Longs
from .arena import SlotPolicy
from .curve import fit
from .kernel import (
    BUNDLE,
    SERVER,
    WORKER,
    ArenaCluster,
    ArrivedJobs,
    at_random,
    bundles_by,
    grant,
    max_relative_gain,
    optimus,
    tetris,
    tetris_as_published,
)


@dataclass(frozen=True)
class Drf:
    """Dominant resource fairness, in bundles."""

    among_all: bool = False
    """Go on to the next node when the least used one has no room; the authors' code ends the slot."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Serve the least served."""
        bundles_by(cluster, jobs, used, np.zeros(len(jobs.model)), True, self.among_all)


@dataclass(frozen=True)
class Sorted:
    """All that one job can take after the other, in order of a key."""

    key: Callable[[ArenaCluster, ArrivedJobs], Floats]
    among_all: bool = False

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Serve by the key, the lowest first."""
        bundles_by(cluster, jobs, used, self.key(cluster, jobs), False, self.among_all)


def arrival(cluster: ArenaCluster, jobs: ArrivedJobs) -> Floats:
    """Return when jobs came; the authors' SRTF comes to the same on most traces."""
    return jobs.number.astype(np.float64)


def fraction_left(cluster: ArenaCluster, jobs: ArrivedJobs) -> Floats:
    """Return the *fraction* that is left, by which the authors' code sorts."""
    return np.asarray(jobs.remaining / jobs.epochs)


def time_left(cluster: ArenaCluster, jobs: ArrivedJobs) -> Floats:
    """Return the time left at the best speed that each can have."""
    fastest = cluster.rates[jobs.model, 1:cluster.most + 1, 1:cluster.most + 1].max(axis=(1, 2))
    return np.asarray(jobs.remaining / fastest)


@dataclass(frozen=True)
class TetrisAsCoded:
    """Node after node to the job that it suits best, and that has most left: the authors' Tetris."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Serve node by node."""
        if len(jobs.model):
            tetris(cluster, jobs, used)


@dataclass(frozen=True)
class Tetris:
    """Node after node to the job that fits what is free, and has least work left: Tetris as published (SIGCOMM'14)."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Serve node by node; the work left is what a bundle takes, times how long one alone would take."""
        alone = np.maximum(cluster.rates[jobs.model, 1, 1], 1e-12)
        demand = cluster.demand[jobs.model, BUNDLE].sum(axis=1)
        tetris_as_published(cluster, jobs, used, demand * jobs.remaining / alone)


@dataclass(frozen=True)
class EqualShare:
    """The same number of bundles for everybody."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Go round."""
        for _ in range(cluster.most):
            for job in range(len(jobs.model)):
                grant(cluster, jobs, used, job, BUNDLE, True)


@dataclass(frozen=True)
class Optimus:
    """Most slots saved by the next task (EuroSys'18), by the speeds it believes in."""

    believed: Floats | None = None
    """[model, servers, workers]; true speeds when None (an oracle)."""
    among_all: bool = False

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Serve the largest saving."""
        known = cluster if self.believed is None else cluster._replace(rates=self.believed)
        optimus(known, jobs, used, np.zeros(len(jobs.model), np.bool_), self.among_all)


@dataclass(frozen=True)
class MaxRelativeGain:
    """Most gain in log speed per slot that it takes: proportional fairness."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Serve the largest relative gain."""
        max_relative_gain(cluster, jobs, used, np.zeros((len(jobs.model), 3), np.bool_))


class RandomFeasible:
    """Any task that fits, at random: the floor under every claim."""

    def __init__(self, seed: int, *, bundles: bool = False) -> None:
        self._draw = np.random.default_rng(seed)
        self._bundles = bundles

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Serve anybody."""
        kinds = (BUNDLE,) if self._bundles else (SERVER, WORKER)
        choices = np.array([(job, what) for job in range(len(jobs.model)) for what in kinds], np.int64).reshape(-1, 2)
        draws = self._draw.random(len(choices) * (cluster.most + 1))  # each gives a task or closes a choice
        at_random(cluster, jobs, used, choices, draws)


def fitted_speeds(cluster: ArenaCluster) -> Floats:
    """Return what Optimus believes after it has seen every model on a few sizes: its own curve through them."""
    sizes = np.minimum([(1, 1), (1, 2), (2, 1), (2, 4), (4, 2), (4, 4)], cluster.most + 1)
    believed = np.zeros_like(cluster.rates)
    for model, rates in enumerate(cluster.rates):
        curve = fit(sizes[:, 1].tolist(), rates[sizes[:, 0], sizes[:, 1]].tolist(), sizes[:, 0].tolist())
        for servers, workers in np.ndindex(rates.shape):
            if servers and workers:
                believed[model, servers, workers] = curve(workers, servers)
    return believed


def baselines(cluster: ArenaCluster, seed: int = 0) -> Mapping[str, SlotPolicy]:
    """Return every policy by the name it has in the report."""
    return {
        "DRF": Drf(), "DRF, any node": Drf(among_all=True), "FIFO": Sorted(arrival),
        "SRTF as coded": Sorted(fraction_left),
        "SRTF (oracle)": Sorted(time_left, among_all=True), "Tetris as coded": TetrisAsCoded(),
        "Tetris (oracle)": Tetris(), "Optimus (oracle)": Optimus(),
        "Optimus (oracle), any node": Optimus(among_all=True), "Optimus (fitted)": Optimus(fitted_speeds(cluster)),
        "equal share": EqualShare(), "max-relative-gain (oracle)": MaxRelativeGain(),
        "random-feasible": RandomFeasible(seed), "random-feasible, bundles": RandomFeasible(seed, bundles=True)}

"""Baselines of the paper, as its code has them and as published, and further rules."""

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
    """Try the next node if the least used one has no room; the authors' code ends the slot."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give bundles to the job with the smallest dominant share."""
        bundles_by(cluster, jobs, used, np.zeros(len(jobs.model)), True, self.among_all)


@dataclass(frozen=True)
class Sorted:
    """Jobs in the order of a key; each takes as many bundles as it can."""

    key: Callable[[ArenaCluster, ArrivedJobs], Floats]
    among_all: bool = False

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give bundles to jobs by the key, the lowest first."""
        bundles_by(cluster, jobs, used, self.key(cluster, jobs), False, self.among_all)


def arrival(cluster: ArenaCluster, jobs: ArrivedJobs) -> Floats:
    """Return the arrival of jobs as a key (FIFO); the authors' SRTF gives the same on most traces."""
    return jobs.number.astype(np.float64)


def fraction_left(cluster: ArenaCluster, jobs: ArrivedJobs) -> Floats:
    """Return the remaining *fraction* of jobs, by which the authors' code sorts."""
    return np.asarray(jobs.remaining / jobs.epochs)


def time_left(cluster: ArenaCluster, jobs: ArrivedJobs) -> Floats:
    """Return the remaining time of jobs at their best speeds, slots."""
    fastest = cluster.rates[jobs.model, 1:cluster.most + 1, 1:cluster.most + 1].max(axis=(1, 2))
    return np.asarray(jobs.remaining / fastest)


@dataclass(frozen=True)
class TetrisAsCoded:
    """Tetris as the authors coded it: node by node, by alignment and *most* remaining work."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Serve node by node."""
        if len(jobs.model):
            tetris(cluster, jobs, used)


@dataclass(frozen=True)
class Tetris:
    """Tetris as published (SIGCOMM'14): node by node, by alignment and *least* remaining work."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Fill node by node; the remaining work is a bundle's resources times the remaining time with one bundle."""
        alone = np.maximum(cluster.rates[jobs.model, 1, 1], 1e-12)
        demand = cluster.demand[jobs.model, BUNDLE].sum(axis=1)
        tetris_as_published(cluster, jobs, used, demand * jobs.remaining / alone)


@dataclass(frozen=True)
class EqualShare:
    """The same number of bundles for every job."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give bundles to all jobs in turn."""
        for _ in range(cluster.most):
            for job in range(len(jobs.model)):
                grant(cluster, jobs, used, job, BUNDLE, True)


@dataclass(frozen=True)
class Optimus:
    """Optimus (EuroSys'18): the next task goes where it saves most slots, by known or fitted speeds."""

    believed: Floats | None = None
    """[model, servers, workers] speeds that Optimus uses; the true speeds if None (an oracle)."""
    among_all: bool = False

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give the next task to the job with the largest saving."""
        known = cluster if self.believed is None else cluster._replace(rates=self.believed)
        optimus(known, jobs, used, np.zeros(len(jobs.model), np.bool_), self.among_all)


@dataclass(frozen=True)
class MaxRelativeGain:
    """Proportional fairness: the next task goes where it adds most log speed for each resource slot it uses."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give the next task to the job with the largest relative gain."""
        max_relative_gain(cluster, jobs, used, np.zeros((len(jobs.model), 3), np.bool_))


class RandomFeasible:
    """The random baseline: random tasks as long as one fits."""

    def __init__(self, seed: int, *, bundles: bool = False) -> None:
        self._draw = np.random.default_rng(seed)
        self._bundles = bundles

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give random tasks as long as one fits."""
        kinds = (BUNDLE,) if self._bundles else (SERVER, WORKER)
        choices = np.array([(job, what) for job in range(len(jobs.model)) for what in kinds], np.int64).reshape(-1, 2)
        draws = self._draw.random(len(choices) * (cluster.most + 1))  # each gives a task or closes a choice
        at_random(cluster, jobs, used, choices, draws)


def fitted_speeds(cluster: ArenaCluster) -> Floats:
    """Return speeds by Optimus' own curve, fitted to each model at a few sizes, [model, servers, workers]."""
    sizes = np.minimum([(1, 1), (1, 2), (2, 1), (2, 4), (4, 2), (4, 4)], cluster.most + 1)
    believed = np.zeros_like(cluster.rates)
    for model, rates in enumerate(cluster.rates):
        curve = fit(sizes[:, 1].tolist(), rates[sizes[:, 0], sizes[:, 1]].tolist(), sizes[:, 0].tolist())
        for servers, workers in np.ndindex(rates.shape):
            if servers and workers:
                believed[model, servers, workers] = curve(workers, servers)
    return believed


def baselines(cluster: ArenaCluster, seed: int = 0) -> Mapping[str, SlotPolicy]:
    """Return every baseline by its name in the report."""
    return {
        "DRF": Drf(), "DRF, any node": Drf(among_all=True), "FIFO": Sorted(arrival),
        "SRTF as coded": Sorted(fraction_left),
        "SRTF (oracle)": Sorted(time_left, among_all=True), "Tetris as coded": TetrisAsCoded(),
        "Tetris (oracle)": Tetris(), "Optimus (oracle)": Optimus(),
        "Optimus (oracle), any node": Optimus(among_all=True), "Optimus (fitted)": Optimus(fitted_speeds(cluster)),
        "equal share": EqualShare(), "max-relative-gain (oracle)": MaxRelativeGain(),
        "random-feasible": RandomFeasible(seed), "random-feasible, bundles": RandomFeasible(seed, bundles=True)}

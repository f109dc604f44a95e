"""DL2's simulator: in each slot of 20 minutes, all tasks of all jobs are placed again, one by one.

Rewritten from the behaviour of the public code (pengyanghua/DL2, yxd886/scheduler; without a licence). The figures of
the ten validation traces are reproduced only with the earlier repository's demands and its map from length to model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ...replay.arrays import Floats, Longs
from ..failures import ZeroProgressError
from . import speeds
from .kernel import BUNDLE, SERVER, WORKER, ArenaCluster, ArrivedJobs, waiting

SEED = 9973
MOST_SLOTS = 3000
"""Number of slots after which a policy counts as one that never ends."""
HOPELESS = 1e3
"""Mean completion time, in slots, of a policy that never ends."""

ARRIVALS = (23, 8, 10, 13, 24, 21, 17, 29, 11, 16, 39, 61, 25, 28, 59, 50, 82, 59, 35, 46, 46, 32, 28, 16, 19, 8, 22,
            10, 19, 17, 24, 16, 29, 30, 47, 63, 39, 48, 42, 42, 57, 64, 22, 46, 42, 23, 17, 68, 24, 3, 8, 10, 13, 18,
            16, 28, 17, 47, 54, 54, 42, 36, 72, 46, 53, 77, 27, 44, 68, 25, 10, 43)
"""Arrivals of Alibaba's jobs, by hour of the day."""
LENGTHS = np.array([35.0, 180.0, 300.0, 436.0, 559.0, 679.0, 806.0, 1155.0])
"""Relative lengths of the length classes."""
SHARES = np.array([0.6812080536912751, 0.15962740106456838, 0.054096274010645685, 0.024704929414487386,
                   0.02048137005322842, 0.018051376996065724, 0.012959962971534367, 0.02887063179819486])
MODEL_OF = (6, 4, 0, 5, 1, 2, 7, 3)
"""The model of each length class."""
LONGEST_EPOCHS = 80_000


class ArenaTrace(NamedTuple):
    """A trace of DL2's simulator: its jobs by arrival."""

    arrival: Longs
    """Slot in which each job arrives."""
    model: Longs
    epochs: Floats


class SlotPolicy(Protocol):
    """A policy of DL2's simulator, which decides once in each slot."""

    def fill(self, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs) -> None:
        """Give jobs their tasks and write the used resources of the nodes, [node, CPU or GPU slots]."""


def cluster(most: int, rates: Floats | None = None, nodes: int = 48) -> ArenaCluster:
    """Return the cluster of the paper's simulation; speeds are our fit unless measured speeds are given."""
    demand = np.zeros((len(speeds.MODELS), 3, 2), np.int64)
    demand[:, SERVER] = (4, 0)
    demand[:, WORKER] = [(2, 2)] * 4 + [(2, 0), (2, 2), (2, 0), (1, 2)]
    demand[:, BUNDLE] = demand[:, SERVER] + demand[:, WORKER]
    return ArenaCluster(speeds.fitted(most) if rates is None else rates, demand, most, nodes)


def traces(seed: int = SEED, *, jobs: int = 60, at_once: int = 3) -> Iterator[ArenaTrace]:
    """Yield an endless series of traces; the first with ``SEED`` are the paper's validation traces."""
    draw = np.random.RandomState(seed)  # the stream that the authors' code draws from
    scaled = [-(-count * at_once // max(ARRIVALS)) for count in ARRIVALS]
    while True:
        offset = draw.randint(5)
        arrival: list[int] = []
        for slot in range(jobs):
            arrival += [slot] * min(at_once, scaled[(slot + offset) % len(scaled)])
        # Each job draws its class and an error of its length, which is 0.
        drawn = draw.random_sample((jobs, 2))[:, 0]
        kind = (np.cumsum(SHARES) > SHARES.sum() * drawn[:, None]).argmax(axis=1)
        epochs = np.floor(LENGTHS[kind] / LENGTHS.max() * LONGEST_EPOCHS)
        yield ArenaTrace(np.array(arrival[:jobs], np.int64), np.array(MODEL_OF, np.int64)[kind], epochs)


@dataclass
class Slot:
    """One simulated slot: its jobs and the used resources."""

    jobs: ArrivedJobs
    used: Longs
    """Used resources, [node, CPU or GPU slots]."""


def replay(cluster: ArenaCluster, trace: ArenaTrace, policy: SlotPolicy) -> Floats:
    """Return the completion time of every job, in slots and fractions of the last one."""
    ends = np.full(len(trace.arrival), np.nan)
    for _ in watch(cluster, trace, policy, ends):
        pass
    return ends


def mean_jct(cluster: ArenaCluster, policy: SlotPolicy, tried_on: Iterable[ArenaTrace]) -> Floats:
    """Return the mean completion time of each trace in slots; ``HOPELESS`` where some job never ends."""
    means = []
    for trace in tried_on:
        try:
            means.append(float(replay(cluster, trace, policy).mean()))
        except ZeroProgressError:
            means.append(HOPELESS)
    return np.array(means)


def progress(cluster: ArenaCluster, jobs: ArrivedJobs) -> Floats:
    """Return the epochs that jobs finish in a slot with their tasks, [job]."""
    return np.asarray(np.minimum(cluster.rates[jobs.model, jobs.tasks[:, SERVER], jobs.tasks[:, WORKER]],
                                 jobs.remaining))


def watch(cluster: ArenaCluster, trace: ArenaTrace, policy: SlotPolicy, ends: Floats) -> Iterator[Slot]:
    """Yield each slot until all jobs are done and fill in completion times; ``ZeroProgressError`` if one never ends."""
    left = trace.epochs.copy()
    for now in range(MOST_SLOTS):
        live = np.flatnonzero(np.isnan(ends) & (trace.arrival <= now))
        jobs = waiting(cluster, live, trace.model[live], (now - trace.arrival[live]).astype(np.float64), left[live],
                       trace.epochs[live])
        used = np.zeros((cluster.nodes, 2), np.int64)
        policy.fill(cluster, jobs, used)
        yield Slot(jobs, used)
        done = cluster.rates[jobs.model, jobs.tasks[:, SERVER], jobs.tasks[:, WORKER]]
        finished = done >= jobs.remaining
        ends[live[finished]] = jobs.stay[finished] + jobs.remaining[finished] / done[finished]
        left[live] -= done
        if not np.isnan(ends).any():
            return
    raise ZeroProgressError(f"after {MOST_SLOTS} slots {np.isnan(ends).sum()} jobs are not done: nothing moves them")

"""The contended benchmark: rigid jobs of real sizes and run times, which run slower on GPUs that are far apart.

Nodes have four GPUs, as those on which the speeds were measured. Every policy knows how long a job runs when its GPUs
are close together, as in the predecessor's environment, unless that is only :func:`guessed`. No job runs for longer
than a day, the limit of many a site; no trace tells applications, so each of the six measured ones is as likely.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ....storage.traces import TraceError
from ...replay import speed_priors
from ...replay.arrays import Floats, Longs
from ...replay.optimum import elastic_jct_mean_bound
from ..packaged import LINGJUN, PHILLY, VENUS, workload_of
from .kernel import WINDOW, EpisodeJobs, EpisodeState, Site

SIZES = (64, 128, 256, 512)
"""Numbers of GPUs of the clusters."""
PER_LEAF = 8
"""Number of nodes at a leaf switch; half as many in clusters of up to 128 GPUs."""
LOADS = 0.9, 1.5
"""Range of the ratio of requested to available GPU time, while jobs arrive."""
LONGEST_S = 86400.0
LARGEST = 4
"""Jobs that request more than this fraction (1 / ``LARGEST``) of a cluster's GPUs are omitted."""
JOBS_PER_GPU = 4

_JOBS: Mapping[str, Mapping[int, tuple[int, tuple[int, ...]]]] = {
    "Philly 7f04ca": {
        1: (536, (3, 118, 616, 3794, 7776, 14401, 29797, 86400, 86400, 86400, 86400)),
        2: (5, (48, 796, 1543, 1961, 2048, 2135, 4668, 7201, 24054, 55227, 86400)),
        4: (423, (2, 141, 190, 548, 829, 5913, 31014, 71917, 86400, 86400, 86400)),
        8: (465, (2, 252, 524, 1416, 5393, 14309, 58370, 86400, 86400, 86400, 86400)),
        16: (40, (32, 91, 403, 1307, 44276, 58442, 86400, 86400, 86400, 86400, 86400)),
        32: (25, (50, 72, 139, 191, 204, 222, 337, 4336, 20621, 69320, 86400))},
    "Philly 0e4a51": {
        1: (1680, (14, 153, 173, 188, 205, 244, 546, 16823, 86400, 86400, 86400)),
        2: (265, (5, 995, 38109, 75982, 86400, 86400, 86400, 86400, 86400, 86400, 86400)),
        4: (611, (2, 175, 9052, 25356, 45560, 69466, 86400, 86400, 86400, 86400, 86400)),
        8: (82, (49, 1323, 2551, 2999, 3168, 3546, 6412, 8326, 16711, 84241, 86400))},
}
"""The jobs of Philly's two complete virtual clusters: GPUs, how many ask for so many, deciles of their run times in
seconds, cut at a day (Microsoft, CC-BY-4.0, philly-traces; Jeon et al., ATC'19)."""
MIXES = tuple(_JOBS)


@dataclass(frozen=True)
class TraceSource:
    """A trace from which episodes are cut, with its jobs in their order and with their gaps."""

    name: str
    file: str
    partition: str | None = None


REAL = (TraceSource("Philly 7f04ca, as it was", PHILLY, "7f04ca"),
        TraceSource("Philly 0e4a51, as it was", PHILLY, "0e4a51"),
        TraceSource("Lingjun", LINGJUN),
        TraceSource("Venus", VENUS))
"""Traces of the test. Training used sizes and run times of the first two, but not their order; the others are new."""
SEEN = 64
"""Size of the scratch array for an agent's inputs."""


@dataclass(frozen=True)
class ArenaEpisode:
    """An episode of the benchmark: a cluster and its jobs."""

    site: Site
    jobs: EpisodeJobs
    mix: str
    seed: int
    """Seed of random rules."""

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of the cluster."""
        return self.site.nodes * self.site.gpus

    def begin(self) -> tuple[EpisodeJobs, EpisodeState]:
        """Return the jobs, none of them started, and the state of an empty cluster."""
        count, widest, site = len(self.jobs.submit), self.jobs.held.shape[1], self.site
        fresh = self.jobs._replace(start=np.full(count, np.nan), end=np.full(count, np.nan),
                                   speed=np.full(count, np.nan), held=np.zeros_like(self.jobs.held))
        whole, queues = np.zeros(site.nodes, np.int64), np.zeros((2, count), np.int64)
        return fresh, EpisodeState(
            free=whole + site.gpus, clock=np.array([-np.inf]), counts=np.array([self.gpus, 0, 0, 0], np.int64),
            queue=queues[0], running=queues[1], words=np.array([self.seed, 0], np.uint64),
            room=np.zeros(-(-site.nodes // site.per_leaf), np.int64), then=whole, spot=np.zeros(widest + 1, np.int64),
            near=np.zeros((widest + 1, 4)), soon=np.zeros(widest + 1), seen=np.zeros(SEEN))


def site(gpus: int, per_leaf: int | None = None) -> Site:
    """Return a cluster with a number of GPUs; ValueError unless it is a whole number of nodes."""
    if gpus < speed_priors.NODE_GPUS or gpus % speed_priors.NODE_GPUS:
        raise ValueError(f"{gpus} GPUs are no whole number of nodes of {speed_priors.NODE_GPUS}")
    several = per_leaf or (PER_LEAF if gpus > 128 else PER_LEAF // 2)
    nodes = gpus // speed_priors.NODE_GPUS
    return Site(nodes, speed_priors.NODE_GPUS, several, speed_priors.slow(), speed_priors.PER_CROSSING)


def jobs_of(submit: ArrayLike, run: ArrayLike, gpus: ArrayLike, application: ArrayLike) -> EpisodeJobs:
    """Return jobs that have not started, sorted by submission."""
    wanted, nobody = np.asarray(gpus, np.int64), np.full(np.size(submit), np.nan)
    lengths = np.asarray(run, np.float64)
    return EpisodeJobs(np.asarray(submit, np.float64), lengths, lengths, wanted, np.asarray(application, np.int64),
                       nobody, nobody, nobody, np.zeros((wanted.size, int(wanted.max())), np.int64))


def described() -> Mapping[str, object]:
    """Return everything that defines the benchmark, as values that JSON can hold; it is part of an agent's identity."""
    return {"jobs": _JOBS, "jobs per GPU": JOBS_PER_GPU, "loads": LOADS, "largest": LARGEST, "longest": LONGEST_S,
            "nodes per leaf": PER_LEAF, "window": WINDOW, "speeds": speed_priors.slow().tolist(),
            "crossing": speed_priors.PER_CROSSING, "mixes": MIXES, "GPUs of a node": speed_priors.NODE_GPUS}


def made_up(seed: int, number: int, gpus: int, mix: str) -> ArenaEpisode:
    """Draw an episode with sizes and run times as in a trace and random submissions."""
    draw = np.random.default_rng([seed, number, gpus, MIXES.index(mix)])
    table = {wanted: row for wanted, row in _JOBS[mix].items() if wanted <= gpus // LARGEST}
    shares = np.array([count for count, _ in table.values()], np.float64)
    drawn = draw.choice(len(table), JOBS_PER_GPU * gpus, p=shares / shares.sum())
    deciles = np.log([quantiles for _, quantiles in table.values()])
    at = 10.0 * draw.random(len(drawn))
    below = at.astype(np.int64)
    run = np.exp(deciles[drawn, below] + (at - below) * (deciles[drawn, below + 1] - deciles[drawn, below]))
    return _episode(draw, gpus, np.array(list(table))[drawn], run, np.sort(draw.random(len(drawn))), mix)


def cut(trace: TraceSource, folder: Path, number: int, gpus: int) -> ArenaEpisode:
    """Cut an episode out of a real trace, with a load drawn from ``LOADS``; TraceError if there are no jobs."""
    work = workload_of(folder / trace.file)
    selected = (work.run > 0) & (work.gpus > 0) & (work.gpus <= gpus // LARGEST)
    if trace.partition is not None:
        selected &= np.array(work.partition_names)[work.partition] == trace.partition
    rows = np.flatnonzero(selected)
    if not len(rows):
        raise TraceError(f"{folder / trace.file}: no jobs of up to {gpus // LARGEST} GPUs"
                         + (f" in partition {trace.partition}" if trace.partition else ""))
    draw, count = np.random.default_rng([97, number, gpus]), min(JOBS_PER_GPU * gpus, len(rows))
    first = int(draw.integers(0, len(rows) - count + 1))
    rows = rows[first:first + count]
    return _episode(draw, gpus, work.gpus[rows].astype(np.int64), np.minimum(work.run[rows], LONGEST_S),
                    work.submit[rows], trace.name)


def _episode(draw: np.random.Generator, gpus: int, wanted: Longs, run: Floats, submit: Floats,
             mix: str) -> ArenaEpisode:
    span_s = float((run * wanted).sum()) / gpus / draw.uniform(*LOADS)
    when = (submit - submit[0]) / max(float(submit[-1] - submit[0]), 1e-9) * span_s
    application = draw.integers(0, len(speed_priors.APPLICATIONS), len(run))
    return ArenaEpisode(site(gpus), jobs_of(when, run, wanted, application), mix, int(draw.integers(1 << 31)))


def made_up_all(seed: int, each: int, sizes: tuple[int, ...] = SIZES) -> Iterator[ArenaEpisode]:
    """Yield a number of generated episodes for each size of cluster and each mix of jobs."""
    for gpus in sizes:
        for number in range(each):
            for mix in MIXES:
                yield made_up(seed, number, gpus, mix)


def guessed(episode: ArenaEpisode, spread: float) -> ArenaEpisode:
    """Return an episode with guessed run times, whose log-normal error has the standard factor ``exp(spread)``."""
    error = np.exp(spread * np.random.default_rng(episode.seed).standard_normal(len(episode.jobs.run)))
    return replace(episode, jobs=episode.jobs._replace(guess=episode.jobs.run * error))


@dataclass(frozen=True)
class EpisodeResult:
    """Result of an episode."""

    jct_s: float
    """Mean time from submission to end, s."""
    throughput: float
    """Useful GPU time over available GPU time while jobs arrived; a GPU counts with its relative speed."""
    wait_p99_s: float
    speed: float
    """Mean speed over GPU time, relative to the closest placements."""


def outcome(episode: ArenaEpisode, jobs: EpisodeJobs) -> EpisodeResult:
    """Return the result of an episode that was run to its end."""
    last = float(jobs.submit[-1])
    useful = np.maximum(0.0, np.minimum(jobs.end, last) - jobs.start) * jobs.speed * jobs.gpus
    held = (jobs.end - jobs.start) * jobs.gpus
    share = float(useful.sum()) / (episode.gpus * last) if last > 0 else 0.0
    return EpisodeResult(float((jobs.end - jobs.submit).mean()), share,
                   float(np.quantile(jobs.start - jobs.submit, 0.99)), float((held * jobs.speed).sum() / held.sum()))


def bound(episode: ArenaEpisode) -> EpisodeResult:
    """Return bounds that no policy can beat, even if it may interrupt and divide jobs.

    All GPUs count as one machine that always works on the job with the least remaining work (SRPT is optimal there),
    and each job takes at least its run time. While jobs arrive, that machine is never idle as long as there is work.
    """
    jobs, last = episode.jobs, float(episode.jobs.submit[-1])
    jct = elastic_jct_mean_bound(jobs.submit, jobs.run, jobs.run * jobs.gpus, episode.gpus)
    idle, until = 0.0, 0.0
    for submit, work in zip(jobs.submit.tolist(), (jobs.run * jobs.gpus / episode.gpus).tolist(), strict=True):
        idle += max(0.0, submit - until)
        until = max(until, submit) + work
    return EpisodeResult(jct, 1.0 - idle / last if last > 0 else 1.0, 0.0, 1.0)

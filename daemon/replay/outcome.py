"""What a run was worth: times, use, fairness, energy; how sure it beats another; and on what speeds it rests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from . import arrays as a
from .engine import Run
from .power import Energy, PowerModel, energy, occupation
from .recorded_work import levels
from .site_speeds import FLAT_SPEEDS, SOURCES, UNKNOWN, SiteSpeeds

Floats = NDArray[np.float64]

SHORT_S = 10.0
"""Bound of the bounded slowdown: shorter jobs count as this long (Feitelson & Rudolph 1998)."""

FEWEST_PAIRS = 10
"""The fewest pairs whose interval may be called a finding."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class Times:
    """One value per job that ended, in seconds; rows are those of ``jobs``."""

    jobs: NDArray[np.intp]
    jct: Floats
    """Job completion time: end less submission."""
    wait: Floats
    """Time not spent running: completion time less the time on GPUs, or on nodes where a job wants no GPU."""
    slowdown: Floats
    """Bounded slowdown: ``max(1, jct / max(run, 10 s))``."""


def times(run: Run) -> Times:
    """Return the times of the jobs that ended."""
    ended = np.flatnonzero(~np.isnan(run.end))
    jobs = run.state.arrays.jobs[ended]
    jct = jobs.end - jobs.submit
    # Without GPUs no GPU time tells of earlier stretches: the last one counts, and after a failure no other does.
    in_parts = np.where(jobs.gpus_held > 0, jobs.attained / np.maximum(1, jobs.gpus_held), jobs.end - jobs.since)
    ran = np.where(jobs.preempted == 0, jobs.end - jobs.start, in_parts)
    return Times(ended, jct, np.maximum(0.0, jct - ran), np.maximum(1.0, jct / np.maximum(ran, SHORT_S)))


def utilization(run: Run, until: float | None = None) -> float:
    """Return ``U = sum(GPUs x time) / (all GPUs x T)`` from the first submission on (GIST AI-X paper, Eq. 4).

    Time is what jobs really held their GPUs for, also those that were preempted or still run.
    """
    spent = occupation(run, until)
    capacity = float((run.cluster.gpus * (spent.busy + spent.empty + spent.down)).sum())
    return float(spent.gpu.sum()) / capacity if capacity > 0 else 0.0


def rates(run: Run) -> Floats:
    """Return lambda of every job, Eq. (4): its share of its partition's GPUs, over the number of partitions.

    Summed with the time that jobs ran, and divided by that there was, these give the mean of U over partitions, which
    is Eq. (5) but for that number.
    """
    cluster, work, jobs = run.cluster, run.workload, run.state.arrays.jobs
    sizes = {name: float(cluster.gpus[nodes].sum()) for name, nodes in cluster.partitions.items()}
    sizes = {name: size for name, size in sizes.items() if size}
    all_gpus = float(cluster.gpus.sum()) or 1.0
    # A job that names several partitions, or none, counts against all GPUs; a code of -1 is the last one: none.
    known = [sizes.get(name) for name in (*work.partition_names, "")]
    share = np.array([1.0 / all_gpus if size is None else 1.0 / size / len(sizes) for size in known])
    return np.asarray(jobs.gpus * share[work.partition], np.float64)


def held_time(run: Run, edges: Floats) -> Floats:
    """Return the sum of ``rates`` times the time that jobs held their GPUs, in seconds, between each two edges."""
    jobs = run.state.arrays.jobs
    weight, start = rates(run), np.where(np.isnan(run.start), np.inf, run.start)
    end = np.where(np.isnan(run.end), run.state.now, run.end)
    span = np.maximum(end - start, 0.0)
    # Of a job that was preempted, or resized, its span is not the time on GPUs: spread evenly over it what was.
    moved = (jobs.preempted > 0) & (span > 0.0) & (jobs.gpus > 0)
    weight = np.where(moved, weight * np.minimum(1.0, jobs.attained / np.maximum(1.0, jobs.gpus * span)), weight)
    done = [float((weight * np.clip(np.minimum(end, edge) - start, 0.0, None)).sum()) for edge in edges.tolist()]
    return np.diff(np.array(done))


def paper_utilization(run: Run, since_s: float, until_s: float) -> float:
    """Return Eq. (5) of the GIST AI-X paper over a window, divided by the number of partitions: the mean of their U.

    The window should end with the last submission: what runs out afterwards only tells how long the last job is.
    """
    return float(held_time(run, np.array([since_s, until_s]))[0] / (until_s - since_s)) if until_s > since_s else 0.0


def jain(values: Floats) -> float:
    """Return Jain's index ``(sum x)^2 / (n sum x^2)``: 1 when all are equal, 1/n when one has everything."""
    squares = float((values ** 2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else 1.0


def fairness(run: Run, group: NDArray[np.int32]) -> float:
    """Return Jain's index of the mean bounded slowdown per group of jobs: their user or partition, -1 for none."""
    measured = times(run)
    if not len(measured.jobs):
        return 1.0
    groups = group[measured.jobs] + 1
    counts = np.bincount(groups)
    means = np.bincount(groups, weights=measured.slowdown)[counts > 0] / counts[counts > 0]
    return jain(means)


def row(run: Run, model: PowerModel | None = None, *, until: float | None = None) -> dict[str, float | int | str]:
    """Return the figures of a run, flat, units in the names: a row of a table or of JSON output.

    ``until`` sets a common end of the window in which use and energy are counted, so that runs can be compared.
    """
    measured, power = times(run), energy(run, model or PowerModel(), until=until)
    ends = run.end[~np.isnan(run.end)]
    figures: dict[str, float | int | str] = {
        "policy": run.policy, "jobs": len(measured.jobs), "jobs_rejected": len(run.rejected),
        "jobs_unfinished": len(run.workload) - len(measured.jobs) - len(run.rejected)}
    for name, values in (("jct", measured.jct), ("wait", measured.wait)):
        figures |= {f"{name}_{key}_s": value for key, value in _summary(values).items()}
    figures |= {f"bounded_slowdown_{key}": value for key, value in _summary(measured.slowdown).items()}
    first = float(run.workload.submit.min(initial=0.0))
    return figures | {
        "makespan_s": float(ends.max(initial=first)) - first, "utilization_ratio": utilization(run, until),
        "gpu_hours": float(occupation(run).gpu.sum()) / 3600,
        "preemptions": int(run.state.arrays.jobs.preempted.sum()),
        "fairness_user_jain": fairness(run, run.workload.user),
        "fairness_partition_jain": fairness(run, run.workload.partition),
        **energies(power), "seed": run.seed, "digest": run.digest}


def energies(power: Energy) -> dict[str, float]:
    """Return joules flat: the total, what of it is wasted, and its six parts."""
    return {"energy_joules": power.total, "energy_wasted_joules": power.wasted,
            "energy_idle_joules": power.idle_unallocated, "energy_empty_host_joules": power.node_overhead_empty,
            "energy_underused_joules": power.allocated_underused, "energy_productive_joules": power.productive,
            "energy_busy_host_joules": power.host_active, "energy_powered_down_joules": power.unavailable}


def _summary(values: Floats) -> dict[str, float]:
    if not len(values):
        return {"mean": float("nan"), **{key: float("nan") for key in QUANTILES}}
    return {"mean": float(values.mean()), **{key: float(np.quantile(values, q)) for key, q in QUANTILES.items()}}


def fragmentation(state: a.State) -> float:
    """Return the share of free GPUs that the typical job cannot use (FGD, ATC'23: F / free); 0 when none is free."""
    nodes = np.asarray(state.nodes)
    cannot = np.append(np.cumsum(state.demand[::-1])[::-1], 0.0)  # share of jobs that want at least k GPUs
    free = nodes["free_gpus"] * (nodes["open"] == 1)
    stuck = free * cannot[np.minimum(nodes["free_gpus"] + 1, len(cannot) - 1)]
    return float(stuck.sum() / free.sum()) if free.sum() else 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval."""

    estimate: float
    low: float
    high: float


def ratio_interval(submit: Floats, numerator: Floats, denominator: Floats, *, block_s: float = 86400.0,
                   resamples: int = 2000, level: float = 0.95, seed: int = 0) -> Interval:
    """Return the ratio of two means with a paired bootstrap interval over blocks of submission.

    Completion times in seconds, rows matching; NaN throughout when there are none. Jobs of one day share a queue and so
    are no independent samples: whole blocks of ``block_s`` are drawn, the same for both.
    """
    if not len(numerator):
        return Interval(float("nan"), float("nan"), float("nan"))
    _, block = np.unique(((submit - submit.min()) // block_s).astype(np.int64), return_inverse=True)
    sums = np.stack([np.bincount(block, weights=numerator), np.bincount(block, weights=denominator)])
    drawn = np.random.default_rng(seed).integers(0, sums.shape[1], (resamples, sums.shape[1]))
    totals = sums[:, drawn].sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = totals[0] / totals[1]
    low, high = np.nanquantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    ratio = float(numerator.sum() / denominator.sum()) if denominator.sum() else float("nan")
    return Interval(ratio, float(low), float(high))


def paired_ratio(numerator: Floats, denominator: Floats, *, level: float = 0.95) -> Interval:
    """Return the geometric mean of the ratios of pairs, with Student's t interval on their logarithms.

    For a few independent pairs above 0, rows matching: there a bootstrap of percentiles is too narrow. Bounds are NaN
    with one pair, all is NaN with none.
    """
    logs = np.log(numerator / denominator)
    if len(logs) < 2:
        return Interval(float(np.exp(logs[0])) if len(logs) else float("nan"), float("nan"), float("nan"))
    return alike_ratio([(numerator, denominator)], level=level)


def alike_ratio(strata: Sequence[tuple[Floats, Floats]], *, level: float = 0.95) -> Interval:
    """Return the geometric mean ratio over strata, all of one weight whatever their number of pairs.

    The degrees of freedom are Welch's and Satterthwaite's, for one stratum Student's; each needs two pairs.
    """
    from scipy.special import stdtrit  # slow to import, and the daemon does not want it

    logs = [np.log(numerator / denominator) for numerator, denominator in strata]
    mean = float(np.mean([stratum.mean() for stratum in logs]))
    shares = np.array([stratum.var(ddof=1) / len(stratum) for stratum in logs])
    degrees = np.array([len(stratum) - 1 for stratum in logs])
    free = shares.sum() ** 2 / (shares**2 / degrees).sum() if shares.any() else 1.0
    reach = float(stdtrit(free, (1 + level) / 2) * np.sqrt(shares.sum()) / len(logs))
    return Interval(float(np.exp(mean)), float(np.exp(mean - reach)), float(np.exp(mean + reach)))


@dataclass(frozen=True, slots=True)
class SpeedCoverage:
    """The speeds that a replay used."""

    speeds: str
    """The speeds in words, as ``SiteSpeeds.summary`` says them."""
    shares: dict[str, float]
    """Shares of GPU time by source; all of it is unknown where speeds are flat. Empty where no GPU was held."""
    unplaced: int = 0
    """Jobs whose run times could not be turned into work, as where they ran is not recorded."""

    def row(self) -> dict[str, float | int | str]:
        """Return the figures flat."""
        return {"speeds": self.speeds, "jobs_unplaced": self.unplaced,
                **{f"gpu_time_{source}_ratio": self.shares.get(source, float("nan")) for source in SOURCES}}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the coverage that a row describes."""
        shares = {source: row[f"gpu_time_{source}_ratio"] for source in SOURCES}
        return cls(row["speeds"], {source: share for source, share in shares.items() if share is not None and
                                   share == share}, row["jobs_unplaced"])

    def __str__(self) -> str:
        """Return the coverage in one sentence."""
        parts = ", ".join(f"{share:.0%} {source}" for source, share in self.shares.items() if share)
        sentence = f"speeds are {self.speeds}" + (f"; GPU time by what they rest on: {parts}" if parts else "")
        return sentence + (f"; {self.unplaced} jobs keep their run times, as where they ran is not recorded"
                           if self.unplaced else "")


NO_SPEEDS = SpeedCoverage(FLAT_SPEEDS.summary, {})


def coverage(run: Run, speeds: SiteSpeeds, unplaced: int = 0) -> SpeedCoverage:
    """Return on what the speeds of a run rest, by size and spread as its jobs held GPUs last."""
    arrays = run.state.arrays
    jobs = arrays.jobs
    gpu_s = jobs.attained.astype(np.float64)
    running = arrays.heap[:arrays.counts[a.RUNNING_JOBS]]
    gpu_s[running] += (run.state.now - jobs.since[running]) * jobs.gpus_held[running]
    held = np.flatnonzero((gpu_s > 0) & (jobs.nodes_held > 0))
    if not len(held):
        return SpeedCoverage(speeds.summary, {}, unplaced)
    source = np.full(len(held), UNKNOWN, np.int8)
    if not speeds.flat:
        count = jobs.nodes_held[held].astype(np.int64)
        first = np.cumsum(count) - count
        rows = np.repeat(jobs.held[held] - first, count) + np.arange(count.sum())
        level = levels(run.cluster, arrays.held.node[rows].astype(np.int64), first)
        source = speeds.sources(level, jobs.gpus_held[held], jobs.gpus[held], jobs.model[held])
    spent = np.bincount(source, weights=gpu_s[held], minlength=len(SOURCES))
    return SpeedCoverage(speeds.summary, dict(zip(SOURCES, (spent / spent.sum()).tolist(), strict=True)), unplaced)

"""On what a replay's speeds rest: the share of GPU time that ran on measured, fitted, prior and unknown ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .arrays import RUNNING_JOBS
from .engine import Run
from .recorded_work import levels
from .site_speeds import FLAT_SPEEDS, SOURCES, UNKNOWN, SiteSpeeds


@dataclass(frozen=True, slots=True)
class SpeedCoverage:
    """The speeds that a replay used."""

    speeds: str
    """In words, as ``SiteSpeeds.summary``."""
    shares: dict[str, float]
    """Of GPU time, by source; all of it is unknown where speeds are flat. Empty where no GPU was held."""
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
        """Return it in one sentence."""
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
    running = arrays.heap[:arrays.counts[RUNNING_JOBS]]
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

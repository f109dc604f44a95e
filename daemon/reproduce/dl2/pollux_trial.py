"""The elastic rules on Pollux's workloads, after their one number was chosen on workloads made up by us."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import count, product

import numpy as np

from ...replay.arrays import Floats
from ...replay.outcome import Interval, ratio_interval
from ..published.pollux import LOADS, POLICIES, Artifact, PolluxJob, TickPolicy, replay
from ..published.pollux_speed import Application
from ..report import interval
from .pollux import RandomSizes, RelativeGain, freed

WORKLOADS = (1, 2, 3, 4)
HASTES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6)
"""That are tried; 0 is the plain rule."""
MADE_UP, SEED = 4, 100
"""Workloads to choose by, and where their seeds begin."""
SHARES = {"ncf": 0.40, "cifar10": 0.39, "deepspeech2": 0.09, "bert": 0.055, "yolov3": 0.045, "imagenet": 0.02}
HOURS = np.array([1.0, 1.0, 0.5, 1.2, 1.4, 2.0, 1.1, 1.0])
"""Submissions by hour, relative."""
ROWS: Mapping[str, Sequence[tuple[int, int]]] = {
    "ncf": ((1, 32768),), "cifar10": ((6, 2048), (8, 2048), (12, 4096), (16, 4096)),
    "deepspeech2": ((6, 320), (8, 320), (12, 640)), "bert": ((6, 384), (8, 384), (12, 384), (16, 384)),
    "yolov3": ((4, 64),), "imagenet": ((24, 3200), (32, 6400), (48, 6400))}
"""GPUs and batch that the artifact's rows of an application ask for."""
PUBLISHED = {False: ("tiresias", "optimus"), True: ("pollux",)}
"""Whom the authors ran with fixed, and with free batches."""
FRESH, FRESH_SEED = 4, 900
"""Made-up workloads that nothing was chosen by, and where their seeds begin."""
OURS, PLAIN, RANDOM = "ours (oracle)", "plain (oracle)", "random-feasible"
REPLAYS = len(HASTES) * MADE_UP + 2 * 3 * (len(LOADS) * len(WORKLOADS) + FRESH) + len(POLICIES) * FRESH
"""Of the whole trial: to choose, on Pollux's workloads and on fresh ones under three policies, and the authors'."""
Played = Callable[[Sequence[PolluxJob], TickPolicy], Floats]


@dataclass(frozen=True)
class PolluxResult:
    """What came of it."""

    haste: float
    hours: Mapping[tuple[bool, str, str], float]
    """Mean completion time on workloads 1 to 4, by whether the batch is free, load and policy."""
    fresh: Mapping[tuple[bool, str], Floats]
    """Completion time, hours, of every job of the fresh workloads, by whether the batch is free, and policy."""

    @property
    def compared(self) -> Iterator[Sequence[str]]:
        """Yield the rows beside what was published, by batch and load."""
        for free, load in product((False, True), LOADS):
            at = {name: value for (row, column, name), value in self.hours.items() if (row, column) == (free, load)}
            published = {name: at[name] for name in PUBLISHED[free]}
            yield ("free" if free else "fixed", f"{load}x", *(f"{at[name]:.3f}" for name in (OURS, PLAIN, RANDOM)),
                   ", ".join(f"{name} {value:.3f}" for name, value in published.items()),
                   f"{at[OURS] / min(published.values()) - 1.0:+.1%}")

    @property
    def unseen(self) -> Iterator[Sequence[str]]:
        """Yield the rows of workloads that nobody has seen."""
        for (free, name), jct in sorted(self.fresh.items(), key=lambda item: (item[0][0], float(item[1].mean()))):
            ratio = ratio_interval(np.repeat(np.arange(float(FRESH)), len(jct) // FRESH), self.fresh[free, OURS], jct,
                                   block_s=1.0, resamples=10_000)
            above = Interval(ratio.estimate - 1.0, ratio.low - 1.0, ratio.high - 1.0)
            yield "free" if free else "fixed", name, f"{jct.mean():.3f}", "-" if name == OURS else interval(above)


def made_up(applications: Mapping[str, Application], seed: int, jobs: int = 160) -> list[PolluxJob]:
    """Return a workload of eight hours, with the mix of Pollux's workloads but none of their jobs."""
    draw = np.random.default_rng(seed)
    times = np.sort(draw.choice(len(HOURS), jobs, p=HOURS / HOURS.sum()) * 3600 + draw.integers(0, 3600, jobs))
    shares = np.array(list(SHARES.values()))
    drawn = []
    for number, submit in enumerate(times.tolist()):
        name = list(SHARES)[draw.choice(len(shares), p=shares / shares.sum())]
        wanted, batch = ROWS[name][int(draw.integers(len(ROWS[name])))]
        drawn.append(PolluxJob(f"{name}-{number}", submit, applications[name], wanted, batch))
    return drawn


def hours(jobs: Sequence[PolluxJob], policy: TickPolicy) -> Floats:
    """Return the completion time of every job; the jobs themselves stay as they are."""
    return np.array(list(replay([copy(job) for job in jobs], policy).values())) / 3600.0


def choose(applications: Mapping[str, Application], played: Played = hours) -> float:
    """Return the haste with the least mean completion time on made-up workloads with fixed batches."""
    workloads = [made_up(applications, SEED + number) for number in range(MADE_UP)]

    def jct(haste: float) -> float:
        return float(np.mean([played(jobs, RelativeGain(haste)).mean() for jobs in workloads]))
    return min(HASTES, key=jct)


def policies(haste: float) -> dict[str, TickPolicy]:
    """Return ours and what both batches can be given out by."""
    return {OURS: RelativeGain(haste), PLAIN: RelativeGain(), RANDOM: RandomSizes(random.Random(0))}


def carry_out(artifact: Artifact, tell: Callable[[int, int], object] = lambda done, total: None) -> PolluxResult:
    """Choose on made-up workloads, then replay Pollux's, at all loads, and fresh ones.

    ``tell`` hears how many of how many replays are done.
    """
    done = count(1)

    def played(jobs: Sequence[PolluxJob], policy: TickPolicy) -> Floats:
        found = hours(jobs, policy)
        tell(next(done), REPLAYS)
        return found

    applications = {job.application.name: job.application for number in WORKLOADS
                    for job in artifact.jobs("1.0", number)}
    haste = choose(applications, played)
    found: dict[tuple[bool, str, str], float] = {}
    for free, load in product((False, True), LOADS):
        workloads = [artifact.jobs(load, number) for number in WORKLOADS]
        for name in policies(haste):
            found[free, load, name] = float(np.mean([played(jobs, policies(haste)[name]).mean()
                                                     for jobs in (map(freed, workloads) if free else workloads)]))
        for name in PUBLISHED[free]:
            told = [list(artifact.published(name, load, number).values()) for number in WORKLOADS]
            found[free, load, name] = float(np.mean(told)) / 3600.0
    return PolluxResult(haste, found, fresh(applications, haste, played))


def fresh(applications: Mapping[str, Application], haste: float, played: Played = hours,
          ) -> Mapping[tuple[bool, str], Floats]:
    """Return completion times on workloads that nothing was chosen by."""
    workloads = [made_up(applications, FRESH_SEED + number) for number in range(FRESH)]
    found = {(free, name): np.concatenate([played(freed(jobs) if free else jobs, policies(haste)[name])
                                           for jobs in workloads])
             for free in (False, True) for name in policies(haste)}
    return found | {(False, name): np.concatenate([played(jobs, policy()) for jobs in workloads])
                    for name, policy in POLICIES.items()}

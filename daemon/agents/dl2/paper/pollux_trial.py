"""The elastic rules on Pollux's workloads, after their one number was chosen on workloads made up by us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....replay.published.pollux import LOADS, Artifact, Job, replay
from ....replay.published.pollux_speed import Application
from ...report import Section, Table
from ..pollux import RelativeGain, freed

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


@dataclass(frozen=True)
class Outcome:
    """Mean completion times, hours, on workloads 1 to 4."""

    haste: float
    ours: Mapping[tuple[bool, str], float]
    """By whether the batch is free, and load."""
    plain: Mapping[tuple[bool, str], float]
    """The same rule without haste."""
    published: Mapping[tuple[str, str], float]
    """By policy and load."""


def made_up(applications: Mapping[str, Application], seed: int, jobs: int = 160) -> list[Job]:
    """Return a workload of eight hours, with the mix of Pollux's workloads but none of their jobs."""
    draw = np.random.default_rng(seed)
    times = np.sort(draw.choice(len(HOURS), jobs, p=HOURS / HOURS.sum()) * 3600 + draw.integers(0, 3600, jobs))
    shares = np.array(list(SHARES.values()))
    drawn = []
    for number, submit in enumerate(times.tolist()):
        name = list(SHARES)[draw.choice(len(shares), p=shares / shares.sum())]
        wanted, batch = ROWS[name][int(draw.integers(len(ROWS[name])))]
        drawn.append(Job(f"{name}-{number}", submit, applications[name], wanted, batch))
    return drawn


def choose(applications: Mapping[str, Application]) -> float:
    """Return the haste with the least mean completion time on made-up workloads with fixed batches."""
    def jct(haste: float) -> float:
        return float(np.mean([mean_h(made_up(applications, SEED + number), haste) for number in range(MADE_UP)]))
    return min(HASTES, key=jct)


def mean_h(jobs: Sequence[Job], haste: float) -> float:
    """Return the mean completion time of one workload, hours."""
    return float(np.mean(list(replay(jobs, RelativeGain(haste)).values()))) / 3600.0


def carry_out(traces: Path) -> Outcome:
    """Choose on made-up workloads, then replay Pollux's, at all loads."""
    artifact = Artifact(traces)
    applications = {job.application.name: job.application for number in WORKLOADS
                    for job in artifact.jobs("1.0", number)}
    haste = choose(applications)
    cells = [(free, load) for free in (False, True) for load in LOADS]
    ours = {cell: _over_workloads(artifact, *cell, haste) for cell in cells}
    plain = {cell: _over_workloads(artifact, *cell, 0.0) for cell in cells}
    published = {(policy, load): float(np.mean([list(artifact.published(policy, load, number).values())
                                                for number in WORKLOADS])) / 3600.0
                 for names in PUBLISHED.values() for policy in names for load in LOADS}
    return Outcome(haste, ours, plain, published)


def _over_workloads(artifact: Artifact, free: bool, load: str, haste: float) -> float:
    found = []
    for number in WORKLOADS:
        jobs = artifact.jobs(load, number)
        found.append(mean_h(freed(jobs) if free else jobs, haste))
    return float(np.mean(found))


def sections(outcome: Outcome) -> Iterator[Section]:
    """Yield what the report says of Pollux's arena."""
    rows = []
    for free, load in outcome.ours:
        told = ", ".join(f"{policy} {outcome.published[policy, load]:.3f}" for policy in PUBLISHED[free])
        best = min(outcome.published[policy, load] for policy in PUBLISHED[free])
        ours = outcome.ours[free, load]
        rows.append(("free" if free else "fixed", f"{load}x", f"{ours:.3f}", f"{outcome.plain[free, load]:.3f}", told,
                     f"{ours / best - 1.0:+.1%}"))
    yield Section("Pollux's arena: mean completion time, hours", [
        "Workloads 1 to 4 on 16 nodes of 4 GPUs. Ours gives GPUs by relative gain, divided by a job's remaining time "
        f"on one GPU to the power of {outcome.haste:g}: that one number was chosen on {MADE_UP} made-up workloads with "
        "fixed batches, not on these. It is a rule, not a network, and an oracle: it reads the tables of speed, noise "
        "and remaining epochs, as Optimus+Oracle does; Tiresias and Pollux do not. Compare fixed batches with Tiresias "
        "and Optimus, free ones with Pollux.",
        "Plain is the same rule without the remaining time (max-relative-gain)."],
        [Table(("Batch", "Load", "Ours (oracle)", "Plain (oracle)", "Published", "Ours over the best of them"), rows)])

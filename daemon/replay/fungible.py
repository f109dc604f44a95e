"""Fungible jobs: how fast a model trains with the CPUs and the memory that it is given beside its GPUs.

Speeds are relative to a job's fair share of its node, which is 3 CPUs and 62.5 GB for each GPU of Synergy's servers
(8 GPUs, 24 CPUs, 500 GB). Where the numbers come from:

* ``PRIORS``, by model: the throughput matrices that Synergy's simulator goes by (Mohan et al., OSDI'22; public code
  msr-fiddle/synergy, profiled on V100 servers with a cache that keeps what memory allows). Language models need one CPU
  and 20.8 GB per GPU and gain from nothing; image and speech models with 20.8 GB wait for their storage.
* ``SHARES``: Synergy's default split into tasks, for traces that do not tell what their jobs train.
* ``MEASURED_AS``: Pollux' step times (:mod:`.locality`), for jobs on several nodes.
* ``LEFT``, by task: what DeepShare measured (shared_thp_ratio, mean over the runs on the fewest nodes) of jobs that
  *share nodes and both span several*: MobileNetV3 for image, Transformer-XL for language; nobody measured speech. For
  jobs within one node that is an upper estimate of the harm; what CPUs and memory do to them is in the matrices.

A job whose sensitivity nobody knows has none here: it stays at its fair share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from . import locality
from .arrays import Floats, Longs
from .speed import LEVELS, SpeedError, SpeedTable, together

GB = 1e9
FAIR_CPUS, FAIR_MEMORY = 3.0, 62.5 * GB
"""Of Synergy's servers, per GPU."""
CPUS = np.array([1, 2, 3, 4, 5, 6, 9, 12, 24], np.float64)
"""Per GPU, where Synergy profiles."""
MEMORY = FAIR_MEMORY * np.array([1 / 3, 1, 2, 3, 4])
"""Bytes per GPU, likewise."""
STARVED = 0.1
"""Speed of what reads its data from storage again and again."""


@dataclass(frozen=True)
class Sensitivity:
    """Speed by CPUs and memory, each per GPU; SpeedError for what is no such table.

    Between the points it is interpolated; beyond the last it stays; below the first it falls to 0 at nothing.
    """

    cpus: Floats
    """Rising, positive."""
    memory: Floats
    """Bytes, rising, positive."""
    speed: Floats
    """[CPUs, memory], relative to the fair share; more of either is never slower."""

    def __post_init__(self) -> None:
        """Refuse what cannot be interpolated."""
        for axis in (self.cpus, self.memory):
            if axis.ndim != 1 or not axis.size or not (axis[0] > 0 and (np.diff(axis) > 0).all() and axis[-1] < np.inf):
                raise SpeedError("CPUs and memory of a sensitivity must be positive and rising")
        if self.speed.shape != (self.cpus.size, self.memory.size):
            raise SpeedError("a sensitivity needs a speed for each number of CPUs and each amount of memory")
        if not (np.isfinite(self.speed) & (self.speed > 0)).all():
            raise SpeedError("speeds must be positive numbers; `filled` closes holes")

    def at(self, cpus: float, memory: float) -> float:
        """Return the speed with so many CPUs and bytes per GPU."""
        by_cpus, by_memory, speed = self._points
        row, across = _place(by_cpus, cpus)
        column, along = _place(by_memory, memory)
        below, above = (line[column] + along * (line[column + 1] - line[column]) for line in speed[row:row + 2])
        return float(below + across * (above - below))

    @cached_property
    def _points(self) -> tuple[list[float], list[float], list[list[float]]]:
        """Return CPUs, memory and speeds, 0 before each; as lists, in which one look-up is quicker."""
        padded = np.pad(self.speed, ((1, 0), (1, 0)))
        return [0.0, *self.cpus.tolist()], [0.0, *self.memory.tolist()], padded.tolist()

    def best(self, most_cpus: float, most_memory: float, tolerance: float = 1e-6) -> tuple[float, float]:
        """Return the least CPUs and bytes per GPU that are as fast as all there is; few CPUs before little memory."""
        goal = self.at(most_cpus, most_memory) * (1.0 - tolerance)
        grid = [(cpus, memory) for cpus in (*self.cpus[self.cpus < most_cpus], most_cpus)
                for memory in (*self.memory[self.memory < most_memory], most_memory)]
        return next((float(cpus), float(memory)) for cpus, memory in grid if self.at(cpus, memory) >= goal)


def _place(points: Sequence[float], value: float) -> tuple[int, float]:
    """Return the point below a value and how far it is to the next, 0..1."""
    value = min(max(value, 0.0), points[-1])
    below = min(bisect_right(points, value) - 1, len(points) - 2)
    return below, (value - points[below]) / (points[below + 1] - points[below])


def filled(cpus: Floats, memory: Floats, speed: Floats) -> Sensitivity:
    """Return a profile whose holes (NaN) are closed from what was measured; SpeedError where nothing was.

    Along the CPUs it is interpolated, and stays beyond the ends; memory that was never tried is as fast as the next
    smaller that was, or the next larger. Measured falls are taken for noise: nobody must use all it was given.
    """
    known = np.isfinite(speed) & (speed > 0)
    columns = np.flatnonzero(known.any(axis=0))
    if not columns.size:
        raise SpeedError("nothing was measured: a job without a sensitivity stays at its fair share")
    whole = np.stack([np.interp(cpus, cpus[known[:, column]], speed[known[:, column], column])
                      for column in columns], axis=1)
    nearest = np.maximum(np.searchsorted(columns, np.arange(memory.size), side="right") - 1, 0)
    never_falling = np.maximum.accumulate(np.maximum.accumulate(whole[:, nearest], axis=0), axis=1)
    return Sensitivity(cpus, memory, never_falling)


def _starving(*by_cpus: float, more: Mapping[int, Sequence[float]] | None = None) -> Sensitivity:
    """Return a model that needs its data in memory; the last speed serves all larger numbers of CPUs.

    ``more`` gives, from a number of CPUs on, the speeds with 2, 3 and 4 fair shares of memory where those differ.
    """
    curve = np.array([*by_cpus, *[by_cpus[-1]] * (CPUS.size - len(by_cpus))])
    speed = np.repeat(curve[:, None], MEMORY.size, axis=1)
    for cpus, faster in (more or {}).items():
        speed[cpus <= CPUS, 2:] = faster
    speed[:, 0] = STARVED
    return Sensitivity(CPUS, MEMORY, speed)


INDIFFERENT = Sensitivity(CPUS, MEMORY, np.ones((CPUS.size, MEMORY.size)))
"""A model that the smallest share feeds."""

PRIORS: Mapping[str, Sensitivity] = {
    "alexnet": _starving(.3, .66, 1, 1.25, 1.53, 1.75, 2, more={12: (2.94, 2.94, 2.94)}),
    "shufflenet": _starving(.3, .66, 1, 1.25, 1.53, 1.75, 2, more={12: (2.89, 2.89, 2.89)}),
    "resnet18": _starving(.37, .72, 1, 1.3, 1.53, 1.75, 2.4),
    "mobilenet": _starving(.37, .72, 1, 1.3, 1.49, 1.55),
    "resnet50": _starving(.4, .74, 1, 1.15),
    "gnmt": INDIFFERENT, "transformer": INDIFFERENT, "lstm": INDIFFERENT,
    "m5": _starving(.3, .66, 1, 1.2, 1.4, 1.5, more={6: (2, 2.5, 2.5)}),
    "deepspeech": _starving(.3, .66, 1)}
"""By model."""
MODELS = tuple(PRIORS)
TASKS: Mapping[str, tuple[str, ...]] = {
    "image": ("alexnet", "shufflenet", "resnet18", "mobilenet", "resnet50"),
    "language": ("gnmt", "transformer", "lstm"), "speech": ("m5", "deepspeech")}
TASK_OF: Mapping[str, str] = {model: task for task, models in TASKS.items() for model in models}
SHARES: Mapping[str, float] = {"image": 0.2, "language": 0.7, "speech": 0.1}
"""Of jobs, by task."""
LEFT: Mapping[tuple[str, str], float] = {("image", "image"): 0.97, ("image", "language"): 0.85,
                                         ("language", "image"): 0.85, ("language", "language"): 0.65}
"""Part of its speed that the first task keeps beside the second; pairs that nobody measured are left out."""
MEASURED_AS: Mapping[str, str] = {"image": "imagenet", "language": "bert", "speech": "deepspeech2"}
"""The application of Pollux that stands for a task where nodes communicate."""
MOST_LEAVES = 8
"""Leaf switches from which on more of them change nothing."""


def prior(task: str) -> Sensitivity:
    """Return the mean of a task's models, for a job of which no more is known than its task."""
    return Sensitivity(CPUS, MEMORY, np.mean([PRIORS[model].speed for model in TASKS[task]], axis=0))


def drawn(count: int, draw: np.random.Generator, shares: Mapping[str, float] = SHARES) -> Longs:
    """Return the models, as indexes of ``MODELS``, of jobs whose trace does not tell: a task by its share, then any."""
    chance = np.zeros(len(MODELS))
    for task, share in shares.items():
        for model in TASKS[task]:
            chance[MODELS.index(model)] = share / len(TASKS[task])
    return draw.choice(len(MODELS), count, p=chance / chance.sum())


def company() -> Floats:
    """Return what a model keeps of its speed beside another, [model, neighbour's]; 1 where nobody measured."""
    left = {(one, other): LEFT.get((TASK_OF[one], TASK_OF[other]), 1.0) for one in MODELS for other in MODELS}
    return together(MODELS, left)


def crossing() -> Floats:
    """Return what a model on whole nodes keeps of its speed, [model, leaf switches less 1]; at one it keeps all.

    Its steps take as long as Pollux measured for its task (``MEASURED_AS``) on four nodes, and each further switch
    prolongs their communication by ``locality.PER_CROSSING``, which is an assumption.
    """
    step = {task: locality.slow()[locality.APPLICATIONS.index(name), -1, -1] for task, name in MEASURED_AS.items()}
    longer = 1.0 + locality.PER_CROSSING * np.arange(MOST_LEAVES)
    return np.array([step[TASK_OF[model]] / (1.0 + (step[TASK_OF[model]] - 1.0) * longer) for model in MODELS])


def _grants(step: float) -> Floats:
    """Return speeds by [model, CPUs, multiples of ``step`` bytes], each per GPU: ``SpeedTable.grants``."""
    steps = range(int(np.ceil(MEMORY[-1] / step)) + 1)
    return np.array([[[sensitivity.at(cpus, along * step) for along in steps] for cpus in range(int(CPUS[-1]) + 1)]
                     for sensitivity in PRIORS.values()])


def speed_table(step: float = FAIR_MEMORY / 3, **others: Any) -> SpeedTable:
    """Return what ``engine.run(speed=...)`` needs to replay jobs whose ``application`` is an index of ``MODELS``.

    It is for policies of the engine that give CPUs and memory with their starts; ``others`` are fields of the table.
    """
    return SpeedTable(**{"size": np.ones((len(MODELS), 1)), "spread": np.ones((len(MODELS), len(LEVELS))),
                         "grants": _grants(step), "step": step, **others})

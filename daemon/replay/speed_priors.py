"""What is assumed of a job's speed before it was measured: by closeness, and by CPUs and memory beside its GPUs.

* What closeness is worth by application is measured, on nodes of four GPUs (Pollux); what switches cost is assumed.
* Speeds by CPUs and memory are relative to a job's fair share of its node, which is 3 CPUs and 62.5 GB for each GPU of
  Synergy's servers (8 GPUs, 24 CPUs, 500 GB). ``PRIORS`` has them by model: the throughput matrices that Synergy's
  simulator goes by (Mohan et al., OSDI'22; public code msr-fiddle/synergy, profiled on V100 servers with a cache that
  keeps what memory allows). Language models need one CPU and 20.8 GB per GPU and gain from nothing; image and speech
  models with 20.8 GB wait for their storage.

A job whose sensitivity nobody knows has none here: it stays at its fair share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .arrays import Floats
from .speed import SpeedError

NODE_GPUS = 4
"""The number of GPUs of a node, as on the machines that were measured."""
PER_CROSSING = 0.2
"""Share by which each leaf switch beyond the first prolongs what communication costs: our choice, for nobody measured
across leaf switches on these machines. The predecessor has so much for each further machine."""

_MEASURED = {
    "bert": ((1.00, 1.00, 1.03, 1.04), (1.61, 2.17, 2.41, 2.59), (1.40, 1.59, 1.69, 1.74), (1.60, 1.71, 1.81, 1.89)),
    "yolov3": ((1.00, 1.06, 1.20, 1.33), (1.82, 2.44, 2.91, 3.05), (1.57, 1.87, 2.14, 2.35), (1.66, 1.94, 2.20, 2.38)),
    "ncf": ((1.00, 1.28, 1.39, 1.59), (2.48, 2.81, 3.54, 3.80), (1.88, 2.60, 2.80, 3.02), (2.44, 2.88, 2.95, 3.17)),
    "deepspeech2": ((1.00, 1.06, 1.04, 1.07), (1.05, 1.09, 1.13, 1.14), (1.07, 1.12, 1.17, 1.19),
                    (1.12, 1.14, 1.17, 1.18)),
    "cifar10": ((1.00, 1.17, 1.17, 1.12), (1.03, 1.13, 1.19, 1.18), (1.06, 1.16, 1.21, 1.20), (1.10, 1.16, 1.21, 1.21)),
    "imagenet": ((1.00, 1.02, 1.08, 1.09), (1.04, 1.05, 1.12, 1.09), (1.05, 1.06, 1.09, 1.11),
                 (1.07, 1.08, 1.11, 1.12)),
}
"""Time of a step, over that on one GPU, by nodes (1 to 4; more count as 4) and GPUs on the fullest node (1 to 4).

Means over all such placements in the tables of Pollux's artifact (Qiao et al., OSDI'21; Apache-2.0), at the largest
batch of a GPU that was measured on each of them. Three nodes are faster than two there, as they were measured.
"""
APPLICATIONS = tuple(_MEASURED)
GB = 1e9
FAIR_CPUS, FAIR_MEMORY = 3.0, 62.5 * GB
"""The CPUs and bytes per GPU of Synergy's servers."""
CPUS = np.array([1, 2, 3, 4, 5, 6, 9, 12, 24], np.float64)
"""Per GPU, where Synergy profiles."""
MEMORY = FAIR_MEMORY * np.array([1 / 3, 1, 2, 3, 4])
"""Bytes per GPU, likewise."""
STARVED = 0.1
"""Speed of what reads its data from storage again and again."""


def slow() -> Floats:
    """Return the table, [application, nodes less 1, GPUs on the fullest node less 1]."""
    return np.array(list(_MEASURED.values()))


@dataclass(frozen=True)
class Sensitivity:
    """Speed by CPUs and memory, each per GPU; SpeedError for a table of other shape or values.

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
    interpolated = np.stack([np.interp(cpus, cpus[known[:, column]], speed[known[:, column], column])
                             for column in columns], axis=1)
    nearest = np.maximum(np.searchsorted(columns, np.arange(memory.size), side="right") - 1, 0)
    never_falling = np.maximum.accumulate(np.maximum.accumulate(interpolated[:, nearest], axis=0), axis=1)
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
TASKS: Mapping[str, tuple[str, ...]] = {
    "image": ("alexnet", "shufflenet", "resnet18", "mobilenet", "resnet50"),
    "language": ("gnmt", "transformer", "lstm"), "speech": ("m5", "deepspeech")}


def prior(task: str) -> Sensitivity:
    """Return the mean of a task's models, for a job of which no more is known than its task."""
    return Sensitivity(CPUS, MEMORY, np.mean([PRIORS[model].speed for model in TASKS[task]], axis=0))

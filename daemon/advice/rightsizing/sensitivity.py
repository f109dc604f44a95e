"""What more or fewer CPUs and less or more memory would be worth to a job, and how anybody knows.

Three kinds of knowledge, the best that there is:

``measured``
    What it uses, or what like jobs used (same user, same name but for numbers): CPUs that it does not need are those
    beyond the 95th percentile and a margin; memory, beyond the highest use. A job that uses all its CPUs while its GPUs
    wait is sped up by more of them: where like jobs ran with different numbers of CPUs, as their GPUs' activity tells;
    else by the optimistic profile (after Synergy, OSDI'22, section 3.2, which measures one dimension and computes the
    rest): in proportion to its CPUs until its GPUs work all the time, in the share of time in which it is at its limit.
``prior``
    The model that its name tells, by Synergy's matrices; nothing is ever taken away on that ground.
``fair-share``
    Nothing is known: it stays at its fair share, the node's CPUs and memory in proportion to its GPUs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....storage.uses import Use
from ...replay.speed_priors import PRIORS, TASKS, Sensitivity, filled, prior
from .usage_meter import UsageWindow

Floats = NDArray[np.float64]
Basis = Literal["measured", "prior", "fair-share"]

MOST_TIMES = 4.0
"""No row says that more than so many times its CPUs would help a job: beyond that an estimate is a guess."""
MOSTLY = 0.5
"""A job at its limit for this share of time is starved."""
LAST_RUNS = 5
DRAWS = 200
"""Resamples behind a 95 % interval."""
LEAST_SPEED = 1e-9
"""What is slower is as good as standing still: nobody divides by it."""
FULL = 0.95
"""A job that used so much of its memory, page cache included, may want more."""
_TOKEN = re.compile(r"[a-z0-9]+")
_ANY_MEMORY = np.array([1e-9])


class NodeShare(NamedTuple):
    """What a job has of a node."""

    cpus: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed with another part of the node, relative to that with what the job has now, and its 95 % interval."""

    estimate: float = 1.0
    low: float = 1.0
    high: float = 1.0

    def __mul__(self, other: Speed) -> Speed:
        """Return the speed of what is changed in two ways."""
        return Speed(self.estimate * other.estimate, self.low * other.low, self.high * other.high)

    @property
    def sooner(self) -> tuple[float, float, float]:
        """Return by which share of the time that is left the job ends sooner: estimate, low, high."""
        return 1 - 1 / self.estimate, 1 - 1 / self.low, 1 - 1 / self.high


SAME = Speed()


@dataclass(frozen=True, slots=True)
class SpeedEstimate:
    """What is known of a job's needs on one node."""

    basis: Basis
    has: NodeShare
    """What it holds, or asks for while it waits."""
    least: NodeShare
    """What it must be left."""
    best: NodeShare
    """More than that is worth nothing."""
    by_cpus: Callable[[int], Speed] = lambda _cpus: SAME
    by_memory: Callable[[int], Speed] = lambda _memory: SAME
    used: float | None = None
    """CPUs that it needs nearly always."""
    memory_used: float | None = None

    def speed(self, part: NodeShare) -> Speed:
        """Return the speed with another part."""
        return self.by_cpus(part.cpus) * self.by_memory(part.memory_bytes)


class LikeRun(NamedTuple):
    """What an earlier run of like jobs used of each of its nodes, as ``Use`` has it."""

    gpus: int
    cpus: int
    cpus_p95: float
    at_limit_ratio: float
    memory_peak_bytes: float | None
    activity: float | None


@dataclass(frozen=True)
class Evidence:
    """The evidence from which a job's needs are estimated."""

    has: NodeShare
    gpus: int
    """The job's GPUs on the node."""
    fair: NodeShare
    """The node's CPUs and memory in proportion to these GPUs."""
    window: UsageWindow | None = None
    """The usage window of a job that runs."""
    runs: Sequence[LikeRun | Use] = ()
    """The runs of like jobs, the newest first."""
    model: str = ""
    """One of ``PRIORS``, one of their tasks, or '' where the name tells nothing."""
    waits: bool = False


def speed_estimate(evidence: Evidence, margin: float, starved: float) -> SpeedEstimate:
    """Return the best estimate that the evidence allows."""
    evidence = replace(evidence, runs=[run for run in evidence.runs if run.gpus > 0 and run.cpus > 0])
    if evidence.window is None and not (evidence.waits and evidence.runs and evidence.gpus):
        return _by_prior(evidence) if evidence.model and evidence.gpus else _unknown(evidence)
    return _measured(evidence, margin, starved)


def recognized(name: str, patterns: Mapping[str, str]) -> str:
    """Return the model or task of a job by its name: by the site's patterns, else where a word of it is a model."""
    for pattern, model in patterns.items():
        if fnmatchcase(name, pattern):
            return model
    tokens = _TOKEN.findall(name.lower())
    return next((token for token in tokens if token in PRIORS), "")


def matrix(model: str) -> Sensitivity:
    """Return the prior of a model or of a task; KeyError for any other name."""
    return PRIORS[model] if model in PRIORS else prior(model)


def _unknown(evidence: Evidence) -> SpeedEstimate:
    has = evidence.has
    return SpeedEstimate("fair-share", has, _at_least_fair(evidence), has)


def _at_least_fair(evidence: Evidence) -> NodeShare:
    """Return the fair share of a job that waits; nothing is taken from one that runs and was not measured."""
    has, fair = evidence.has, evidence.fair
    if not evidence.waits:
        return has
    return NodeShare(min(has.cpus, fair.cpus), min(has.memory_bytes, fair.memory_bytes))


def _by_prior(evidence: Evidence) -> SpeedEstimate:
    has, gpus, prior = evidence.has, evidence.gpus, matrix(evidence.model)
    siblings = _siblings(evidence.model)
    cpus, memory = prior.best(float(prior.cpus[-1]), float(prior.memory[-1]))
    best = NodeShare(max(has.cpus, math.ceil(cpus * gpus)), max(has.memory_bytes, math.ceil(memory * gpus)))

    def faster(part: NodeShare) -> Speed:
        return _spread(prior, siblings, gpus, has, part)

    return SpeedEstimate("prior", has, _at_least_fair(evidence), best,
                   lambda cpus: faster(NodeShare(cpus, has.memory_bytes)), lambda memory: faster(NodeShare(has.cpus,
                                                                                                           memory)))


def _siblings(model: str) -> list[Sensitivity]:
    """Return the models of the same task."""
    task = next((name for name, models in TASKS.items() if model in models), model)
    return [PRIORS[name] for name in TASKS[task]]


def _spread(sensitivity: Sensitivity, siblings: Sequence[Sensitivity], gpus: int, has: NodeShare,
            part: NodeShare) -> Speed:
    """Return the speed of a model, between those of the least and the most sensitive one of its task."""
    ratios = [_ratio(known, gpus, has, part) for known in (sensitivity, *siblings)]
    return Speed(ratios[0], min(ratios), max(ratios))


def _ratio(known: Sensitivity, gpus: int, has: NodeShare, part: NodeShare) -> float:
    before = known.at(has.cpus / gpus, has.memory_bytes / gpus)
    if before <= LEAST_SPEED:
        return 1.0
    return max(known.at(part.cpus / gpus, part.memory_bytes / gpus), LEAST_SPEED) / before


def _measured(evidence: Evidence, margin: float, starved: float) -> SpeedEstimate:
    has, gpus, window, runs = evidence.has, evidence.gpus, evidence.window, evidence.runs[:LAST_RUNS]
    used = max([run.cpus_p95 / run.gpus * gpus for run in runs] + ([window.p95] if window else []))
    peaks = [run.memory_peak_bytes / run.gpus * gpus for run in runs if run.memory_peak_bytes is not None]
    if window and window.memory_peak_bytes is not None:
        peaks.append(window.memory_peak_bytes)
    memory = max(peaks, default=None)
    limit = starved * has.cpus or float("inf")
    limited = window.at_limit(limit) if window else max(run.at_limit_ratio for run in runs)
    cpus = has.cpus if limited >= MOSTLY else min(has.cpus, max(gpus, 1, math.ceil(used * (1 + margin))))
    least = NodeShare(cpus, has.memory_bytes if memory is None
                      else min(has.memory_bytes, math.ceil(memory * (1 + margin))))
    known = SpeedEstimate("measured", has, least, has, used=used, memory_used=memory)
    return _starved(known, evidence, limited)


def _starved(known: SpeedEstimate, evidence: Evidence, limited: float) -> SpeedEstimate:
    """Return what is known with what more would be worth, and with what less costs a job that runs."""
    has, gpus, window = known.has, evidence.gpus, evidence.window
    activity = window.activity if window else _mean([run.activity for run in evidence.runs[:LAST_RUNS]])
    curve = _curve(np.array([(run.cpus / run.gpus, run.activity) for run in evidence.runs if run.activity])
                   ) if gpus and limited >= MOSTLY else None
    best_cpus, best_memory = has.cpus, has.memory_bytes
    if limited >= MOSTLY and activity is not None and has.cpus:
        best_cpus = math.floor(has.cpus / max(activity, 1 / MOST_TIMES) + 1e-6)
    prior = matrix(evidence.model) if evidence.model and gpus else None
    memory_full = known.memory_used is not None and known.memory_used >= FULL * has.memory_bytes > 0
    if prior is not None and memory_full:
        best_memory = max(has.memory_bytes,
                          math.ceil(prior.best(float(prior.cpus[-1]), float(prior.memory[-1]))[1] * gpus))

    def by_cpus(cpus: int) -> Speed:
        if cpus == has.cpus or not has.cpus:
            return SAME
        if cpus < has.cpus:
            return _slowed(window.cores, cpus) if window else SAME
        if curve:
            return curve.speed(gpus, has.cpus, cpus)
        top = 1 / max(activity or 1.0, 1 / MOST_TIMES)
        return _optimistic(cpus / has.cpus, top, limited, prior, gpus, known)

    def by_memory(memory: int) -> Speed:
        if prior is None or memory <= has.memory_bytes:
            return SAME
        return _spread(prior, _siblings(evidence.model), gpus, has, NodeShare(has.cpus, memory))

    return SpeedEstimate(known.basis, has, known.least, NodeShare(best_cpus, best_memory), by_cpus, by_memory,
                         known.used,
                   known.memory_used)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _optimistic(times: float, top: float, limited: float, sensitivity: Sensitivity | None, gpus: int,
                known: SpeedEstimate) -> Speed:
    """Return the speed with ``times`` the CPUs of a job whose GPUs allow ``top`` times its speed.

    It is faster only while it is at its limit. At best that is always so; at worst it gains what its model gains by
    Synergy's matrices, and nothing where nobody knows its model.
    """
    most = min(times, top)
    estimate = 1 / (limited / most + 1 - limited)
    cpus = round(known.has.cpus * times)
    worst = _ratio(sensitivity, gpus, known.has, NodeShare(cpus, known.has.memory_bytes)) if sensitivity else 1.0
    return Speed(estimate, min(estimate, max(worst, 1.0)), max(estimate, most))


def _slowed(cores: Floats, cpus: int) -> Speed:
    """Return the speed of a job that would have had so few CPUs in its window, resampled for the interval."""
    shares = np.minimum(1.0, cpus / np.maximum(cores, 1e-9))
    draw = np.random.default_rng(0)
    means = shares[draw.integers(len(shares), size=(DRAWS, len(shares)))].mean(axis=1)
    low, high = np.percentile(means, (2.5, 97.5))
    estimate = float(shares.mean())
    return Speed(*(max(float(speed), LEAST_SPEED) for speed in (estimate, min(low, estimate), max(high, estimate))))


@dataclass(frozen=True)
class _Curve:
    """The activity of like jobs' GPUs by CPUs per GPU, as it was measured and as resamples of the runs have it."""

    points: Floats
    """The CPUs per GPU and the activity of each run."""

    @cached_property
    def whole(self) -> Sensitivity:
        """Return the sensitivity of all runs as they were measured, without resampling."""
        return _profile(self.points)

    @cached_property
    def resampled(self) -> Floats:
        """Return the activity that resamples have at no CPUs and at each number that was tried, [draw, number].

        Only made when somebody asks for an interval, as it takes long.
        """
        picks = np.random.default_rng(0).integers(len(self.points), size=(DRAWS, len(self.points)))
        tried = (self.points[:, :1] == self._cpus)[picks]
        runs = tried.sum(axis=1)
        means = (tried * self.points[picks, 1, None]).sum(axis=1) / np.maximum(runs, 1)
        runs[:, 0] = 1  # nothing comes of no CPUs: that needs no run
        # As ``filled`` has it: measured falls are noise, what was not tried is interpolated.
        return np.array([np.interp(self._cpus, self._cpus[known], np.maximum.accumulate(mean[known]))
                         for known, mean in zip(runs > 0, means, strict=True)])

    def speed(self, gpus: int, before: int, after: int) -> Speed:
        """Return the speed with other CPUs; beyond what was ever tried nothing is gained."""
        estimate = _ratio(self.whole, gpus, NodeShare(before, 1), NodeShare(after, 1))
        low, high = np.percentile(self._drawn(after / gpus) / self._drawn(before / gpus), (2.5, 97.5))
        return Speed(estimate, min(float(low), estimate), max(float(high), estimate))

    @cached_property
    def _cpus(self) -> Floats:
        return np.concatenate([[0.0], self.whole.cpus])

    def _drawn(self, cpus: float) -> Floats:
        """Return the activity with so many CPUs per GPU, [draw]."""
        known, below = self._cpus, int(np.searchsorted(self._cpus, cpus, side="right")) - 1
        below = min(below, len(known) - 2)
        across = min(1.0, (cpus - known[below]) / (known[below + 1] - known[below]))
        speeds = (1 - across) * self.resampled[:, below] + across * self.resampled[:, below + 1]
        return np.asarray(np.maximum(speeds, LEAST_SPEED))


def _curve(points: Floats) -> _Curve | None:
    """Return the curve through (CPUs per GPU, activity) of runs; None where all had the same CPUs."""
    if not len(points) or bool(np.all(points[:, 0] == points[0, 0])):
        return None
    return _curve_of(points.tobytes())


@lru_cache(maxsize=1024)
def _curve_of(points: bytes) -> _Curve:
    """Return the curve through points that come as bytes, a seventh of what as many tuples would take."""
    return _Curve(np.frombuffer(points).reshape(-1, 2))


def _profile(points: Floats) -> Sensitivity:
    """Return the mean activity by CPUs per GPU; memory plays no part in it."""
    cpus = np.unique(points[:, 0])
    speed = np.array([[points[points[:, 0] == count, 1].mean()] for count in cpus])
    return filled(cpus, _ANY_MEMORY, speed)

"""Speeds of a group of like jobs from its own runs, pooled with what was published of jobs like them.

The logarithm of a run's speed is ``y = a + x b + e``: ``a`` by GPU model, ``b`` a logarithm for each size, neighbour
and number of CPUs that differs from the group's reference and for each level that was crossed, ``e`` normal with
deviation ``s``. Each effect has a normal prior with mean ``m`` and deviation ``t``, ``a`` a flat one; so the posterior
is normal, with

    covariance ``V = (X'X / s^2 + 1 / t^2)^-1`` and mean ``m + V X'(y - X m) / s^2``.

For one effect seen by ``n`` runs that is ``w y + (1 - w) m`` with ``w = t^2 / (t^2 + s^2 / n)``: without runs of its
own a group has the published profile, and the more there are the less that counts (partial pooling). ``s`` is pooled,
too: the squared residuals of the group with those of ``SPREAD_RUNS`` runs that differ by ``SPREAD``.

Where no size ever ran on both sides of a level (16 GPUs are never on one node of 8), what it costs to cross it belongs
to the size: no placement of that size could spare it.

Published profiles are Pollux' step times and Synergy's matrices. They were measured on other machines, so each is one
draw of what a site may see: the deviation of its logarithm stands beside it. Nobody published what neighbours cost jobs
that hold GPUs of their own on a node (Gavel's pairs share a GPU, DeepShare's span several nodes both), so company has
no profile: until the site's own runs measure it, it is unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from . import speed_priors
from .site_speeds import ENOUGH, SOURCES, Source, SpeedCell
from .speed import LEVELS

BETWEEN_SITES = 0.3
"""Deviation of the logarithm of a speed between a published profile and a site: our assumption, for want of several
sites that measured the same. It is what the site's own runs are weighed against."""
_TASKS = {"bert": "language", "ncf": "language", "yolov3": "image", "cifar10": "image", "imagenet": "image",
          "deepspeech2": "speech"}
"""The task of Synergy whose sensitivity to CPUs and memory stands in for each application of Pollux."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A logarithm of a factor, and how far it may be off."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Profile:
    """What was published of an application."""

    size: Mapping[int, float] = field(default_factory=dict)
    """Throughput by number of GPUs, in any unit."""
    spread: Mapping[str, Expected] = field(default_factory=dict)
    cpus: Mapping[float, float] = field(default_factory=dict)
    """Speed by CPUs per GPU, over that with ``speed_priors.FAIR_CPUS``."""
    memory: Mapping[float, float] = field(default_factory=dict)
    """Speed by bytes per GPU, over that with ``speed_priors.FAIR_MEMORY``."""


NONE = Profile()


@cache
def profile(application: str) -> Profile:
    """Return what was published of an application of :mod:`.locality`; nothing of any other."""
    if application not in speed_priors.APPLICATIONS:
        return NONE
    slow = speed_priors.slow()[speed_priors.APPLICATIONS.index(application)]
    node_sizes = range(1, speed_priors.NODE_GPUS + 1)
    # Of one node only: what more nodes cost is spread, and elsewhere a node may have more GPUs.
    size = {gpus: gpus / float(slow[0, gpus - 1]) for gpus in node_sizes}
    slowdowns = [np.log(slow[0, nodes * gpus - 1] / slow[nodes - 1, gpus - 1])
                 for nodes in node_sizes for gpus in node_sizes if nodes > 1 and nodes * gpus <= speed_priors.NODE_GPUS]
    needs = speed_priors.prior(_TASKS[application])
    fair_cpus = needs.at(speed_priors.FAIR_CPUS, speed_priors.FAIR_MEMORY)
    return Profile(
        size, {"leaf": Expected(float(np.mean(slowdowns)), float(np.hypot(BETWEEN_SITES, np.std(slowdowns))))},
        {float(cpus): needs.at(cpus, speed_priors.FAIR_MEMORY) / fair_cpus for cpus in speed_priors.CPUS},
        {float(memory): needs.at(speed_priors.FAIR_CPUS, memory) / fair_cpus for memory in speed_priors.MEMORY})


Floats = NDArray[np.float64]

SPREAD, SPREAD_RUNS = 0.08, 4.0
"""The assumed spread of speeds from run to run, relatively, and how many runs it outweighs."""
MEASURED_SHARE = 0.5
"""Share of what is known of an effect that must come from the site's own runs before it is called measured."""
SIZE_DEVIATION, COMPANY_DEVIATION = 0.7, 0.2
"""Deviations of logarithms where nothing was published: perfect scaling and harmless neighbours are expected."""
BESIDE = 0.1
"""Mean number of such neighbours over a run from which on it ran beside them."""
_CROSSED = tuple(range(2, len(LEVELS)))
"""Columns of ``LEVELS`` that are further than a node: which GPUs of a node a run had is ignored."""
Z = 1.96
"""Deviations on either side of a 95 % interval."""

Effect = tuple[str, int]
"""``("size", GPUs)``, ``("spread", column of LEVELS that is crossed)``, ``("company", group)``, ``("cpus", CPUs per
GPU)``."""


@dataclass(frozen=True, slots=True)
class Observed:
    """How fast one run was, and what it ran on."""

    rate: float
    """The rate in any unit; rates are comparable within a group and GPU model."""
    gpu_model: str
    gpus: int
    level: int | None = None
    """Column of ``LEVELS``; None where its place is not recorded."""
    company: Mapping[int, float] = field(default_factory=dict)
    """Mean number of neighbours while it ran, by number of their group."""
    cpus: float | None = None
    """CPUs per GPU."""


@dataclass(frozen=True)
class Pooled:
    """The speeds of a group, pooled from its own runs and from what was published."""

    size: Mapping[int, SpeedCell]
    spread: Mapping[str, SpeedCell]
    company: Mapping[int, SpeedCell]
    cpus: Mapping[float, SpeedCell]
    deviation: float
    """The deviation of the logarithm of speed from run to run."""


def pooled(runs: Sequence[Observed], published: Profile = NONE) -> Pooled:
    """Return the speeds of a group; runs without a recorded place say nothing of spread, and are left out."""
    placed = [run for run in runs if run.level is not None]
    reference = _Reference.of(placed, published)
    effects = list(dict.fromkeys(effect for run in placed for effect, _ in reference.features(run)))
    expected = [_expected(effect, reference, published) for effect in effects]
    mean, deviation = (np.array([getattr(prior, part) for prior in expected]) for part in ("mean", "deviation"))
    design = np.zeros((len(placed), len(effects)))
    for row, run in enumerate(placed):
        for effect, amount in reference.features(run):
            design[row, effects.index(effect)] = amount
    speed = np.log(np.array([run.rate for run in placed]))
    models = [run.gpu_model for run in placed]
    posterior, variance, off = _posterior(_centred(design, models), _centred(speed[:, None], models)[:, 0], mean,
                                          deviation, len(set(models)))
    spread = np.sqrt(np.diag(variance))
    counts = [min(int((design[:, column] > BESIDE).sum()), int((design[:, column] <= BESIDE).sum()))
              for column in range(len(effects))]
    is_published = [_is_published(effect, published) for effect in effects]
    cells = {effect: _cell(*facts) for effect, *facts in zip(
        effects, posterior.tolist(), spread.tolist(), deviation.tolist(), counts, is_published, strict=True)}
    company = {key: _harm(cell) for (kind, key), cell in cells.items() if kind == "company" and cell is not None}
    levels = _LevelCosts({key: column for column, (kind, key) in enumerate(effects) if kind == "spread"}, posterior,
                         variance)
    return Pooled(_sizes(cells, reference, len(placed), published), _spreads(cells, levels, placed, published), company,
                  _cpus(cells, reference, len(placed), published), off)


@dataclass(frozen=True, slots=True)
class _Reference:
    """The size, spread and CPUs that most runs had: other runs are compared with them. Its spread is a single node."""

    gpus: int
    cpus: int | None
    groups: frozenset[int]
    """Neighbours that enough runs had, and enough had not."""
    levels: frozenset[int]
    """Levels that are known to matter, or on both sides of which some size ran."""

    @classmethod
    def of(cls, runs: Sequence[Observed], published: Profile) -> _Reference:
        beside = Counter(group for run in runs for group, mean in run.company.items() if mean > BESIDE)
        compared = frozenset(group for group, count in beside.items() if ENOUGH <= count <= len(runs) - ENOUGH)
        published_levels = {LEVELS.index(level) for level in published.spread}
        return cls(_usual(run.gpus for run in runs) or 1, _usual(_rounded(run.cpus) for run in runs), compared,
                   frozenset(level for level in _CROSSED if level in published_levels or _on_both_sides(runs, level)))

    def features(self, run: Observed) -> Iterable[tuple[Effect, float]]:
        """Yield in what a run differs, and how much of it."""
        if run.gpus != self.gpus:
            yield ("size", run.gpus), 1.0
        for level in sorted(self.levels):
            if (run.level or 0) >= level:
                yield ("spread", level), 1.0
        for group, mean in run.company.items():
            if group in self.groups and mean > 0:
                yield ("company", group), mean
        cpus = _rounded(run.cpus)
        if cpus is not None and self.cpus is not None and cpus != self.cpus:
            yield ("cpus", cpus), 1.0


def _usual(values: Iterable[float | int | None]) -> int | None:
    counts = Counter(int(value) for value in values if value is not None)
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def _rounded(cpus: float | None) -> int | None:
    return None if cpus is None or not math.isfinite(cpus) or cpus < 0.5 else round(cpus)


def _expected(effect: Effect, reference: _Reference, published: Profile) -> Expected:
    """Return the prior of an effect."""
    kind, key = effect
    if kind == "spread":
        return published.spread.get(LEVELS[key], Expected(0.0, BETWEEN_SITES))
    if kind == "size":
        both = published.size.get(key), published.size.get(reference.gpus)
        if both[0] and both[1]:
            return Expected(math.log(both[0] / both[1]), BETWEEN_SITES)
        return Expected(math.log(key / reference.gpus), SIZE_DEVIATION)
    if kind == "cpus" and published.cpus and reference.cpus is not None:
        return Expected(math.log(_read(published.cpus, key) / _read(published.cpus, reference.cpus)), BETWEEN_SITES)
    return Expected(0.0, COMPANY_DEVIATION if kind == "company" else BETWEEN_SITES)


def _is_published(effect: Effect, published: Profile) -> bool:
    """Tell whether something was published of an effect."""
    kind, key = effect
    if kind == "spread":
        return LEVELS[key] in published.spread
    return key in published.size if kind == "size" else kind == "cpus" and bool(published.cpus)


def _read(curve: Mapping[float, float], point: float) -> float:
    points = sorted(curve)
    return float(np.interp(point, points, [curve[known] for known in points]))


def _centred(values: Floats, models: Sequence[str]) -> Floats:
    """Return values less the mean of their GPU model: a flat prior on what it does to all jobs alike."""
    centred = values.copy()
    for model in set(models):
        rows = [row for row, other in enumerate(models) if other == model]
        centred[rows] -= centred[rows].mean(axis=0)
    return centred


def _posterior(design: Floats, speed: Floats, mean: Floats, deviation: Floats,
               models: int) -> tuple[Floats, Floats, float]:
    """Return means and covariance of the effects, and the deviation from run to run; twice, as that is learned, too."""
    off = SPREAD
    for _ in range(2):
        variance: Floats = np.linalg.inv(design.T @ design / off**2 + np.diag(deviation**-2.0)).astype(np.float64)
        effects = mean + variance @ design.T @ (speed - design @ mean) / off**2
        residual = speed - design @ effects
        used = float(np.trace(variance @ design.T @ design)) / off**2 + models
        freedom = SPREAD_RUNS + max(0.0, len(speed) - used)
        off = math.sqrt((SPREAD_RUNS * SPREAD**2 + float(residual @ residual)) / freedom)
    return effects, variance, off


def _cell(mean: float, spread: float, deviation: float, runs: int, is_published: bool) -> SpeedCell | None:
    """Return the figure of an effect; None where neither the site nor anybody else knows it."""
    is_measured = runs >= ENOUGH and 1.0 - (spread / deviation) ** 2 >= MEASURED_SHARE
    if not is_measured and not is_published:
        return None
    source: Source = "measured" if is_measured else "prior"
    return SpeedCell(math.exp(mean), math.exp(mean - Z * spread), math.exp(mean + Z * spread), source, int(runs))


def _harm(cell: SpeedCell) -> SpeedCell:
    """Return the speed that is left beside a neighbour: 1 where the interval reaches 1.

    A site has thousands of pairs of groups, and chance makes some of them look bad.
    """
    if cell.high >= 1.0:
        return SpeedCell(1.0, min(1.0, cell.low), max(1.0, cell.high), cell.source, cell.runs)
    return cell


def _sizes(cells: Mapping[Effect, SpeedCell | None], reference: _Reference, runs: int,
           published: Profile) -> dict[int, SpeedCell]:
    """Return speeds by size over that of the usual one; published ones in between, and all of them without runs."""
    usual = published.size.get(reference.gpus)
    by_gpus = {gpus: _prior(speed / usual, BETWEEN_SITES) for gpus, speed in published.size.items()} if usual else {}
    by_gpus |= {key: cell for (kind, key), cell in cells.items() if kind == "size" and cell is not None}
    if by_gpus or runs:
        by_gpus[reference.gpus] = SpeedCell(1.0, 1.0, 1.0, "measured" if runs >= ENOUGH else "prior", runs)
    return {gpus: by_gpus[gpus] for gpus in sorted(by_gpus)} if len(by_gpus) > 1 else {}


@dataclass(frozen=True, slots=True)
class _LevelCosts:
    """What it costs to cross levels, as far as it is known."""

    column: Mapping[int, int]
    """The column of each level in the posterior."""
    mean: Floats
    variance: Floats

    def cell(self, crossed: Sequence[int], source: Source, runs: int) -> SpeedCell:
        """Return what is left after some levels were crossed; their errors depend on each other."""
        columns = [self.column[level] for level in crossed]
        mean = float(self.mean[columns].sum())
        reach = Z * math.sqrt(max(0.0, float(self.variance[np.ix_(columns, columns)].sum())))
        return SpeedCell(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), source, runs)


def _spreads(cells: Mapping[Effect, SpeedCell | None], levels: _LevelCosts, runs: Sequence[Observed],
             published: Profile) -> dict[str, SpeedCell]:
    """Return speeds by level over that on one node; a level that nobody knows is left out."""
    by_level = {level: _prior(math.exp(known.mean), known.deviation) for level, known in published.spread.items()}
    crossed, sources = list[int](), list[Source]()
    for level in _CROSSED:
        here = [run for run in runs if (run.level or 0) >= level]
        cell = cells.get(("spread", level))
        if cell is not None:
            crossed.append(level)
            sources.append(cell.source)
        elif len(here) >= ENOUGH and level not in levels.column:  # its cost belongs to the sizes that ran there
            sources.append("measured")
        elif here:
            sources.append("fitted")  # levels beyond are estimated from those that are known
            continue
        else:
            continue
        worst = max(sources, key=SOURCES.index)
        by_level[LEVELS[level]] = levels.cell(crossed, worst, sum(run.level == level for run in here))
    return {level: by_level[level] for level in LEVELS if level in by_level}


def _on_both_sides(runs: Sequence[Observed], level: int) -> bool:
    """Tell whether some size ran both with and without crossing a level, on GPUs of one model."""
    beyond, within = ({(run.gpu_model, run.gpus) for run in runs if ((run.level or 0) >= level) is side}
                      for side in (True, False))
    return bool(beyond & within)


def _cpus(cells: Mapping[Effect, SpeedCell | None], reference: _Reference, runs: int,
          published: Profile) -> dict[float, SpeedCell]:
    """Return speeds by CPUs per GPU over that with the usual number."""
    usual = _read(published.cpus, reference.cpus) if published.cpus and reference.cpus is not None else 1.0
    by_cpus = {cpus: _prior(speed / usual, BETWEEN_SITES) for cpus, speed in published.cpus.items()}
    measured = {float(key): cell for (kind, key), cell in cells.items() if kind == "cpus" and cell is not None}
    if measured and reference.cpus is not None:
        measured[float(reference.cpus)] = SpeedCell(1.0, 1.0, 1.0, "measured", runs)
    by_cpus |= measured
    return {cpus: by_cpus[cpus] for cpus in sorted(by_cpus)}


def _prior(factor: float, deviation: float) -> SpeedCell:
    return SpeedCell(factor, factor * math.exp(-Z * deviation), factor * math.exp(Z * deviation), "prior")

"""The last runs of every group of similar jobs, bursts included, and the forecasts of the next run from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .compiled import compiled_with_arrays

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]

MEMORIES = np.array([1, 2, 3, 5, 8, 16, 32])
"""Numbers of last runs of a group that may count; the one that would have been right of late is used."""
MEMORY, FEW = int(MEMORIES[-1]), 8
WEIGHT = 1.0
"""The number of runs with which a group weighs as much as the wider group."""


class LastRuns(NamedTuple):
    """A ring of runs for every group."""

    groups: Groups
    """[level, job] the group of each job at each level; -1 where it has none."""
    starts: Codes
    """[level, group] where in ``store`` its ring begins."""
    lengths: Codes
    seen: Codes
    """[level, group] runs that were learnt."""
    store: Floats

    @classmethod
    def of(cls, groups: Groups) -> LastRuns:
        """Return empty rings."""
        most = int(groups.max(initial=-1)) + 1
        counts = np.array([np.bincount(row[row >= 0], minlength=most) for row in groups])
        lengths = np.minimum(counts, MEMORY)
        starts = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
        return cls(groups, starts, lengths, np.zeros(lengths.shape, np.int64), np.empty(int(lengths.sum())))


@compiled_with_arrays
def learn_run(job: int, value: float, runs: LastRuns) -> None:
    """Note a run in each of its groups."""
    for level in range(len(runs.groups)):
        group = runs.groups[level, job]
        if group >= 0:
            place = runs.starts[level, group] + runs.seen[level, group] % runs.lengths[level, group]
            runs.store[place] = value
            runs.seen[level, group] += 1


@compiled_with_arrays
def last_runs(job: int, level: int, runs: LastRuns) -> Floats:
    """Return the last runs of a job's group at a level, the latest first."""
    group = runs.groups[level, job]
    if group < 0:
        return np.empty(0)
    seen, length, first = runs.seen[level, group], runs.lengths[level, group], runs.starts[level, group]
    last = np.empty(min(seen, length))
    for back in range(len(last)):
        last[back] = runs.store[first + (seen - 1 - back) % length]
    return last


@compiled_with_arrays
def expect(job: int, runs: LastRuns, quantiles: Floats, medians: Floats, few: Floats, many: Floats) -> tuple[int, int]:
    """Fill in medians for each of ``MEMORIES``, quantiles for the last few runs and for all that are remembered.

    Return the most specific level that has runs, and how many.
    """
    narrowest, evidence, ordered = -1, 0, np.empty(MEMORY)
    for level in range(len(runs.groups) - 1, -1, -1):
        last, count = last_runs(job, level, runs), 0
        if not len(last):
            continue
        for place in range(len(MEMORIES)):
            while count < min(MEMORIES[place], len(last)):
                _insert(last[count], count, ordered)
                count += 1
            weight = count / (count + WEIGHT) if narrowest >= 0 else 1.0
            medians[place] = _pulled(medians[place], 0.5 * (ordered[(count - 1) // 2] + ordered[count // 2]), weight)
            if MEMORIES[place] == FEW:
                _pull_quantiles(ordered[:count], weight, quantiles, few)
        _pull_quantiles(ordered[:count], count / (count + WEIGHT) if narrowest >= 0 else 1.0, quantiles, many)
        narrowest, evidence = level, count
    return narrowest, evidence


@compiled_with_arrays
def expect_quantiles(job: int, runs: LastRuns, quantiles: Floats, out: Floats) -> bool:
    """Fill in quantiles for all runs that are remembered; return whether there are any."""
    any_runs, ordered = False, np.empty(MEMORY)
    for level in range(len(runs.groups) - 1, -1, -1):
        last = last_runs(job, level, runs)
        for count in range(len(last)):
            _insert(last[count], count, ordered)
        if len(last):
            _pull_quantiles(ordered[:len(last)], len(last) / (len(last) + WEIGHT) if any_runs else 1.0, quantiles, out)
            any_runs = True
    return any_runs


@compiled_with_arrays
def _insert(value: float, count: int, ordered: Floats) -> None:
    place = count
    while place > 0 and ordered[place - 1] > value:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = value


@compiled_with_arrays
def _pulled(wider: float, value: float, weight: float) -> float:
    """Return a wider group's value, pulled towards a narrower group's ``value`` with that group's ``weight``."""
    return weight * value + (1.0 - weight) * wider if weight < 1.0 else value


@compiled_with_arrays
def _pull_quantiles(ordered: Floats, weight: float, quantiles: Floats, out: Floats) -> None:
    """Pull quantiles so that as many of the next runs as should are below: the lowest of four is at 20 %, not at 0."""
    for index in range(len(quantiles)):
        place = min(max(quantiles[index] * (len(ordered) + 1) - 1.0, 0.0), len(ordered) - 1.0)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        out[index] = _pulled(out[index], ordered[below] + (place - below) * (ordered[above] - ordered[below]), weight)


PAUSE_S = 3600.0
"""A burst is over when no like job has been submitted for so long."""
FIRST = 4
"""The number of first jobs that stand for a burst where each burst counts alike, whatever its size."""
SEEING, BLIND = 0, 1
"""Whether any job of the burst had ended when a job was submitted."""


class Bursts(NamedTuple):
    """The last burst of each group of like jobs, and the burst of each job."""

    group: Codes
    """[job]"""
    burst: Codes
    """[job] its number within the group."""
    place: Codes
    """[job] how many of its burst were submitted before."""
    last_s: Floats
    """[group] last submission."""
    number: Codes
    """[group] of the burst that goes on."""
    size: Codes
    """[group] of that burst."""
    ended: Codes
    """[group] jobs of it that have ended."""

    @classmethod
    def of(cls, group: Codes) -> Bursts:
        """Return what is known before any submission."""
        groups, jobs = int(group.max(initial=-1)) + 1, len(group)
        return cls(group, np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), np.full(groups, -np.inf),
                   np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.zeros(groups, np.int64))


@compiled_with_arrays
def submit_to_burst(job: int, now: float, bursts: Bursts) -> int:
    """Note a submission; return whether its burst is a blind one."""
    group = bursts.group[job]
    if now - bursts.last_s[group] > PAUSE_S:
        bursts.number[group] += 1
        bursts.size[group] = bursts.ended[group] = 0
    bursts.burst[job], bursts.place[job] = bursts.number[group], bursts.size[group]
    bursts.last_s[group] = now
    bursts.size[group] += 1
    return SEEING if bursts.ended[group] else BLIND


@compiled_with_arrays
def end_in_burst(job: int, bursts: Bursts) -> None:
    """Note that a job has ended."""
    group = bursts.group[job]
    if bursts.burst[job] == bursts.number[group]:
        bursts.ended[group] += 1

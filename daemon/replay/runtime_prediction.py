"""How long a job will run, told from what its user's like jobs did, and only from those that had ended when it came.

Each group of like jobs, from all jobs down to the same user, name and size or container
image and size, pulls the estimate towards the median of
its last runs, the more of them the stronger. How many last runs count is what would have been right of late (recent
runs of the same user are the field's strong simple predictor: Tsafrir, Etsion and Feitelson, TPDS 2007). Intervals are
conformal: how far estimates were off for the last jobs, those that still run included, which are known to be longer
than they have been running (the product-limit estimator, Kaplan and Meier 1958): without them a time in which long jobs
begin looks as if all were short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .compiled import compiled_with_arrays
from .quantiles import centre, product_limit, quantiles_of

Column = Sequence[Any] | npt.NDArray[Any]
"""One value of each job."""
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]

LEVELS = (("user", "template", "gpus"), ("user", "template"), ("user", "image", "gpus"), ("user", "image"),
          ("user", "gpus"), ("user",), ("partition", "gpus"), ("partition",), ("gpus",), ())
"""Groups from the most specific to all jobs."""
MEMORIES = np.array([1, 2, 3, 5, 8, 16, 32])
"""So many last runs of a group may count; the number that would have been right of late does."""
MEMORY = int(MEMORIES[-1])
WEIGHT = 1.0
"""So many runs of its own weigh as much for a group as all that is known of the wider one."""
FORGET = 0.99
"""What an error of an earlier job still counts beside one of the next."""
ERRORS, ENOUGH, KNOWN = 600, 20, 10
"""Last jobs whose errors make an interval; those that a level must have for one of its own, and errors among them."""
RENEWED = 8
"""An interval is worked out again after so many jobs."""
QUANTILES = (0.1, 0.5, 0.9)
QUARTILES = (0.25, 0.5, 0.75)
"""How far run times spread, whatever becomes of the jobs that fail at once: often every seventh."""
HABIT = 8
"""Last jobs of a user that tell whether they always ask for the same limit."""
STRIDE = 20_000
"""Jobs between two words of how far it has come: some tenths of a second."""
Told = Callable[[int, int], None]
"""Hears how much is done, and of how much."""

_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+(?:\.\d+)?(?:e-?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted run times by job, in the order of the jobs."""

    quantiles: Floats
    """(job, quantile) seconds; NaN where nothing was known, not even a limit."""
    level: npt.NDArray[np.int64]
    """Index into ``LEVELS`` of the group that was asked; -1 where none was (the limit stands in)."""
    evidence: npt.NDArray[np.int64]
    """How many runs it had."""

    @property
    def median_s(self) -> Floats:
        """Return the middle quantile."""
        return np.asarray(self.quantiles[:, self.quantiles.shape[1] // 2])


def template(name: str) -> str:
    """Return a job's name with what varies from run to run left out: ``train_lr0.1_7`` is ``train_lr#_#``."""
    return _VARYING.sub("#", name)


def template_codes(names: Codes, vocabulary: Sequence[str]) -> Codes:
    """Return for codes of names the codes of their templates; -1 stays unknown."""
    known: dict[str, int] = {}
    of_name = np.array([known.setdefault(template(name), len(known)) for name in vocabulary] + [-1], np.int64)
    return np.asarray(of_name[np.asarray(names, np.int64)])


def known_codes(vocabulary: Sequence[str]) -> Codes:
    """Return for codes of words the same codes, but -1 for '', which is nothing in common."""
    return np.array([code if word else -1 for code, word in enumerate(vocabulary)] + [-1], np.int64)


@dataclass(frozen=True, slots=True)
class Traits:
    """What makes jobs alike, a column each: codes, negative where unknown."""

    gpus: Column
    user: Column | None = None
    template: Column | None = None
    """Of the name."""
    image: Column | None = None
    """Container image."""
    partition: Column | None = None


def predict(*, submit_s: Column, run_s: Column, ended_s: Column, traits: Traits, started_s: Column | None = None,
            limit_s: Column | None = None, quantiles: Sequence[float] = QUANTILES) -> Prediction:
    """Predict the run time of every job from those that had ended at its submission.

    ``ended_s`` is when the run time became known, NaN or infinite for a job that has not ended (its ``run_s`` is then
    never looked at). ``started_s`` tells how long those have run that have not ended. No prediction exceeds a limit.
    """
    return _predicted(_groups(traits), _Runs.of(submit_s, run_s, ended_s, started_s), limit_s, quantiles)


class _Runs(NamedTuple):
    """What became of the jobs."""

    submit_s: Floats
    started_s: Floats
    """NaN where nobody knows it."""
    ended_s: Floats
    value: Floats
    """Logarithm of the run time, in units; NaN where there is none."""
    unit_s: Floats
    """Of each job: a second, or its limit."""

    @classmethod
    def of(cls, submit_s: Column, run_s: Column, ended_s: Column, started_s: Column | None,
           unit_s: Floats | None = None) -> _Runs:
        """Return the columns; a run of no time counts as one of a second."""
        submit, run, ended = (np.asarray(column, np.float64) for column in (submit_s, run_s, ended_s))
        started = np.full(len(run), np.nan) if started_s is None else np.asarray(started_s, np.float64)
        unit = np.ones(len(run)) if unit_s is None else unit_s
        return cls(submit, started, ended, np.log(np.maximum(run, 1.0) / unit), unit)


def silent(done: int, total: int) -> None:
    """Tell nobody."""


def _predicted(groups: Groups, runs: _Runs, limit_s: Column | None, quantiles: Sequence[float],
               tell: Told = silent) -> Prediction:
    known = np.flatnonzero(np.isfinite(runs.ended_s) & np.isfinite(runs.value))
    ends = known[np.argsort(runs.ended_s[known], kind="stable")]
    order, rings, asked = np.argsort(runs.submit_s, kind="stable"), _rings(groups), np.asarray(quantiles, np.float64)
    memory = _Memory.of(groups, rings, len(asked))
    for first in range(0, len(order), STRIDE):
        _sweep(order[first:first + STRIDE], ends, runs, groups, rings, asked, memory)
        tell(min(first + STRIDE, len(order)), len(order))
    found = np.exp(memory.found)
    if limit_s is not None:
        limits = np.asarray(limit_s, np.float64)[:, None]
        found = np.where(np.isnan(found), limits, np.fmin(found, limits))
    return Prediction(found, memory.chosen, memory.evidence)


def foresight(*, submit_s: Column, run_s: Column, ended_s: Column, traits: Traits, started_s: Column | None = None,
              limit_s: Column | None = None, tell: Told = silent) -> dict[str, Floats]:
    """Return a workload's columns of what is known at submission: run times of like jobs, and their use of limits.

    ``tell`` hears how many predictions are made, and of how many: a million jobs take a minute.
    """
    size = len(submit_s)
    limits = np.full(size, np.nan) if limit_s is None else np.asarray(limit_s, np.float64)
    limits = np.where(np.isfinite(limits) & (limits > 0), limits, np.nan)
    groups = _groups(traits)
    runs = _predicted(groups, _Runs.of(submit_s, run_s, ended_s, started_s), limits, QUARTILES,
                      lambda done, total: tell(done, 2 * size)).quantiles
    uses = _predicted(groups, _Runs.of(submit_s, run_s, ended_s, started_s, limits), None, QUARTILES,
                      lambda done, total: tell(size + done, 2 * size)).quantiles
    names = ("prediction_low", "prediction", "prediction_high", "use_low", "use", "use_high")
    known = dict(zip(names, np.concatenate([runs, uses], axis=1).T.copy(), strict=True))
    return known | {"usual": _usual(np.asarray(submit_s, np.float64), limits, traits.user)}


def _usual(submit_s: Floats, limit_s: Floats, user: Column | None) -> Floats:
    """Return the share of the user's last jobs that asked for the same limit; NaN for a first job, or without limit."""
    codes = np.full(len(submit_s), -1, np.int64) if user is None else np.asarray(user, np.int64)
    order = np.lexsort((submit_s, codes))
    same, seen = np.zeros(len(order)), np.zeros(len(order))
    for lag in range(1, min(HABIT, len(order) - 1) + 1):
        known = (codes[order[lag:]] == codes[order[:-lag]]) & ~np.isnan(limit_s[order[:-lag]])
        same[lag:] += known & (limit_s[order[lag:]] == limit_s[order[:-lag]])
        seen[lag:] += known
    found = np.full(len(order), np.nan)
    found[order] = np.where(seen > 0, same / np.maximum(seen, 1), np.nan)
    return np.where(np.isnan(limit_s), np.nan, found)


def _groups(traits: Traits) -> Groups:
    """Return [level, job] the group of each job at each level; -1 where a column of the level is unknown."""
    gpus = np.asarray(traits.gpus, np.int64)
    told = {name: getattr(traits, name) for name in ("user", "template", "image", "partition")}
    columns = {name: np.full(len(gpus), -1, np.int64) if column is None else np.asarray(column, np.int64)
               for name, column in told.items()} | {"gpus": gpus}
    codes = {name: _renumbered(column) for name, column in columns.items()}
    groups = np.zeros((len(LEVELS), len(gpus)), np.int32)
    for level, names in enumerate(LEVELS):
        code = np.zeros(len(gpus), np.int64)
        for name in names:
            code = _renumbered(code * (int(codes[name].max(initial=0)) + 1) + codes[name])
        groups[level] = np.where(np.any([columns[name] < 0 for name in names], axis=0), -1, code) if names else code
    return groups


def _renumbered(codes: Codes) -> Codes:
    """Return the same numbers without gaps, in their order."""
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if high - low > 4 * len(codes):  # too many gaps to count through
        return np.unique(codes, return_inverse=True)[1]
    present = np.zeros(high - low + 1, bool)
    present[codes - low] = True
    return np.asarray((np.cumsum(present) - 1)[codes - low])


class Rings(NamedTuple):
    """The last runs of every group."""

    starts: Codes
    """[level, group] where in ``store`` its ring begins."""
    lengths: Codes
    store: Floats


def _rings(groups: Groups) -> Rings:
    """Return a ring for every group."""
    most = int(groups.max(initial=-1)) + 1
    counts = np.array([np.bincount(row[row >= 0], minlength=most) for row in groups])
    lengths = np.minimum(counts, MEMORY)
    starts = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
    return Rings(starts, lengths, np.empty(int(lengths.sum())))


class _Errors(NamedTuple):
    """The last jobs of each level, and the quantiles of how far estimates were off for them."""

    jobs: Groups
    """[level, place]"""
    seen: Codes
    quantiles: Floats
    """[level, quantile]; NaN while too few are known."""
    asked: Codes
    """[level] since they were worked out."""


class _Memory(NamedTuple):
    """What is known after some submissions."""

    found: Floats
    """[job, quantile] logarithms"""
    estimate: Floats
    """[job, memory]"""
    told: Floats
    """[job] the estimate of the memory that was right of late."""
    chosen: Codes
    evidence: Codes
    seen: Codes
    """[level, group] runs that were learnt."""
    off: Floats
    """[memory] errors of late."""
    learnt: Codes
    """One number: how many ends were learnt."""
    errors: _Errors

    @classmethod
    def of(cls, groups: Groups, rings: Rings, quantiles: int) -> _Memory:
        """Return what is known before any submission."""
        levels, size = groups.shape
        errors = _Errors(np.zeros((levels, ERRORS), np.int32), np.zeros(levels, np.int64),
                         np.full((levels, quantiles), np.nan), np.zeros(levels, np.int64))
        return cls(np.full((size, quantiles), np.nan), np.full((size, len(MEMORIES)), np.nan), np.full(size, np.nan),
                   np.full(size, -1), np.zeros(size, np.int64), np.zeros(rings.starts.shape, np.int64),
                   np.zeros(len(MEMORIES)), np.zeros(1, np.int64), errors)


@compiled_with_arrays
def _sweep(order: Codes, ends: Codes, runs: _Runs, groups: Groups, rings: Rings, quantiles: Floats,
           memory: _Memory) -> None:
    """Go on through submissions in time; what ended before one, or at the same moment, is learnt first."""
    levels, learnt = len(groups), memory.learnt[0]
    found, estimate, told, chosen, evidence = (memory.found, memory.estimate, memory.told, memory.chosen,
                                               memory.evidence)
    seen, off, errors = memory.seen, memory.off, memory.errors
    for job in order:
        while learnt < len(ends) and runs.ended_s[ends[learnt]] <= runs.submit_s[job]:
            ended = ends[learnt]
            if chosen[ended] >= 0:
                off[:] = FORGET * off + np.abs(runs.value[ended] - estimate[ended])
            _learn(ended, runs.value, groups, rings, seen)
            learnt += 1
        chosen[job], evidence[job] = _estimates(job, groups, rings, seen, estimate[job])
        if chosen[job] < 0:
            continue
        told[job] = estimate[job, np.argmin(off)]
        level = chosen[job] if errors.seen[chosen[job]] >= ENOUGH else levels - 1
        _renew(level, runs.submit_s[job], runs, told, errors, quantiles)
        if np.isnan(errors.quantiles[level, 0]):
            quantiles_of(_last(groups, rings, seen, job, chosen[job]), quantiles, found[job])
        else:
            found[job] = told[job] + errors.quantiles[level]
        centre(told[job], quantiles, found[job])
        for noted in (chosen[job], levels - 1):
            if noted == levels - 1 or chosen[job] != levels - 1:
                errors.jobs[noted, errors.seen[noted] % ERRORS] = job
                errors.seen[noted] += 1
    memory.learnt[0] = learnt


@compiled_with_arrays
def _estimates(job: int, groups: Groups, rings: Rings, seen: Codes, out: Floats) -> tuple[int, int]:
    """Fill in an estimate for each of ``MEMORIES``; return the most specific level that has runs, and how many."""
    found, count = -1, 0
    for level in range(len(groups) - 1, -1, -1):
        group = groups[level, job]
        if group < 0 or seen[level, group] == 0:
            continue
        last = _last(groups, rings, seen, job, level)
        for place in range(len(MEMORIES)):
            some = np.sort(last[:MEMORIES[place]])
            median = 0.5 * (some[(len(some) - 1) // 2] + some[len(some) // 2])
            own = len(some) / (len(some) + WEIGHT) if found >= 0 else 1.0
            out[place] = median if found < 0 else own * median + (1.0 - own) * out[place]
        found, count = level, len(last)
    return found, count


@compiled_with_arrays
def _last(groups: Groups, rings: Rings, seen: Codes, job: int, level: int) -> Floats:
    """Return the last runs of a job's group at a level, the latest first."""
    group = groups[level, job]
    length, first = rings.lengths[level, group], rings.starts[level, group]
    last = np.empty(min(seen[level, group], length))
    for back in range(len(last)):
        last[back] = rings.store[first + (seen[level, group] - 1 - back) % length]
    return last


@compiled_with_arrays
def _renew(level: int, now: float, runs: _Runs, told: Floats, errors: _Errors, quantiles: Floats) -> None:
    """Work out the quantiles of a level's errors once in a while."""
    errors.asked[level] += 1
    if errors.asked[level] < RENEWED and not np.isnan(errors.quantiles[level, 0]):
        return
    off, open_ended, count, known = np.empty(ERRORS), np.zeros(ERRORS, np.bool_), 0, 0
    for place in range(min(errors.seen[level], ERRORS)):
        job = errors.jobs[level, place]
        if runs.ended_s[job] <= now and not np.isnan(runs.value[job]):
            off[count] = runs.value[job] - told[job]
            count, known = count + 1, known + 1
        elif runs.started_s[job] < now and not np.isnan(runs.unit_s[job]):
            off[count] = np.log(max(now - runs.started_s[job], 1.0) / runs.unit_s[job]) - told[job]
            open_ended[count] = True
            count += 1
    if known >= KNOWN:
        product_limit(off[:count], open_ended[:count], quantiles, errors.quantiles[level])
        errors.asked[level] = 0


@compiled_with_arrays
def _learn(job: int, value: Floats, groups: Groups, rings: Rings, seen: Codes) -> None:
    for level in range(len(groups)):
        group = groups[level, job]
        if group >= 0:
            place = rings.starts[level, group] + seen[level, group] % rings.lengths[level, group]
            rings.store[place] = value[job]
            seen[level, group] += 1

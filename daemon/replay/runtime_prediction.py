"""Predicts a job's run time from its user's similar jobs, and only from those that had ended at its submission.

Each group of like jobs, from all jobs down to the same user, name and size or container image and size, pulls the
estimate towards the median of its last runs, the more of them the stronger. How many last runs count is what would have
been right of late (recent runs of the same user are the field's strong simple predictor: Tsafrir, Etsion and Feitelson,
TPDS 2007). Intervals are mixed of four ways (:mod:`.quantile_mixture`): how far estimates were off for the last jobs,
those that still run included, which are known to be longer than they have been running (the product-limit estimator,
Kaplan and Meier 1958); the quantiles of a group's last 8 runs and last 32; and those of the runs that began its bursts,
for a job of a burst in which none has ended yet is predicted from other bursts, however few jobs these had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .compiled import compiled_with_arrays
from .last_runs import (
    FIRST,
    MEMORIES,
    Bursts,
    LastRuns,
    end_in_burst,
    expect,
    expect_quantiles,
    last_runs,
    learn_run,
    submit_to_burst,
)
from .quantile_mixture import Mixture, await_outcome, learn_outcomes, mix
from .quantiles import centre, product_limit, quantiles_of

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]

FORGET = 0.99
"""What an error of an earlier job still counts beside one of the next."""
ERRORS, ENOUGH, KNOWN = 600, 20, 10
"""Last jobs whose errors make an interval; those that a level must have for one of its own, and errors among them."""
RENEWED = 8
"""An interval is worked out again after so many jobs."""
BY_ERRORS, BY_FEW, BY_MANY, BY_BURSTS, WAYS = 0, 1, 2, 3, 4
"""Ways of forecasting quantiles: how far estimates were off, a group's last runs, and those that began its bursts."""


class Runs(NamedTuple):
    """The outcomes of the jobs, a column each."""

    submit_s: Floats
    started_s: Floats
    """NaN where nobody knows it."""
    ended_s: Floats
    value: Floats
    """Logarithm of the run time, in units; NaN where there is none."""
    unit_s: Floats
    """The unit of each job's run time: a second, or the job's limit."""


class _Errors(NamedTuple):
    """The last jobs of each level, and the quantiles of how far estimates were off for them."""

    jobs: Groups
    """[level, place]"""
    seen: Codes
    quantiles: Floats
    """[level, quantile]; NaN while too few are known."""
    since_renewed: Codes
    """[level] since they were worked out."""


class SweepMemory(NamedTuple):
    """What is known after some submissions."""

    estimate: Floats
    """[job, memory]"""
    chosen: Codes
    """[job] level, and how many runs it had; -1 where nothing was known."""
    evidence: Codes
    off: Floats
    """[memory] errors of late."""
    learnt: Codes
    """One number: how many ends were learnt."""
    last: LastRuns
    first: LastRuns
    """The first runs of each burst."""
    bursts: Bursts
    errors: _Errors
    mixture: Mixture

    @classmethod
    def of(cls, groups: Groups, finest: Codes, quantiles: int) -> SweepMemory:
        """Return what is known before any submission."""
        levels, size = groups.shape
        errors = _Errors(np.zeros((levels, ERRORS), np.int32), np.zeros(levels, np.int64),
                         np.full((levels, quantiles), np.nan), np.zeros(levels, np.int64))
        mixture = Mixture.of(size, WAYS, quantiles)
        return cls(np.full((size, len(MEMORIES)), np.nan), np.full(size, -1), np.zeros(size, np.int64),
                   np.zeros(len(MEMORIES)), np.zeros(1, np.int64), LastRuns.of(groups), LastRuns.of(groups),
                   Bursts.of(finest), errors, mixture)


@compiled_with_arrays
def sweep(order: Codes, ends: Codes, runs: Runs, quantiles: Floats, memory: SweepMemory) -> None:
    """Go on through submissions in time; what ended before one, or at the same moment, is learnt first."""
    mixture = memory.mixture
    for job in order:
        now = runs.submit_s[job]
        _learn_ends(now, ends, runs, memory)
        learn_outcomes(now, runs.started_s, runs.ended_s, runs.value, runs.unit_s, quantiles, mixture)
        mixture.kind[job] = submit_to_burst(job, now, memory.bursts)
        if not _forecast(job, runs, quantiles, memory):
            continue
        mix(job, quantiles, mixture)
        centre(mixture.middle[job], quantiles, mixture.forecast[job])
        await_outcome(job, runs.started_s, runs.ended_s, runs.unit_s, mixture)


@compiled_with_arrays
def _learn_ends(now: float, ends: Codes, runs: Runs, memory: SweepMemory) -> None:
    learnt, seen = memory.learnt[0], memory.mixture.seen
    while learnt < len(ends) and runs.ended_s[ends[learnt]] <= now:
        ended = ends[learnt]
        value = runs.value[ended]
        if memory.chosen[ended] >= 0:
            memory.off[:] = FORGET * memory.off + np.abs(value - memory.estimate[ended])
        learn_run(ended, value, memory.last)
        if memory.bursts.place[ended] < FIRST:
            learn_run(ended, value, memory.first)
        end_in_burst(ended, memory.bursts)
        seen[0], seen[1] = min(seen[0], value), max(seen[1], value)
        learnt += 1
    memory.learnt[0] = learnt


@compiled_with_arrays
def _forecast(job: int, runs: Runs, quantiles: Floats, memory: SweepMemory) -> bool:
    """Fill in the median and each way's forecast; return whether anything is known."""
    ways = memory.mixture.ways[job]
    memory.chosen[job], memory.evidence[job] = expect(job, memory.last, quantiles, memory.estimate[job],
                                                      ways[BY_FEW], ways[BY_MANY])
    if memory.chosen[job] < 0:
        return False
    memory.mixture.middle[job] = memory.estimate[job, np.argmin(memory.off)]
    _by_errors(job, runs, quantiles, memory, ways[BY_ERRORS])
    if not expect_quantiles(job, memory.first, quantiles, ways[BY_BURSTS]):
        ways[BY_BURSTS] = ways[BY_MANY]
    return True


@compiled_with_arrays
def _by_errors(job: int, runs: Runs, quantiles: Floats, memory: SweepMemory, out: Floats) -> None:
    """Fill in quantiles by how far estimates were off for the last jobs of the same level, or else of all."""
    errors, middle, chosen = memory.errors, memory.mixture.middle, memory.chosen[job]
    everyone = len(errors.seen) - 1
    level = chosen if errors.seen[chosen] >= ENOUGH else everyone
    _renew(level, runs.submit_s[job], runs, middle, errors, quantiles)
    if np.isnan(errors.quantiles[level, 0]):
        quantiles_of(last_runs(job, chosen, memory.last), quantiles, out)
    else:
        out[:] = middle[job] + errors.quantiles[level]
    centre(middle[job], quantiles, out)
    for noted in (chosen, everyone):
        if noted == everyone or chosen != everyone:
            errors.jobs[noted, errors.seen[noted] % ERRORS] = job
            errors.seen[noted] += 1


@compiled_with_arrays
def _renew(level: int, now: float, runs: Runs, medians: Floats, errors: _Errors, quantiles: Floats) -> None:
    """Work out the quantiles of a level's errors once in a while."""
    errors.since_renewed[level] += 1
    if errors.since_renewed[level] < RENEWED and not np.isnan(errors.quantiles[level, 0]):
        return
    off, open_ended, count, known = np.empty(ERRORS), np.zeros(ERRORS, np.bool_), 0, 0
    for place in range(min(errors.seen[level], ERRORS)):
        job = errors.jobs[level, place]
        if runs.ended_s[job] <= now and not np.isnan(runs.value[job]):
            off[count] = runs.value[job] - medians[job]
            count, known = count + 1, known + 1
        elif runs.started_s[job] < now and not np.isnan(runs.unit_s[job]):
            off[count] = np.log(max(now - runs.started_s[job], 1.0) / runs.unit_s[job]) - medians[job]
            open_ended[count] = True
            count += 1
    if known >= KNOWN:
        product_limit(off[:count], open_ended[:count], quantiles, errors.quantiles[level])
        errors.since_renewed[level] = 0


Column = Sequence[object] | npt.NDArray[np.generic]
"""One value of each job."""

LEVELS = (("user", "template", "gpus"), ("user", "template"), ("user", "image", "gpus"), ("user", "image"),
          ("user", "gpus"), ("user",), ("partition", "gpus"), ("partition",), ("gpus",), ())
"""Groups from the most specific to all jobs."""
QUANTILES = (0.1, 0.5, 0.9)
QUARTILES = (0.25, 0.5, 0.75)
"""How far run times spread, whatever becomes of the jobs that fail at once: often every seventh."""
HABIT = 8
"""Last jobs of a user that show whether they always ask for the same limit."""
STRIDE = 20_000
"""Jobs between two progress reports: some tenths of a second."""
ProgressCallback = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+(?:\.\d+)?(?:e-?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted run times by job, in the order of the jobs."""

    quantiles: Floats
    """(job, quantile) seconds; NaN where nothing was known, not even a limit."""
    level: npt.NDArray[np.int64]
    """Index into ``LEVELS`` of the group that was used; -1 where none was (the limit stands in)."""
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
    """Return the codes of texts, but -1 for '', which jobs do not have in common."""
    return np.array([code if text else -1 for code, text in enumerate(vocabulary)] + [-1], np.int64)


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """The features by which jobs are alike, a column each: codes, negative where unknown."""

    gpus: Column
    user: Column | None = None
    template: Column | None = None
    """The template of the job's name."""
    image: Column | None = None
    """Container image."""
    partition: Column | None = None


def predict(*, submit_s: Column, run_s: Column, ended_s: Column, features: JobFeatures, started_s: Column | None = None,
            limit_s: Column | None = None, quantiles: Sequence[float] = QUANTILES) -> Prediction:
    """Predict the run time of every job from those that had ended at its submission.

    ``ended_s`` is when the run time became known, NaN or infinite for a job that has not ended (its ``run_s`` is then
    never looked at). ``started_s`` gives the run time so far of jobs that still run. No prediction exceeds a limit.
    """
    return _predicted(_groups(features), _runs(submit_s, run_s, ended_s, started_s), limit_s, quantiles)


def _runs(submit_s: Column, run_s: Column, ended_s: Column, started_s: Column | None,
          unit_s: Floats | None = None) -> Runs:
    """Return the outcomes of the jobs; a run of no time counts as a run of one second."""
    submit, run, ended = (np.asarray(column, np.float64) for column in (submit_s, run_s, ended_s))
    started = np.full(len(run), np.nan) if started_s is None else np.asarray(started_s, np.float64)
    unit = np.ones(len(run)) if unit_s is None else unit_s
    return Runs(submit, started, ended, np.log(np.maximum(run, 1.0) / unit), unit)


def ignore_progress(done: int, total: int) -> None:
    """Do nothing."""


def _predicted(groups: Groups, runs: Runs, limit_s: Column | None, quantiles: Sequence[float],
               progress: ProgressCallback = ignore_progress) -> Prediction:
    known = np.flatnonzero(np.isfinite(runs.ended_s) & np.isfinite(runs.value))
    ends = known[np.argsort(runs.ended_s[known], kind="stable")]
    order, wanted = np.argsort(runs.submit_s, kind="stable"), np.asarray(quantiles, np.float64)
    memory = SweepMemory.of(groups, _finest(groups), len(wanted))
    for first in range(0, len(order), STRIDE):
        sweep(order[first:first + STRIDE], ends, runs, wanted, memory)
        progress(min(first + STRIDE, len(order)), len(order))
    # Rounded, or a run as long as its quantile lies beyond it by rounding.
    predicted_s = np.exp(memory.mixture.forecast).round(6)
    if limit_s is not None:
        limits = np.asarray(limit_s, np.float64)[:, None]
        predicted_s = np.where(np.isnan(predicted_s), limits, np.fmin(predicted_s, limits))
    return Prediction(predicted_s, memory.chosen, memory.evidence)


def predicted_columns(*, submit_s: Column, run_s: Column, ended_s: Column, features: JobFeatures,
                      started_s: Column | None = None, limit_s: Column | None = None,
                      progress: ProgressCallback = ignore_progress) -> dict[str, Floats]:
    """Return a workload's columns of what is known at submission: run times of like jobs, and their use of limits.

    ``progress`` is called with how many predictions are made, and of how many: a million jobs take a minute.
    """
    size = len(submit_s)
    limits = np.full(size, np.nan) if limit_s is None else np.asarray(limit_s, np.float64)
    limits = np.where(np.isfinite(limits) & (limits > 0), limits, np.nan)
    groups = _groups(features)
    runs = _predicted(groups, _runs(submit_s, run_s, ended_s, started_s), limits, QUARTILES,
                      lambda done, total: progress(done, 2 * size)).quantiles
    uses = _predicted(groups, _runs(submit_s, run_s, ended_s, started_s, limits), None, QUARTILES,
                      lambda done, total: progress(size + done, 2 * size)).quantiles
    names = ("prediction_low", "prediction", "prediction_high", "use_low", "use", "use_high")
    known = dict(zip(names, np.concatenate([runs, uses], axis=1).T.copy(), strict=True))
    return known | {"usual": _usual(np.asarray(submit_s, np.float64), limits, features.user)}


def _usual(submit_s: Floats, limit_s: Floats, user: Column | None) -> Floats:
    """Return the share of the user's last jobs that requested the same limit; NaN for a first job, or without limit."""
    codes = np.full(len(submit_s), -1, np.int64) if user is None else np.asarray(user, np.int64)
    order = np.lexsort((submit_s, codes))
    same, seen = np.zeros(len(order)), np.zeros(len(order))
    for lag in range(1, min(HABIT, len(order) - 1) + 1):
        known = (codes[order[lag:]] == codes[order[:-lag]]) & ~np.isnan(limit_s[order[:-lag]])
        same[lag:] += known & (limit_s[order[lag:]] == limit_s[order[:-lag]])
        seen[lag:] += known
    shares = np.full(len(order), np.nan)
    shares[order] = np.where(seen > 0, same / np.maximum(seen, 1), np.nan)
    return np.where(np.isnan(limit_s), np.nan, shares)


def _groups(features: JobFeatures) -> Groups:
    """Return [level, job] the group of each job at each level; -1 where a column of the level is unknown."""
    gpus = np.asarray(features.gpus, np.int64)
    given = {name: getattr(features, name) for name in ("user", "template", "image", "partition")}
    columns = {name: np.full(len(gpus), -1, np.int64) if column is None else np.asarray(column, np.int64)
               for name, column in given.items()} | {"gpus": gpus}
    codes = {name: _renumbered(column) for name, column in columns.items()}
    groups = np.zeros((len(LEVELS), len(gpus)), np.int32)
    for level, names in enumerate(LEVELS):
        code = np.zeros(len(gpus), np.int64)
        for name in names:
            code = _renumbered(code * (int(codes[name].max(initial=0)) + 1) + codes[name])
        groups[level] = np.where(np.any([columns[name] < 0 for name in names], axis=0), -1, code) if names else code
    return groups


def _finest(groups: Groups) -> Codes:
    """Return the most specific group of each job, as codes without gaps."""
    level = np.argmax(groups >= 0, axis=0)
    return _renumbered(level * (int(groups.max(initial=0)) + 1) + groups[level, np.arange(groups.shape[1])])


def _renumbered(codes: Codes) -> Codes:
    """Renumber codes without gaps, in their order."""
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if high - low > 4 * len(codes):  # too many gaps to count through
        return np.unique(codes, return_inverse=True)[1]
    present = np.zeros(high - low + 1, bool)
    present[codes - low] = True
    return np.asarray((np.cumsum(present) - 1)[codes - low])

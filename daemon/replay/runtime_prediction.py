"""How long a job will run, told from what its user's like jobs did, and only from those that had ended when it came.

A job is compared with the last runs of the most specific group that has enough of them: same user, name and size;
same user and name; same user, container image and size; same user and image; same user and size; same user; same size;
all. (Recent runs of the same user are the field's
strong simple predictor: Tsafrir, Etsion and Feitelson, TPDS 2007.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .compiled import compiled_with_arrays

Column = Sequence[Any] | npt.NDArray[Any]
"""One value of each job."""
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]

LEVELS = (("user", "template", "gpus"), ("user", "template"), ("user", "image", "gpus"), ("user", "image"),
          ("user", "gpus"), ("user",), ("gpus",), ())
"""Groups from the most specific to all jobs."""
ENOUGH = 3
"""Runs that make a group worth asking; the last level needs one."""
MEMORY = 32
"""Last runs of a group that are looked at: users change their minds."""
QUANTILES = (0.1, 0.5, 0.9)
QUARTILES = (0.25, 0.5, 0.75)
"""How far run times spread, whatever becomes of the jobs that fail at once: often every seventh."""
HABIT = 8
"""Last jobs of a user that tell whether they always ask for the same limit."""

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


def predict(*, submit_s: Column, run_s: Column, ended_s: Column, gpus: Column, user: Column | None = None,
            template: Column | None = None, limit_s: Column | None = None,
            quantiles: Sequence[float] = QUANTILES) -> Prediction:
    """Predict the run time of every job from those that had ended at its submission.

    ``user`` and ``template`` are codes, negative where unknown; ``ended_s`` is when a run time became known,
    NaN or infinite for a job that has not ended (its ``run_s`` is then not looked at). No prediction exceeds a limit.
    """
    return _predicted(_groups(gpus, user, template, None), submit_s, run_s, ended_s, limit_s, quantiles)


def _predicted(groups: Groups, submit_s: Column, run_s: Column, ended_s: Column, limit_s: Column | None,
               quantiles: Sequence[float]) -> Prediction:
    submit_s, run_s, ended_s = (np.asarray(column, np.float64) for column in (submit_s, run_s, ended_s))
    known = np.flatnonzero(np.isfinite(ended_s) & np.isfinite(run_s))
    ends = known[np.argsort(ended_s[known], kind="stable")]
    found, level, evidence = _sweep(np.argsort(submit_s, kind="stable"), ends, submit_s, run_s, ended_s, groups,
                                    _rings(groups), np.asarray(quantiles, np.float64))
    if limit_s is not None:
        limits = np.asarray(limit_s, np.float64)[:, None]
        found = np.where(np.isnan(found), limits, np.fmin(found, limits))
    return Prediction(found, level, evidence)


def foresight(*, submit_s: Column, run_s: Column, ended_s: Column, gpus: Column, user: Column | None = None,
              template: Column | None = None, limit_s: Column | None = None,
              image: Column | None = None) -> dict[str, Floats]:
    """Return a workload's columns of what is known at submission: run times of like jobs, and their use of limits."""
    limits = np.full(len(submit_s), np.nan) if limit_s is None else np.asarray(limit_s, np.float64)
    limits = np.where(np.isfinite(limits) & (limits > 0), limits, np.nan)
    groups = _groups(gpus, user, template, image)
    runs = _predicted(groups, submit_s, run_s, ended_s, limits, QUARTILES).quantiles
    uses = _predicted(groups, submit_s, np.asarray(run_s, np.float64) / limits, ended_s, None, QUARTILES).quantiles
    names = ("prediction_low", "prediction", "prediction_high", "use_low", "use", "use_high")
    known = dict(zip(names, np.concatenate([runs, uses], axis=1).T.copy(), strict=True))
    return known | {"usual": _usual(np.asarray(submit_s, np.float64), limits, user)}


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


def _groups(gpus: Column, user: Column | None, template: Column | None, image: Column | None) -> Groups:
    """Return [level, job] the group of each job at each level; -1 where a column of the level is unknown."""
    unknown = np.full(len(gpus), -1, np.int64)
    columns = {"user": unknown if user is None else np.asarray(user, np.int64),
               "template": unknown if template is None else np.asarray(template, np.int64),
               "image": unknown if image is None else np.asarray(image, np.int64),
               "gpus": np.asarray(gpus, np.int64)}
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


@compiled_with_arrays
def _sweep(order: Codes, ends: Codes, submit_s: Floats, run_s: Floats, ended_s: Floats, groups: Groups, rings: Rings,
           quantiles: Floats) -> tuple[Floats, Codes, Codes]:
    """Go through submissions in time; what ended before one, or at the same moment, is learnt first."""
    found = np.full((len(submit_s), len(quantiles)), np.nan)
    chosen, evidence = np.full(len(submit_s), -1), np.zeros(len(submit_s), np.int64)
    seen = np.zeros(rings.starts.shape, np.int64)
    learnt = 0
    for job in order:
        while learnt < len(ends) and ended_s[ends[learnt]] <= submit_s[job]:
            _learn(ends[learnt], run_s, groups, rings, seen)
            learnt += 1
        level = _level(job, groups, seen)
        if level >= 0:
            group = groups[level, job]
            count = min(seen[level, group], rings.lengths[level, group])
            first = rings.starts[level, group]
            _quantiles(np.sort(rings.store[first:first + count]), quantiles, found[job])
            chosen[job], evidence[job] = level, count
    return found, chosen, evidence


@compiled_with_arrays
def _quantiles(ordered: Floats, quantiles: Floats, out: Floats) -> None:
    """Fill in quantiles, linear between neighbours; numpy's own takes ten seconds to compile."""
    for index in range(len(quantiles)):
        place = quantiles[index] * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        out[index] = ordered[below] + (place - below) * (ordered[above] - ordered[below])


@compiled_with_arrays
def _learn(job: int, run_s: Floats, groups: Groups, rings: Rings, seen: Codes) -> None:
    for level in range(len(groups)):
        group = groups[level, job]
        if group >= 0:
            place = rings.starts[level, group] + seen[level, group] % rings.lengths[level, group]
            rings.store[place] = run_s[job]
            seen[level, group] += 1


@compiled_with_arrays
def _level(job: int, groups: Groups, seen: Codes) -> int:
    """Return the most specific level that has enough runs; -1 when nothing has ended yet."""
    last = len(groups) - 1
    for level in range(len(groups)):
        group = groups[level, job]
        if group >= 0 and seen[level, group] >= (1 if level == last else ENOUGH):
            return level
    return -1

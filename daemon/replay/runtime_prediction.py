"""How long a job will run, told from what its user's like jobs did, and only from those that had ended when it came.

Each group of like jobs, from all jobs down to the same user, name and size or container image and size, pulls the
estimate towards the median of its last runs, the more of them the stronger. How many last runs count is what would have
been right of late (recent runs of the same user are the field's strong simple predictor: Tsafrir, Etsion and Feitelson,
TPDS 2007). Intervals are mixed of four ways (:mod:`.quantile_mixture`): how far estimates were off for the last jobs,
those that still run included, which are known to be longer than they have been running (the product-limit estimator,
Kaplan and Meier 1958); the quantiles of a group's last 8 runs and last 32; and those of the runs that began its bursts,
for a job whose burst nobody has seen the end of is foretold by other bursts, however few jobs these had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .runtime_sweep import Runs, SweepMemory, sweep

Column = Sequence[object] | npt.NDArray[np.generic]
"""One value of each job."""
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Groups = npt.NDArray[np.int32]

LEVELS = (("user", "template", "gpus"), ("user", "template"), ("user", "image", "gpus"), ("user", "image"),
          ("user", "gpus"), ("user",), ("partition", "gpus"), ("partition",), ("gpus",), ())
"""Groups from the most specific to all jobs."""
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
    return _predicted(_groups(traits), _runs(submit_s, run_s, ended_s, started_s), limit_s, quantiles)


def _runs(submit_s: Column, run_s: Column, ended_s: Column, started_s: Column | None,
          unit_s: Floats | None = None) -> Runs:
    """Return what became of the jobs; a run of no time counts as one of a second."""
    submit, run, ended = (np.asarray(column, np.float64) for column in (submit_s, run_s, ended_s))
    started = np.full(len(run), np.nan) if started_s is None else np.asarray(started_s, np.float64)
    unit = np.ones(len(run)) if unit_s is None else unit_s
    return Runs(submit, started, ended, np.log(np.maximum(run, 1.0) / unit), unit)


def silent(done: int, total: int) -> None:
    """Tell nobody."""


def _predicted(groups: Groups, runs: Runs, limit_s: Column | None, quantiles: Sequence[float],
               tell: Told = silent) -> Prediction:
    known = np.flatnonzero(np.isfinite(runs.ended_s) & np.isfinite(runs.value))
    ends = known[np.argsort(runs.ended_s[known], kind="stable")]
    order, asked = np.argsort(runs.submit_s, kind="stable"), np.asarray(quantiles, np.float64)
    memory = SweepMemory.of(groups, _finest(groups), len(asked))
    for first in range(0, len(order), STRIDE):
        sweep(order[first:first + STRIDE], ends, runs, asked, memory)
        tell(min(first + STRIDE, len(order)), len(order))
    found = np.exp(memory.mixture.told).round(6)  # or a run as long as its quantile lies beyond it by rounding
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
    runs = _predicted(groups, _runs(submit_s, run_s, ended_s, started_s), limits, QUARTILES,
                      lambda done, total: tell(done, 2 * size)).quantiles
    uses = _predicted(groups, _runs(submit_s, run_s, ended_s, started_s, limits), None, QUARTILES,
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


def _finest(groups: Groups) -> Codes:
    """Return the most specific group of each job, as codes without gaps."""
    level = np.argmax(groups >= 0, axis=0)
    return _renumbered(level * (int(groups.max(initial=0)) + 1) + groups[level, np.arange(groups.shape[1])])


def _renumbered(codes: Codes) -> Codes:
    """Return the same numbers without gaps, in their order."""
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if high - low > 4 * len(codes):  # too many gaps to count through
        return np.unique(codes, return_inverse=True)[1]
    present = np.zeros(high - low + 1, bool)
    present[codes - low] = True
    return np.asarray((np.cumsum(present) - 1)[codes - low])

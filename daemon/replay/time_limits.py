"""What is wrong with a history's time limits: they are missing, mostly the same, or reveal the run times.

Nobody knows a run time beforehand. Limits from which it can be computed were made afterwards, as in some published
traces; a policy that orders by them is an oracle. Two things give them away. The limits of many jobs are the run time
times one number, up to rounding. Or limits that are much alike put jobs in the order of their run times: people who
ask for 70 minutes instead of 60 hardly ever run for longer in three of four cases, limits that were made do in all.

Jobs that were ended at their limit prove nothing, and neither do many runs of the same job: each length counts once
for each limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .workload import Workload

Floats = NDArray[np.float64]

NOTICED = 0.05
"""Share of jobs without a limit from which that is reported."""
MISSING, ALIKE = 0.5, 0.8
"""Share of jobs from which limits are missing, or the same."""
MULTIPLES = 0.25
"""Share of jobs whose limits are one multiple of their run times from which limits were made of these. Where they were
not, a spread of two or three times leaves 7 % within the rounding of one number."""
IN_ORDER = 0.95
"""Share of pairs with limits much alike that run in the order of their limits from which limits reveal them. Limits
of one to three times the run time, drawn at random, reach 0.83; of one to 1.2 times, 0.95."""
NEAR = 2.0
"""Limits are much alike where one is at most so many times the other."""
FEWEST = 20
"""Fewer different limits prove nothing."""
STEPS_S = (300.0, 60.0, 1.0)
"""What limits are rounded to."""
FINE = 0.05
"""A limit of which a step is a larger share shows no multiple."""
SAMPLE, PAIRS = 20_000, 40_000


@dataclass(frozen=True, slots=True)
class LimitFault:
    """One fault of time limits."""

    kind: str
    """``missing``, ``alike`` or ``leaking``."""
    share: float
    """The share of jobs with the fault; of pairs of jobs where limits put them in order."""
    text: str
    """Description without a full stop."""

    @property
    def grave(self) -> bool:
        """Tell whether limits like these make an order by limit meaningless."""
        return self.kind != "missing" or self.share >= MISSING


class Leak(NamedTuple):
    """How limits reveal run times."""

    share: float
    ratio: float
    """Limit over run time; NaN where they only put jobs in order."""

    @property
    def text(self) -> str:
        """Return a description without a full stop."""
        if np.isnan(self.ratio):
            return f"of jobs with limits much alike {self.share:.0%} run in the order of their time limits"
        times = "" if self.exact else f"{self.ratio:.3g} times "
        return f"the time limits of {self.share:.0%} of the jobs are {times}their very run times"

    @property
    def exact(self) -> bool:
        """Tell whether limits are the run times themselves, up to a hundredth."""
        return abs(self.ratio - 1.0) <= 0.01


def faults(work: Workload) -> Iterator[LimitFault]:
    """Yield all that is wrong with the limits of these jobs, the gravest first."""
    if not len(work):
        return
    has_limit = np.isfinite(work.limit)
    missing = 1.0 - float(has_limit.mean())
    leaks = []
    if missing >= NOTICED:
        leaks.append(LimitFault("missing", missing, f"{missing:.0%} of the jobs have no time limit"))
    leak = leaking(work.limit, work.run, work.user)
    if leak is not None:
        leaks.append(LimitFault("leaking", leak.share, leak.text))
    _, counts = np.unique(work.limit[has_limit], return_counts=True)
    common = int(counts.max(initial=0)) / len(work)
    if common >= ALIKE and has_limit.sum() > 1:
        leaks.append(LimitFault("alike", common, f"{common:.0%} of the jobs have the same time limit"))
    yield from sorted(leaks, key=lambda leak: not leak.grave)


def leaking(limit_s: Floats, run_s: Floats, user: NDArray[np.generic] | None = None) -> Leak | None:
    """Return how limits reveal run times; None where they do not."""
    usable = np.flatnonzero(np.isfinite(limit_s) & (limit_s > 0) & (run_s > 0))
    # Others were ended at their limit.
    rows = usable[(run_s[usable] < limit_s[usable]) | (limit_s[usable] % STEPS_S[0] != 0)]
    rows = rows[np.unique(np.linspace(0, max(0, len(rows) - 1), min(len(rows), SAMPLE)).astype(np.int64))]
    limit, run = np.asarray(limit_s, np.float64)[rows], np.asarray(run_s, np.float64)[rows]
    if len(np.unique(limit)) < FEWEST:
        return None
    ratio = _multiple(limit, run)
    if ratio is not None:
        leak = Leak(0.0, ratio)
        return leak._replace(share=float(made_of(limit_s[usable], run_s[usable], leak).sum() / len(limit_s)))
    everybody = np.zeros(len(rows), np.int64)
    who = everybody if user is None else np.unique(np.asarray(user)[rows], return_inverse=True)[1]
    in_order = max(_in_order(limit, run, everybody), _in_order(limit, run, who))
    return Leak(in_order, float("nan")) if in_order >= IN_ORDER else None


def without_leaking(limit_s: Floats, run_s: Floats, user: NDArray[np.generic] | None = None) -> Floats:
    """Return limits that may be used to predict run times: none at all where they reveal these."""
    return limit_s if leaking(limit_s, run_s, user) is None else np.full(len(limit_s), np.nan)


def made_of(limit_s: Floats, run_s: Floats, leak: Leak) -> NDArray[np.bool_]:
    """Return which limits are the run time times the leak's number, up to rounding."""
    low, high = _between(limit_s, run_s, _step(limit_s))
    return (low <= leak.ratio) & (leak.ratio <= high)


def _multiple(limit: Floats, run: Floats) -> float | None:
    """Return the number that the most limits are of their run times; None where these are too few."""
    fine = _step(limit) <= FINE * limit
    pairs = np.unique(np.column_stack([limit, np.round(100.0 * np.log(run))])[fine], axis=0, return_index=True)[1]
    limit, run = limit[fine][pairs], run[fine][pairs]
    if len(np.unique(limit)) < FEWEST:
        return None
    low, high = _between(limit, run, _step(limit))
    edges = np.concatenate([low, high])
    order = np.lexsort((np.repeat([0, 1], len(low)), edges))
    depth = np.cumsum(np.repeat([1, -1], len(low))[order])
    best = int(depth.argmax())
    ratio = float((edges[order][best] + edges[order][best + 1]) / 2.0)
    within = (low <= ratio) & (ratio <= high)
    return ratio if within.mean() >= MULTIPLES and len(np.unique(limit[within])) >= FEWEST else None


def _step(limit: Floats) -> Floats:
    """Return what limits seem to be rounded to."""
    return np.select([limit % step == 0 for step in STEPS_S[:-1]], STEPS_S[:-1], STEPS_S[-1])


def _between(limit: Floats, run: Floats, step: Floats) -> tuple[Floats, Floats]:
    """Return which numbers a limit may be of its run time if it was rounded up, or to the nearest step."""
    return (limit - step) / np.maximum(run, 1.0), (limit + step / 2.0) / np.maximum(run, 1.0)


def _in_order(limit: Floats, run: Floats, group: NDArray[np.int64]) -> float:
    """Return the share of pairs of one group with limits much alike that run in their order; 0 where there are few."""
    random = np.random.default_rng(0)
    order = np.lexsort((random.random(len(group)), group))
    first, size = np.unique(group[order], return_index=True, return_counts=True)[1:]
    one = random.integers(len(order), size=PAIRS)
    which = group[order][one]
    other = first[which] + random.integers(size[which])
    one, other = order[one], order[other]
    near = (limit[one] != limit[other]) & (run[one] != run[other]) & (
        np.maximum(limit[one], limit[other]) <= NEAR * np.minimum(limit[one], limit[other]))
    one, other = one[near], other[near]
    if len(np.unique(limit[one])) < FEWEST:
        return 0.0
    return float(((limit[one] < limit[other]) == (run[one] < run[other])).mean())

"""What the gate would have said of made-up years: how often it is wrong, how soon it is right."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from null_sites import better, blocks, pair, site

from idlewatt.daemon.learning.evidence import FEWEST_BLOCKS, FINE_RATES, RATES, USE_RATES, log_evidence
from idlewatt.daemon.learning.pairs import DAY_S
from idlewatt.daemon.learning.promotion_criteria import ASSUMED
from idlewatt.daemon.learning.regret import become_worse

LEAST_DAYS, SEEN_DAYS = 14, 60
"""Of a promotion; and how far back the daemon looks for a demotion."""
NEVER = 999
"""Day on which what never happens does."""


class Looks(NamedTuple):
    """What ``compared`` says at the end of each block of those before it."""

    low: np.ndarray
    high: np.ndarray
    total: np.ndarray
    evidence: np.ndarray
    """That the ratio lies below the bound."""

    @classmethod
    def at(cls, ours, theirs, bound=1.0, rates=RATES):
        """Return it for sums by block; a block in which either is 0 tells nothing."""
        from scipy.special import stdtrit

        told = (ours > 0) & (theirs > 0)
        ours, theirs = np.where(told, ours, 1.0), np.where(told, theirs, 1.0)
        logs, count = np.log(ours / theirs), np.cumsum(told)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.cumsum(logs) / count
            variance = np.maximum(0.0, np.cumsum(logs**2) - count * mean**2) / (count - 1)
            reach = stdtrit(np.maximum(1, count - 1), 0.975) * np.sqrt(variance / count)
            reach[count < FEWEST_BLOCKS] = np.nan
            total = np.cumsum(ours * told) / np.cumsum(theirs * told)
        return cls(np.exp(mean - reach), np.exp(mean + reach), total, log_evidence(logs - np.log(bound) * told, rates))

    def below(self, error, bound=1.0):
        """Tell at each look whether it is surely below the bound."""
        return (self.high < bound) & (self.total < bound) & (self.evidence >= np.log(1.0 / error))


@dataclass(frozen=True)
class Year:
    """What one replayed history of two policies came to."""

    edges: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray

    @classmethod
    def of_null(cls, null, seed, days=365.0, **size):
        """Return a year of two policies of which neither is better."""
        return cls(*blocks(*pair(null, *site(days, seed=seed, **size), seed)))

    @classmethod
    def of_better(cls, weight, seed, days=60.0, **size):
        """Return some days of an agent and of the incumbent, of which it is better."""
        return cls(*blocks(*better(*site(days, seed=seed, **size), weight)))

    def span(self, since_s, until_s):
        """Return the blocks that lie between two moments, their edges counted from the first of these."""
        inside = np.flatnonzero((self.edges[:-1] >= since_s) & (self.edges[1:] <= until_s))
        last = inside[-1] + 2 if len(inside) else 0
        return Year(self.edges[inside[0] if len(inside) else 0:last] - since_s, self.ours[inside], self.theirs[inside])

    def windows(self, days) -> Iterator[tuple[bool, bool]]:
        """Yield for each window of so many days whether there is an interval, and whether it covers 1."""
        for since_s in np.arange(self.edges[0], self.edges[-1] - days * DAY_S + 1, days * DAY_S):
            part = self.span(since_s, since_s + days * DAY_S)
            found = Looks.at(part.ours, part.theirs)
            known = bool(len(found.low)) and bool(np.isfinite(found.low[-1]))
            yield known, known and found.low[-1] <= 1.0 <= found.high[-1]

    def promoted(self, error, since_s=0.0, until_s=np.inf, *, worse=False):
        """Return on which day somebody who looks every night promotes it; None when never."""
        part = self.span(since_s, until_s)
        ours, theirs = (part.theirs, part.ours) if worse else (part.ours, part.theirs)
        day = first_day(part.edges, Looks.at(ours, theirs).below(error))
        return None if day == NEVER else day


def first_day(edges, passed):
    """Return on which day all that is asked is first had, given at the end of each block whether it is."""
    days = edges[1:] / DAY_S
    had = np.flatnonzero(passed & (days >= LEAST_DAYS))
    return float(days[had[0]]) if len(had) else NEVER


def saves(one, error, shares=2, *, by_interval=False):
    """Tell at each look whether its energy earns it, and mean JCT is held to be alike by one of two rules."""
    (jct_ours, jct_theirs), (drawn_ours, drawn_theirs) = one["jct"], one["energy"]
    jct = Looks.at(jct_ours, jct_theirs, ASSUMED.alike)
    alike = jct.high <= ASSUMED.alike if by_interval else jct.below(error, ASSUMED.alike)
    drawn = Looks.at(drawn_ours, drawn_theirs, rates=FINE_RATES)
    return alike & drawn.below(error / shares) & (drawn.high <= ASSUMED.saving)


def fills(one, error):
    """Tell at each look whether its utilisation earns it, as one of two ways, and mean JCT is held to be alike."""
    (jct_ours, jct_theirs), (held_ours, held_theirs) = one["jct"], one["use"]
    less = Looks.at(held_theirs, held_ours, rates=USE_RATES)
    alike = Looks.at(jct_ours, jct_theirs, ASSUMED.alike).below(error, ASSUMED.alike)
    return alike & (less.high < 1.0) & (less.evidence >= np.log(2.0 / error))


def demoted(logs, trial, errors):
    """Return on which day an agent with these daily log ratios is demoted, by the daemon's rule, for each error.

    Of the first ``trial`` days nothing is evidence: it was not active. ``NEVER`` for never.
    """
    regret, told = np.exp(logs) - 1.0, np.full(len(logs), -np.inf)
    for day in range(trial + 1, len(logs) + 1):
        first = max(0, day - SEEN_DAYS)
        told[day - 1] = become_worse(regret[first:day], max(0, trial - first))
    had = [np.flatnonzero(told >= np.log(1.0 / error)) for error in errors]
    return [int(days[0]) + 1 if len(days) else NEVER for days in had]


def upper(count, of, level=0.95):
    """Return the upper limit of a share of which so many were counted (Clopper and Pearson)."""
    from scipy.stats import beta

    return 1.0 if count >= of else float(beta.ppf(level, count + 1, of - count))

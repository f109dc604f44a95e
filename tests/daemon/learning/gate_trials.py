"""What the gate would have said of made-up years: how often it is wrong, how soon it is right."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from null_sites import better, blocks, pair, site

from idlewatt.daemon.learning.evidence import FEWEST_BLOCKS, compared, log_evidence
from idlewatt.daemon.learning.pairs import DAY_S
from idlewatt.daemon.learning.regret import become_worse


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
        """Return the blocks that lie between two moments."""
        inside = np.flatnonzero((self.edges[:-1] >= since_s) & (self.edges[1:] <= until_s))
        return (np.array([]),) * 3 if not len(inside) else (
            self.edges[inside[0]:inside[-1] + 2], self.ours[inside], self.theirs[inside])

    def windows(self, days) -> Iterator[tuple[bool, bool]]:
        """Yield for each window of so many days whether there is an interval, and whether it covers 1."""
        for since_s in np.arange(self.edges[0], self.edges[-1] - days * DAY_S + 1, days * DAY_S):
            _, ours, theirs = self.span(since_s, since_s + days * DAY_S)
            found = compared(ours, theirs)
            yield found.known, found.low <= 1.0 <= found.high

    def promoted(self, error, since_s=0.0, until_s=np.inf, *, worse=False):
        """Return on which day somebody who looks every night promotes it; None when never."""
        edges, ours, theirs = self.span(since_s, until_s)
        if worse:
            ours, theirs = theirs, ours
        if not len(ours):
            return None
        told = log_evidence(np.log(ours / theirs))
        for place in np.flatnonzero(told >= np.log(1.0 / error)):
            if place + 1 >= FEWEST_BLOCKS and compared(ours[:place + 1], theirs[:place + 1]).below(error):
                day = (edges[place + 1] - since_s) / DAY_S
                if day >= 14:
                    return day
        return None


def daily(ours, theirs):
    """Return the regret of each whole day: time that jobs spent in the system over the incumbent's, less one."""
    submit = ours.workload.submit
    edges = np.arange(0.0, submit[-1], DAY_S)
    spent = [np.diff([np.clip(np.minimum(one.end, edge) - submit, 0.0, None).sum() for edge in edges])
             for one in (ours, theirs)]
    return spent[0] / spent[1] - 1.0


def demoted(regret, error):
    """Return on which day an agent with these daily regrets is demoted, by the daemon's rule; 999 for never."""
    for day in range(1, len(regret) + 1):
        if become_worse(regret[:day]) >= np.log(1.0 / error):
            return day
    return 999


def upper(count, of, level=0.95):
    """Return the upper limit of a share of which so many were counted (Clopper and Pearson)."""
    from scipy.stats import beta

    return 1.0 if count >= of else float(beta.ppf(level, count + 1, of - count))

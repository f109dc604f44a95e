"""What pairs of blocks prove: an interval for one look, and evidence that may be looked at every night.

The interval is Student's t on the logarithms of the ratios of blocks. It holds for one look at a fixed time; to look
every night and act on the first lucky one is wrong far more often than it says.

Evidence is for acting. If neither of two policies is better, a block's log ratio is as likely ``x`` as ``-x``, whatever
its spread, and so ``2 / (1 + exp(-2 rate x))`` has a mean of 1: the product over blocks is a bet that cannot be
expected to win. By Ville's inequality it ever exceeds ``1 / error``, at any of any number of looks, with a probability
of ``error`` at most. The bet is spread over several rates, since nobody knows how much better a better one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..replay.outcome import Interval, paired_ratio

Floats = NDArray[np.float64]

RATES = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Bets on completion times, whose log ratio by block is a few hundredths to a few tenths."""
FINE_RATES = tuple(20.0 * rate for rate in RATES)
"""Bets on energy, of which all but thousandths is the jobs' own."""
USE_RATES = tuple(4.0 * rate for rate in RATES)
"""Bets on utilisation, of which hundredths differ."""
FEWEST_BLOCKS = 6
"""The fewest pairs of blocks from which anything is concluded."""
UNKNOWN = float("nan")


def log_evidence(logs: Floats, rates: Sequence[float] = RATES) -> Floats:
    """Return after each block the logarithm of the evidence that ratios lie below 1, given their logarithms."""
    return _mixed(np.cumsum(_won(logs, rates), axis=1))


def log_evidence_since(logs: Floats, rates: Sequence[float] = RATES) -> Floats:
    """Return for each block the logarithm of the evidence from it to the last block, had the betting begun with it."""
    return _mixed(np.cumsum(_won(logs, rates)[:, ::-1], axis=1)[:, ::-1])


def _won(logs: Floats, rates: Sequence[float]) -> Floats:
    """Return the logarithm of what each bet won on each block, [rate, block]."""
    bets = np.array(rates)[:, None] * -logs
    return np.asarray(np.log(2.0) - np.logaddexp(0.0, -2.0 * bets), np.float64)


def _mixed(won: Floats) -> Floats:
    """Return the logarithm of the mean over rates."""
    return np.asarray(np.logaddexp.reduce(won, axis=0) - np.log(len(won)), np.float64)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One policy over another in blocks of the same history; below 1 is less."""

    estimate: float
    """Geometric mean of the blocks' ratios; NaN when there are none."""
    low: float
    high: float
    """Their 95 % interval for one look; NaN while there are too few blocks."""
    blocks: int = 0
    total: float = UNKNOWN
    """The sum of the numerators over that of the denominators: long blocks weigh more."""
    evidence: float = 0.0
    """Logarithm of the evidence that it is below 1,"""
    against: float = 0.0
    """that it is above,"""
    within: float = 0.0
    """and that it is below ``bound``."""
    bound: float = 1.0
    """The most that the ratio may be where it is not required to be better."""

    @property
    def known(self) -> bool:
        """Tell whether there is an interval."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    @property
    def same(self) -> bool:
        """Tell whether nothing differs in any block, so that there is nothing to be unsure of."""
        return self.known and self.low == self.high

    def below(self, error: float) -> bool:
        """Tell whether the ratio is surely below 1, at any of any number of looks, with so small an error."""
        return self.known and self.high < 1.0 and self.total < 1.0 and self.evidence >= np.log(1.0 / error)

    def above(self, error: float) -> bool:
        """Tell whether the ratio is surely above 1, at any of any number of looks, with so small an error."""
        return self.known and self.low > 1.0 and self.against >= np.log(1.0 / error)

    def bounded(self, error: float) -> bool:
        """Tell whether the ratio is surely below its bound, at any of any number of looks, with so small an error."""
        return (self.known and self.high < self.bound and self.total < self.bound
                and self.within >= np.log(1.0 / error))

    @property
    def words(self) -> str:
        """Return what the interval says of a figure of which less is better."""
        if not self.known:
            return "not enough yet"
        if self.same:
            return "the same"
        return "better" if self.high < 1.0 else "worse" if self.low > 1.0 else "not distinguishable"

    @property
    def said(self) -> str:
        """Return the estimate and its interval in words, for people."""
        if np.isnan(self.estimate):
            return "not known"
        if self.same:
            return f"{self.estimate:.3f} in every block"
        reach = f"{self.low:.3f} to {self.high:.3f}" if self.known else f"{self.blocks} blocks: too few for an interval"
        return f"{self.estimate:.3f} ({reach})"


NOTHING = Comparison(UNKNOWN, UNKNOWN, UNKNOWN)


def compared(candidate: Floats, rival: Floats, rates: Sequence[float] = RATES, bound: float = 1.0) -> Comparison:
    """Return the comparison of sums by block, rows matching; blocks in which either is 0 tell nothing."""
    usable = (candidate > 0) & (rival > 0) & np.isfinite(candidate) & np.isfinite(rival)
    candidate, rival = candidate[usable], rival[usable]
    if not len(candidate):
        return NOTHING
    logs = np.log(candidate / rival)
    interval = paired_ratio(candidate, rival) if len(candidate) >= FEWEST_BLOCKS else Interval(
        float(np.exp(logs.mean())), UNKNOWN, UNKNOWN)
    evidence, against, within = (float(log_evidence(log_ratios, rates)[-1])
                                 for log_ratios in (logs, -logs, logs - np.log(bound)))
    total = float(candidate.sum() / rival.sum())
    return Comparison(interval.estimate, interval.low, interval.high, len(candidate), total,
                      evidence, against, within, bound)

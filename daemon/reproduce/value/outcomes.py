"""What comes of a replay, and how two of them compare on the same jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...learning.evidence import FINE_RATES, Comparison, compared
from ...learning.pairs import OUTSIDE, block_of, cuts, sums, tails
from ...learning.promotion_criteria import ASSUMED
from ...replay.arrays import Floats


@dataclass(frozen=True)
class ReplayOutcome:
    """What came of one replay; rows are the jobs of the trace."""

    start: Floats
    end: Floats
    wait: Floats
    slowdown: Floats
    joules: Floats
    """Drawn from the first submission to each of ``marks``, the last of which is after the last end."""
    marks: Floats
    woken: int
    """How often a node had to come up."""


def compare(submit: Floats, ours: ReplayOutcome, theirs: ReplayOutcome, until_s: float | None = None) -> Comparison:
    """Return completion times over another's, in blocks that share no queue and have closed by a moment."""
    block = _blocks(submit, ours, theirs, until_s)
    mine, other = (sums(one.end - submit, block, int(block.max(initial=0)) + 1) for one in (ours, theirs))
    return compared(mine, other)


def compare_tails(submit: Floats, ours: ReplayOutcome, theirs: ReplayOutcome, until_s: float) -> Comparison:
    """Return p99 waits over another's in the same blocks, with the bound that the gate has for them."""
    return tails(ours.wait, theirs.wait, _blocks(submit, ours, theirs, until_s), ASSUMED.tail_floor_s, ASSUMED.tail)


def compare_energy(submit: Floats, ours: ReplayOutcome, theirs: ReplayOutcome) -> Comparison:
    """Return joules over another's in the same blocks; what lies behind the last one is left out."""
    edges = _edges(submit, ours, theirs, None)
    mine, other = (np.diff(np.interp(edges, one.marks, one.joules)) for one in (ours, theirs))
    return compared(mine, other, FINE_RATES)


def _blocks(submit: Floats, ours: ReplayOutcome, theirs: ReplayOutcome, until_s: float | None) -> NDArray[np.int64]:
    block = block_of(submit, _edges(submit, ours, theirs, until_s))
    block[~np.isfinite(ours.end + theirs.end)] = OUTSIDE
    return block


def _edges(submit: Floats, ours: ReplayOutcome, theirs: ReplayOutcome, until_s: float | None) -> Floats:
    until = float(submit[-1]) if until_s is None else until_s
    return cuts(submit, np.maximum(ours.start, theirs.start), float(submit[0]), until)

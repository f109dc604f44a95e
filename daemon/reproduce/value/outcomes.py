"""Outcomes of replays, and comparisons of two outcomes on the same jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...learning.evidence import FINE_RATES, Comparison, compared
from ...learning.pairs import OUTSIDE, block_of, cuts, sums
from ...replay.arrays import Floats


@dataclass(frozen=True)
class ReplayOutcome:
    """Outcome of one replay; rows are the jobs of the trace."""

    start: Floats
    end: Floats
    wait: Floats
    slowdown: Floats
    joules: Floats
    """Energy from the first submission to each of ``marks``, J; the last mark is after the last end."""
    marks: Floats
    woken: int
    """Number of times that a node was powered up."""


def compare(submit: Floats, ours: ReplayOutcome, reference: ReplayOutcome) -> Comparison:
    """Return the ratio of completion times to another outcome's, with an interval over blocks that share no queue."""
    block = block_of(submit, _edges(submit, ours, reference))
    block[~np.isfinite(ours.end + reference.end)] = OUTSIDE
    mine, other = (sums(outcome.end - submit, block, int(block.max(initial=0)) + 1) for outcome in (ours, reference))
    return compared(mine, other)


def compare_energy(submit: Floats, ours: ReplayOutcome, reference: ReplayOutcome) -> Comparison:
    """Return the ratio of energy to another outcome's in the same blocks; energy after the last block is omitted."""
    edges = _edges(submit, ours, reference)
    mine, other = (np.diff(np.interp(edges, outcome.marks, outcome.joules)) for outcome in (ours, reference))
    return compared(mine, other, FINE_RATES)


def _edges(submit: Floats, ours: ReplayOutcome, reference: ReplayOutcome) -> Floats:
    return cuts(submit, np.maximum(ours.start, reference.start), float(submit[0]), float(submit[-1]))

"""Two policies side by side on the same held-out jobs, in blocks of history that share no queue.

What happens in one block is not the consequence of what happened in another. A day is no such block, for queues run
over midnight. A block ends at the first moment, a day or more after it began, at which nobody waits under any of the
policies that are compared: what they did before is then past, but for what still runs. Where the queue hardly ever
empties a block ends after a week, which weakens it; six blocks are then six weeks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .evidence import FINE_RATES, USE_RATES, Comparison, compared, jackknifed
from .exam import Exam, HeldOutRun

Floats = NDArray[np.float64]

DAY_S = 86400.0
LEAST_S = DAY_S
"""Days have their own rhythm: a shorter block would be a morning or a night."""
MOST_S = 7 * DAY_S
OUTSIDE = -1
"""Block of a job that was submitted after the last block closed, or before the first began."""


def cuts(submit: Floats, clear: Floats, since_s: float, until_s: float) -> Floats:
    """Return the edges of the blocks that have closed, ``since_s`` first; just that when none has.

    Jobs in order of submission; ``clear`` is when each has started under all policies, NaN for never.
    """
    waits_until = np.maximum.accumulate(np.where(np.isnan(clear), np.inf, clear))
    free = submit[1:][submit[1:] >= waits_until[:-1]]
    free = free[free <= until_s]
    edges = [since_s]
    while True:
        place = int(np.searchsorted(free, edges[-1] + LEAST_S))
        latest = edges[-1] + MOST_S
        edge = min(float(free[place]), latest) if place < len(free) else latest
        if edge > until_s:
            return np.array(edges)
        edges.append(edge)


def block_of(submit: Floats, edges: Floats) -> NDArray[np.int64]:
    """Return the number of the block in which each job was submitted; ``OUTSIDE`` of all."""
    number = np.searchsorted(edges, submit, side="right") - 1
    return np.where((number >= 0) & (number < len(edges) - 1), number, OUTSIDE).astype(np.int64)


def sums(values: Floats, number: NDArray[np.int64], blocks: int) -> Floats:
    """Return the sum of values by block."""
    inside = number != OUTSIDE
    return np.asarray(np.bincount(number[inside], weights=values[inside], minlength=blocks), np.float64)


Members = NDArray[np.bool_]


@dataclass(frozen=True)
class Pair:
    """Our trial beside another one, and the blocks in which they are compared."""

    ours: HeldOutRun
    theirs: HeldOutRun
    edges: tuple[Floats, ...]
    """By stretch."""
    block: NDArray[np.int64]
    """Of each job, over all stretches; ``OUTSIDE`` of all."""
    blocks: int

    @classmethod
    def of(cls, ours: HeldOutRun, theirs: HeldOutRun, exam: Exam) -> Pair:
        """Return the pair; jobs that did not end under both are left out."""
        edges, numbers, before = list[Floats](), [np.zeros(0, np.int64)], 0
        ended = np.isfinite(ours.jct) & np.isfinite(theirs.jct)
        for stretch, mine, other in zip(exam.stretches, ours.courses, theirs.courses, strict=True):
            submit, number = stretch.workload.submit, len(edges)
            edges.append(cuts(submit, np.maximum(mine.start, other.start), stretch.since_s,
                              float(submit.max(initial=stretch.since_s))))
            which = ours.stretch == number
            found = block_of(ours.submit[which], edges[-1])
            numbers.append(np.where((found != OUTSIDE) & ended[which], found + before, OUTSIDE))
            before += len(edges[-1]) - 1
        return cls(ours, theirs, tuple(edges), np.concatenate(numbers), before)

    def jct(self, members: Members | None = None) -> Comparison:
        """Return mean completion time over theirs, of all jobs or of some."""
        block = self.block if members is None else np.where(members, self.block, OUTSIDE)
        ours, theirs = (sums(trial.jct, block, self.blocks) for trial in (self.ours, self.theirs))
        return compared(ours, theirs)

    def energy(self, *, down: bool) -> Comparison:
        """Return energy at the wall over theirs, with empty nodes powered ``down`` or on."""
        ours, theirs = (np.concatenate([np.zeros(0), *(course.drawn(edges, down=down) for course, edges in zip(
            trial.courses, self.edges, strict=True))]) for trial in (self.ours, self.theirs))
        return compared(ours, theirs, FINE_RATES)

    def utilization(self) -> Comparison:
        """Return what jobs held of their partitions over theirs, Eq. (5); above 1 is better."""
        ours, theirs = (np.concatenate([np.zeros(0), *(course.filled(edges) for course, edges in zip(
            trial.courses, self.edges, strict=True))]) for trial in (self.ours, self.theirs))
        return compared(ours, theirs, USE_RATES)

    def tail(self, floor_s: float) -> Comparison:
        """Return p99 wait over theirs, neither taken to be less than ``floor_s``."""
        inside = self.block != OUTSIDE
        block, waits = self.block[inside], (self.ours.wait[inside], self.theirs.wait[inside])
        if not inside.any():
            return jackknifed(np.zeros(0), float("nan"))
        numbers = np.unique(block)
        without = [_over(waits[0][block != number], waits[1][block != number], floor_s) for number in numbers]
        return jackknifed(np.array(without), _over(*waits, floor_s))


def _over(ours: Floats, theirs: Floats, floor_s: float) -> float:
    return max(floor_s, p99(ours)) / max(floor_s, p99(theirs))


def mean(values: Floats) -> float:
    """Return the mean; NaN of nothing."""
    return float(values.mean()) if len(values) else float("nan")


def p99(values: Floats) -> float:
    """Return the 99th percentile; NaN of nothing."""
    return float(np.quantile(values, 0.99)) if len(values) else float("nan")

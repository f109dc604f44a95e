"""Two policies side by side on the same held-out jobs, in blocks that share no queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .blocks import OUTSIDE, block_of, cuts, sums
from .evidence import FINE_RATES, USE_RATES, Comparison, compared, jackknifed
from .exam import Exam, HeldOutRun

Floats = NDArray[np.float64]
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

"""Blocks of history that share no queue: what happens in one is not the consequence of what happened in another.

A day is no such block, for queues run over midnight. A block ends at the first moment, a day or more after it began, at
which nobody waits under any of the policies that are compared: what they did before is then past, but for what still
runs. Where the queue hardly ever empties a block ends after a week, which weakens it; six blocks are then six weeks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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

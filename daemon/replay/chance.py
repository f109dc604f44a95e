"""One of the futures that may come: every run time drawn from what is known of it, nothing else changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import arrays as a
from .state import ClusterState

Floats = NDArray[np.float64]

ODDS = float(np.log(0.9 / 0.1))
"""Of the quantiles that the columns ``prediction_low`` and ``prediction_high`` stand for, 0.1 and 0.9."""
SHORTEST_S = 1.0
LONGEST, MOST_ODDS, STEEP = 30.0, 9.0, 1e-3
"""Bounds within which exponentials stay finite: the logarithm of a run time, of odds, and the narrowest scale."""


def foreseen(state: ClusterState) -> NDArray[np.bool_]:
    """Return of which jobs more is known than their limit."""
    return np.isfinite(state.workload.prediction)


def drawn(state: ClusterState, chance: np.random.Generator) -> ClusterState:
    """Return a copy in which jobs run as long as was drawn for them; a job of which nothing is known for its limit.

    Run times are log-logistic through their three quantiles: tails as long as those of real jobs, and what is left of
    a job that has lasted so long follows at once. Limits stay as they are: policies go by them, and by predictions, not
    by what was drawn.
    """
    work, share, ahead = state.workload, chance.random(len(state.workload)), state.copy()
    known = foreseen(state)
    quantiles = np.maximum(SHORTEST_S, np.stack([work.prediction_low, work.prediction, work.prediction_high])[:, known])
    limit = np.maximum(SHORTEST_S, work.limit[known])
    jobs, now = ahead.arrays.jobs, state.now
    running = np.zeros(len(work), bool)
    running[state.running] = True
    lasted = np.where(running, now - np.nan_to_num(jobs.start, nan=now), 0.0)[known]
    # What has lasted so long lies beyond that quantile of its distribution.
    beyond = np.where(running[known], _share_below(np.maximum(SHORTEST_S, lasted), quantiles), 0.0)
    share = np.clip(beyond + (1 - beyond) * share[known], 1e-9, 1 - 1e-9)
    took = np.minimum(limit, _seconds(share, quantiles))
    _let_run(ahead, np.flatnonzero(known), np.maximum(SHORTEST_S, took - lasted), running[known])
    return ahead


def _let_run(ahead: ClusterState, rows: NDArray[np.intp], left_s: Floats, running: NDArray[np.bool_]) -> None:
    """Give jobs so much to do from now on."""
    arrays = ahead.arrays
    jobs, count = arrays.jobs, arrays.counts[a.RUNNING_JOBS]
    jobs.remaining[rows] = left_s
    waiting = rows[~running]
    jobs.run[waiting] = left_s[~running]
    busy = rows[running]
    jobs.end[busy] = ahead.now + left_s[running] / jobs.rate[busy]
    # Sorted is a heap.
    heap = arrays.heap[:count]
    heap[:] = heap[np.lexsort((heap, jobs.end[heap]))]
    jobs.place[heap] = np.arange(count)


def _seconds(share: Floats, quantiles: Floats) -> Floats:
    """Return the run time at a share 0..1 of each job's distribution; ``quantiles`` [low..high, job]."""
    odds = np.log(share / (1 - share))
    middle, below, above = _scales(quantiles)
    return np.asarray(np.exp(np.minimum(LONGEST, middle + odds * np.where(odds < 0, below, above))))


def _share_below(seconds: Floats, quantiles: Floats) -> Floats:
    """Return the share of each job's distribution that lies below; always less than 1, so that something is left."""
    middle, below, above = _scales(quantiles)
    further = np.log(seconds) - middle
    slope = np.maximum(STEEP, np.where(further < 0, below, above))
    return np.asarray(1 / (1 + np.exp(-np.clip(further / slope, -MOST_ODDS, MOST_ODDS))))


def _scales(quantiles: Floats) -> tuple[Floats, Floats, Floats]:
    low, middle, high = np.log(quantiles)
    return middle, (middle - low) / ODDS, (high - middle) / ODDS

"""One possible future: every run time drawn from what is known of it, nothing else changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import arrays as a
from .live import ENDLESS_S, endless
from .state import ClusterState
from .workload import UNLIMITED_S, Workload

Floats = NDArray[np.float64]

ODDS = float(np.log(0.75 / 0.25))
"""The log-odds of the quartiles, which the columns ``prediction_low`` and ``prediction_high`` stand for."""
ALIKE = 0.85
"""Share of a user's jobs in one future that are equally far from what was predicted: like jobs share an error.
Drawn each for itself, 65 % of starts came within nine in ten futures (``tests/benchmarks/start_coverage.py``)."""
SHORTEST_S = 1.0
LONGEST, MOST_ODDS, STEEP = 30.0, 9.0, 1e-3
"""Bounds within which exponentials stay finite: the logarithm of a run time, of odds, and the narrowest scale."""


def drawn(state: ClusterState, rng: np.random.Generator) -> ClusterState:
    """Return a copy in which every job runs as long as was drawn for it, and at most for its limit.

    Run times are log-logistic through their three quantiles: tails as long as those of real jobs, and what is left of
    a job that has lasted so long follows at once. Of a job with no prediction any use of the limit is as likely as any
    other (nearly so in real logs: Mu'alem and Feitelson, TPDS 2001). A service without a limit never ends. Limits stay
    as they are: policies go by them, and by predictions, not by what was drawn.
    """
    work, ahead, running = state.workload, state.copy(), np.zeros(len(state.workload), bool)
    running[state.running] = True
    start = ahead.arrays.jobs.start
    lasted = np.where(running, state.now - np.nan_to_num(start, nan=state.now), 0.0)
    limit = np.maximum(SHORTEST_S, np.minimum(work.limit, np.maximum(UNLIMITED_S, lasted)))
    share = np.clip(_shares(work, rng), 1e-9, 1 - 1e-9)
    took = np.maximum(lasted, lasted + share * (limit - lasted))
    known = np.isfinite(work.prediction)
    quantiles = np.maximum(SHORTEST_S, np.stack([work.prediction_low, work.prediction, work.prediction_high])[:, known])
    took[known] = np.minimum(limit[known], _lasting(lasted[known], share[known], quantiles))
    if state.records:
        took[endless(state.records)] = ENDLESS_S
    _let_run(ahead, np.maximum(SHORTEST_S, took - lasted), running)
    return ahead


def _shares(work: Workload, rng: np.random.Generator) -> Floats:
    """Return for each job a share 0..1 of its distribution; most of a user's jobs with a prediction have the same."""
    common, individual = rng.random(len(work.user_names) + 1)[work.user], rng.random(len(work))
    alike = (work.user >= 0) & np.isfinite(work.prediction) & (rng.random(len(work)) < ALIKE)
    return np.where(alike, common, individual)


def _lasting(lasted: Floats, share: Floats, quantiles: Floats) -> Floats:
    """Return how long jobs run in all that have lasted so long, at a share 0..1 of what is left of the distribution."""
    beyond = np.where(lasted > 0, _share_below(np.maximum(SHORTEST_S, lasted), quantiles), 0.0)
    return _seconds(np.minimum(beyond + (1 - beyond) * share, 1 - 1e-9), quantiles)


def _let_run(ahead: ClusterState, left_s: Floats, running: NDArray[np.bool_]) -> None:
    """Give jobs so much to do from now on."""
    arrays = ahead.arrays
    jobs, count = arrays.jobs, arrays.counts[a.RUNNING_JOBS]
    jobs.remaining[:] = left_s
    jobs.run[~running] = left_s[~running]
    jobs.end[running] = ahead.now + left_s[running] / jobs.rate[running]
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

"""What the scorer is told of a job before it starts: numbers of about -1..1 that mean the same on any site."""

from __future__ import annotations

import numpy as np

from ...replay.arrays import Floats
from ...replay.state import ClusterState
from ...replay.workload import UNLIMITED_S
from .network import HOUR_S, INPUTS

USE = -0.8
"""Logarithm of the share of its limit that a job usually runs for."""
UNKNOWN_SPREAD = 2.5
"""Of the logarithm, between quartiles: where nothing is known, half of all jobs lie within 12 times."""


def inputs_of(state: ClusterState) -> Floats:
    """Return the inputs of the order head, [job, input], for all jobs of a state."""
    work, jobs = state.workload, state.arrays.jobs
    limit = np.log(np.clip(work.limit, 1.0, UNLIMITED_S) / HOUR_S)
    runs, run_spread = _quantiles(work.prediction, work.prediction_low, work.prediction_high)
    uses, use_spread = _quantiles(work.use, work.use_low, work.use_high)
    by_limit = np.where(np.isnan(uses) | ~np.isfinite(work.limit), np.nan, limit + uses)
    unforeseen = np.isnan(runs) & np.isnan(by_limit)
    runs = np.where(np.isnan(runs), np.where(np.isnan(by_limit), limit, by_limit), runs - np.log(HOUR_S))
    by_limit = np.where(np.isnan(by_limit), runs, by_limit)
    gpus = np.maximum(jobs.gpus, 1)
    total = max(1, int(state.arrays.nodes.gpus.sum()))
    usual = np.where(np.isnan(work.usual), np.where(np.isfinite(work.limit), 0.5, 1.0), work.usual)
    # Who always asks for the same has told nothing; who does not, more than a few runs of the like do.
    told = limit + 0.5 * (USE + np.where(np.isnan(uses), USE, uses))
    guess = usual * runs + (1.0 - usual) * told
    columns = (runs / 3, run_spread / 3, by_limit / 3, use_spread / 3, guess / 3,
               limit / 3, np.log2(gpus) / 3, np.minimum(1.0, gpus / total), (jobs.chunks + (jobs.rest > 0)) > 1,
               usual, unforeseen)
    return np.ascontiguousarray(np.stack(columns, axis=1, dtype=np.float64))


def seconds(inputs: Floats) -> Floats:
    """Return the best guess of each job's run time."""
    return np.asarray(np.exp(3 * inputs[:, INPUTS.index("best guess")]) * HOUR_S)


def _quantiles(middle: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of the median and the spread, whatever is unknown."""
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.log(np.maximum(middle, 1e-4))
        spread = np.log(np.maximum(high, 1e-4) / np.maximum(low, 1e-4))
    return centre, np.where(np.isfinite(spread), np.clip(spread, 0.0, 2 * UNKNOWN_SPREAD), UNKNOWN_SPREAD)

"""Quantile forecasts: a mix of several ways, weighted by recent success and corrected to hold as often as stated.

Each quantile is a mean of several ways' forecasts, a way weighing the less the more it has lost (exponential weights on
the quantile loss: Cesa-Bianchi and Lugosi 2006; a mixture for each quantile: Berrisch and Ziel, J. Econometrics 2023).
An offset is added that rises whenever a job outlasts its quantile and sinks whenever one does not, by so much that in
the long run as many do as should, whatever the jobs (adaptive conformal inference, Gibbs and Candes, NeurIPS 2021).
A job that still runs counts as an outcome as soon as it has run longer than was forecast: its end is not awaited.
Forecasts that were made without knowing each other's outcome share one error, so that each of many counts for less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .compiled import compiled_with_arrays

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Chosen by looking at ten histories of Philly beside the eight of docs/figures.md, whose bursts make them the hardest.
STEP = 0.15
"""An outcome moves a quantile by so much of the usual error; half of it for all jobs, half for those of its kind."""
SHARPNESS = 20.0
"""How fast a way of forecasting loses weight with its loss beside the mean of all."""
LOSS_DECAY, ERROR_DECAY = 0.999, 0.995
"""What the loss and the error of an earlier job still count beside one of the next."""
ROOM = float(np.log(2.0))
"""No quantile is further than this from all that was ever seen: twice the longest run, half the shortest."""
KINDS = 2
"""Kinds of jobs that have weights and offsets of their own."""


class Mixture(NamedTuple):
    """Forecasts, their outcomes, and what was learnt from these. All values are logarithms."""

    ways: Floats
    """[job, way, quantile] forecasts."""
    forecast: Floats
    """[job, quantile] the forecasts that were given."""
    middle: Floats
    """[job] the estimate that is the median."""
    kind: Codes
    """[job]"""
    awaited: Codes
    """[job] of how many forecasts the outcome was not known when its own was made."""
    waiting: Codes
    """One number: of how many it is not known now."""
    due_s: Floats
    """[job] when something may be known next: at its end, or when it has run longer than was forecast."""
    offset_updated: Flags
    """[job, quantile] whether the offset has learnt from it."""
    weights_updated: Flags
    """[job, quantile] whether the weights have learnt from it."""
    open_jobs: Codes
    """Jobs from which something is left to learn, in the order of their submissions."""
    open_count: Codes
    """One number."""
    loss: Floats
    """[kind, way, quantile] of late."""
    offset: Floats
    """[kind, quantile], and at last those of all kinds."""
    error: Floats
    """Sum of how far the medians were off of late, and of how many jobs."""
    seen: Floats
    """The least and the largest value."""

    @classmethod
    def of(cls, jobs: int, ways: int, quantiles: int) -> Mixture:
        """Return what is known before any submission."""
        return cls(np.full((jobs, ways, quantiles), np.nan), np.full((jobs, quantiles), np.nan), np.full(jobs, np.nan),
                   np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), np.zeros(1, np.int64), np.zeros(jobs),
                   np.zeros((jobs, quantiles), np.bool_), np.zeros((jobs, quantiles), np.bool_),
                   np.zeros(jobs, np.int64), np.zeros(1, np.int64), np.zeros((KINDS, ways, quantiles)),
                   np.zeros((KINDS + 1, quantiles)), np.array([0.0, 0.0]), np.array([np.inf, -np.inf]))


@compiled_with_arrays
def mix(job: int, quantiles: Floats, mixture: Mixture) -> None:
    """Fill in a job's forecasts from those of each way."""
    kind, weights = mixture.kind[job], np.empty(mixture.ways.shape[1])
    for place in range(len(quantiles)):
        loss = mixture.loss[kind, :, place]
        usual = max(loss.mean(), 1e-9)
        total = forecast = 0.0
        for way in range(len(weights)):
            weights[way] = np.exp(-SHARPNESS * (loss[way] - loss.min()) / usual)
            total += weights[way]
            forecast += weights[way] * mixture.ways[job, way, place]
        forecast = forecast / total + mixture.offset[kind, place] + mixture.offset[KINDS, place]
        mixture.forecast[job, place] = min(max(forecast, mixture.seen[0] - ROOM), mixture.seen[1] + ROOM)


@compiled_with_arrays
def await_outcome(job: int, started_s: Floats, ended_s: Floats, unit_s: Floats, mixture: Mixture) -> None:
    """Remember a forecast, unless nothing will ever be known of it."""
    if np.isnan(started_s[job]) and not np.isfinite(ended_s[job]):
        return
    mixture.awaited[job] = mixture.waiting[0]
    mixture.waiting[0] += 1
    mixture.due_s[job] = _due(job, started_s[job], ended_s[job], unit_s[job], mixture)
    mixture.open_jobs[mixture.open_count[0]] = job
    mixture.open_count[0] += 1


@compiled_with_arrays
def _due(job: int, started_s: float, ended_s: float, unit_s: float, mixture: Mixture) -> float:
    """Return when the next outcome of a job will be known; infinite when all are."""
    due, left = np.inf, False
    for place in range(mixture.forecast.shape[1]):
        if not mixture.offset_updated[job, place]:
            due, left = min(due, started_s + np.exp(mixture.forecast[job, place]) * unit_s), True
        if not mixture.weights_updated[job, place]:
            due, left = min(due, started_s + np.exp(mixture.ways[job, :, place].max()) * unit_s), True
    if not left:
        return np.inf
    return ended_s if np.isnan(due) or ended_s < due else due


@compiled_with_arrays
def learn_outcomes(now: float, started_s: Floats, ended_s: Floats, value: Floats, unit_s: Floats, quantiles: Floats,
                   mixture: Mixture) -> None:
    """Learn from all jobs of which something has become known by now."""
    kept = 0
    for place in range(mixture.open_count[0]):
        job = mixture.open_jobs[place]
        if mixture.due_s[job] <= now:
            ended = ended_s[job] <= now
            lasted = value[job] if ended else np.log(max(now - started_s[job], 1.0) / unit_s[job])
            if not np.isnan(lasted):
                _learn_outcome(job, lasted, ended, quantiles, mixture)
            elif ended:
                mixture.waiting[0] -= 1
            mixture.due_s[job] = np.inf if ended else _due(job, started_s[job], ended_s[job], unit_s[job], mixture)
        if mixture.due_s[job] < np.inf:
            mixture.open_jobs[kept] = job
            kept += 1
    mixture.open_count[0] = kept


@compiled_with_arrays
def _learn_outcome(job: int, lasted: float, ended: bool, quantiles: Floats, mixture: Mixture) -> None:
    """Learn from a job that has lasted so long, and from each of its quantiles once."""
    last, kind = len(quantiles) - 1, mixture.kind[job]
    mixture.seen[1] = max(mixture.seen[1], lasted)
    if not mixture.offset_updated[job, last] and (ended or lasted > mixture.forecast[job, last]):
        mixture.waiting[0] -= 1
        mixture.error[0] = ERROR_DECAY * mixture.error[0] + abs(lasted - mixture.middle[job])
        mixture.error[1] = ERROR_DECAY * mixture.error[1] + 1.0
    usual = mixture.error[0] / mixture.error[1] if mixture.error[1] > 0 else 1.0
    for place in range(len(quantiles)):
        outlasted = lasted > mixture.forecast[job, place]
        if not mixture.offset_updated[job, place] and (ended or outlasted):
            missed = (1.0 if outlasted else 0.0) - (1.0 - quantiles[place])
            step = 0.5 * STEP * usual * missed / (1.0 + STEP * mixture.awaited[job])
            mixture.offset[kind, place] += step
            mixture.offset[KINDS, place] += step
            mixture.offset_updated[job, place] = True
        if not mixture.weights_updated[job, place] and (ended or lasted > mixture.ways[job, :, place].max()):
            for way in range(mixture.ways.shape[1]):
                off = lasted - mixture.ways[job, way, place]
                mixture.loss[kind, way, place] = LOSS_DECAY * mixture.loss[kind, way, place] + max(
                    quantiles[place] * off, (quantiles[place] - 1.0) * off)
            mixture.weights_updated[job, place] = True

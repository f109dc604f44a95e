"""When waiting jobs start, and what following a policy is expected to change in their waits, over possible futures.

What a policy changes against another is forecast in the same futures (run times drawn from those of similar jobs), so
that the change is paired. A start is an interval over futures by the policy whose advice goes out, renewed every few
minutes. The first interval of each job is counted as kept or missed: it is the boldest. No new job arrives in a future,
so that a job that comes later and goes first makes starts later than forecast; the count shows how much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Job, JobState
from ..replay.engine import Policy, followed
from ..replay.monte_carlo import drawn
from ..replay.state import ClusterState
from .feasible_starts import feasible_starts

Floats = NDArray[np.float64]

HORIZON_S = 30 * 86400.0
"""A job that has not started by then is taken to have waited so long."""
LEVEL = 0.95
WORK = 20_000
"""Waiting jobs x futures x policies that one round may forecast: a second or so of a core."""
LEAST = 4
"""Fewer futures give no interval."""
MIN_SPREAD_S = 60.0
"""Narrower intervals are left out: their ends read the same."""


@dataclass(frozen=True, slots=True)
class WaitChange:
    """Expected change in a job's wait from now on, in seconds; negative is sooner."""

    mean_s: float
    interval_s: tuple[float, float] | None
    """The interval of ``LEVEL`` over the futures; None where there are too few of them, or all say the same."""


def futures(state: ClusterState, most: int) -> int:
    """Return how many futures can be afforded; one where there is no time for enough."""
    affordable = min(most, WORK // (2 * max(1, len(state.waiting))))
    return affordable if affordable >= LEAST else min(most, 1)


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """What following a policy instead of another is expected to change for the jobs that wait now."""

    waits: Mapping[int, WaitChange] = field(default_factory=dict)
    """By row of the state."""
    completion_ratio: float = 1.0
    """Mean time from now until these jobs end, over that under the other policy: more than 1 is later."""


def compared(state: ClusterState, policy: Policy, other: Policy, draws: int, seed: int = 0) -> PolicyComparison:
    """Return what ``policy`` is expected to change against ``other``, in ``draws`` futures; nothing without any.

    Jobs that end under neither policy within ``HORIZON_S``, such as services, do not count in the ratio.
    """
    waiting = state.waiting
    if not draws or not len(waiting):
        return PolicyComparison()
    if policy.name == other.name:  # they are the same in every future
        return PolicyComparison({int(job): WaitChange(0.0, None) for job in waiting})
    rng = np.random.default_rng(seed)
    followed_s = np.array([_followed(drawn(state, rng), (policy, other), waiting) for _ in range(draws)])
    starts, ends = followed_s.transpose(2, 1, 0, 3)  # each [policy, future, job]
    differences = starts[0] - starts[1]
    low, high = np.quantile(differences, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    waits = {int(job): WaitChange(float(mean), _interval(float(least), float(most), draws))
             for job, mean, least, most in zip(waiting, differences.mean(axis=0), low, high, strict=True)}
    counted = (ends < HORIZON_S).any(axis=0)
    sums = ends[:, counted].sum(axis=1)
    return PolicyComparison(waits, float(sums[0] / sums[1]) if counted.any() else 1.0)


def _interval(low: float, high: float, draws: int) -> tuple[float, float] | None:
    """Return the interval; None where futures are few, or all alike."""
    return (low, high) if draws >= LEAST and high - low >= MIN_SPREAD_S else None


def _followed(future: ClusterState, policies: Sequence[Policy], waiting: NDArray[np.intp]) -> Floats:
    """Return [policy, start or end, job] seconds from now, at most ``HORIZON_S``."""
    ahead = [followed(future, policy, HORIZON_S).arrays.jobs[waiting] for policy in policies]
    seconds = np.array([(jobs.start, jobs.end) for jobs in ahead]) - future.now
    return np.asarray(np.minimum(np.nan_to_num(seconds, nan=HORIZON_S), HORIZON_S))


FORECAST_LEVEL = 0.9
"""Share of the futures in which a job starts within its interval."""
EVERY_S = 300.0
"""Forecasts are renewed after so long, or when a new job waits, but then"""
LEAST_S = 60.0
"""no sooner than this: each takes as long as a round of advice."""
NEAR_S = 60.0
"""The distance from an interval's end at which a start counts as within: schedulers do not look more often."""
MOST_OPEN = 20_000
"""The most forecasts that wait for their jobs to start; beyond that the oldest are forgotten."""
WITHIN, EARLIER, LATER = "within", "earlier", "later"

Key = tuple[str, float]


@dataclass(frozen=True, slots=True)
class StartForecast:
    """When a waiting job starts, seconds since the epoch."""

    low_s: float
    high_s: float | None
    """None for later than 30 days."""

    @property
    def spread(self) -> bool:
        """Tell whether the futures differ: without predictions of run times they all are the same."""
        return self.high_s is None or self.high_s - self.low_s > NEAR_S

    def came(self, start_s: float) -> str:
        """Return whether a start came within the interval, or how it missed it."""
        if start_s < self.low_s - NEAR_S:
            return EARLIER
        return WITHIN if self.high_s is None or start_s <= self.high_s + NEAR_S else LATER


class StartForecasts:
    """Makes forecasts, keeps the first of each job until it starts, and counts their outcomes."""

    def __init__(self) -> None:
        """Begin without forecasts."""
        self._first: dict[Key, tuple[str, StartForecast]] = {}
        self._latest: dict[Key, StartForecast] = {}
        self._made_s, self._policy = float("-inf"), ""
        self._counts: Counter[tuple[str, str]] = Counter()

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """Return how many starts came within their interval, earlier and later, by policy and these words."""
        return dict(self._counts)

    def renewed(self, state: ClusterState, policy: Policy, draws: int) -> Mapping[Key, StartForecast]:
        """Return the forecasts of the jobs that wait now, and count those of jobs that have started."""
        self._count(state.records)
        waiting = {state.records[row].key for row in state.waiting.tolist()}
        age_s = state.now - self._made_s
        new = age_s >= LEAST_S and waiting - self._latest.keys()
        if new or not 0 <= age_s < EVERY_S or policy.name != self._policy:
            self._latest, self._made_s, self._policy = start_forecasts(state, policy, draws), state.now, policy.name
            for key, forecast in self._latest.items():
                self._first.setdefault(key, (policy.name, forecast))
            for key in list(self._first)[:max(0, len(self._first) - MOST_OPEN)]:
                del self._first[key]
        return {key: forecast for key, forecast in self._latest.items() if key in waiting}

    def _count(self, jobs: Sequence[Job]) -> None:
        """Count the jobs that have started since the last look; one that left without a start is forgotten by age."""
        for job in jobs:
            if job.state is not JobState.PENDING and job.start_s is not None and job.key in self._first:
                policy, forecast = self._first.pop(job.key)
                self._counts[policy, forecast.came(job.start_s)] += 1


def start_forecasts(state: ClusterState, policy: Policy, draws: int, seed: int = 0) -> dict[Key, StartForecast]:
    """Return when each waiting job starts in ``FORECAST_LEVEL`` of the futures; nothing where these are too few."""
    number = futures(state, draws)
    if not len(state.waiting) or number < LEAST:
        return {}
    state = feasible_starts(state, policy).state
    waiting = state.waiting
    rng = np.random.default_rng(seed)
    starts = np.array([followed(drawn(state, rng), policy, HORIZON_S).arrays.jobs.start[waiting]
                       for _ in range(number)])
    ends = (1 - FORECAST_LEVEL) / 2, (1 + FORECAST_LEVEL) / 2
    low, high = np.quantile(np.nan_to_num(starts, nan=np.inf), ends, axis=0, method="inverted_cdf")
    forecasts: dict[Key, StartForecast] = {}
    for row, least, most in zip(waiting.tolist(), low.tolist(), high.tolist(), strict=True):
        if np.isfinite(least):  # else in hardly any future it starts at all
            forecasts.setdefault(state.records[row].key, StartForecast(least, most if np.isfinite(most) else None))
    return forecasts

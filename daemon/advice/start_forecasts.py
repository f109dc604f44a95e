"""When waiting jobs start, as intervals over futures, and how often they really started within: told and counted.

A forecast is made of each waiting job by the policy whose advice goes out, anew every few minutes.
What is counted is the first one of each job that had an interval: it is the boldest. Nobody new arrives in a future,
so that who comes later and goes first makes starts later than they were foretold; that is what the count is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...storage.records import Job, JobState
from ..replay.engine import Policy, followed
from ..replay.monte_carlo import drawn
from ..replay.state import ClusterState
from .feasible_starts import feasible_starts
from .wait_estimate import HORIZON_S, LEAST, futures

LEVEL = 0.9
"""Share of the futures in which a job starts within its interval."""
EVERY_S = 300.0
"""Forecasts are made anew after so long, or when a new job waits, but then"""
LEAST_S = 60.0
"""no sooner than this: each takes as long as a round of advice."""
NEAR_S = 60.0
"""Within so much of an interval's end a start counts as within: schedulers do not look more often."""
MOST_OPEN = 20_000
"""So many forecasts wait for their jobs to start; beyond that the oldest are forgotten."""
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
        """Tell whether the futures differ: where nothing tells run times apart they all are the same."""
        return self.high_s is None or self.high_s - self.low_s > NEAR_S

    def came(self, start_s: float) -> str:
        """Return whether a start came within the interval, or how it missed it."""
        if start_s < self.low_s - NEAR_S:
            return EARLIER
        return WITHIN if self.high_s is None or start_s <= self.high_s + NEAR_S else LATER


class StartForecasts:
    """Makes forecasts, keeps the first of each job until it starts, and counts how they came."""

    def __init__(self) -> None:
        """Begin with nothing foretold."""
        self._first: dict[Key, tuple[str, StartForecast]] = {}
        self._latest: dict[Key, StartForecast] = {}
        self._made_s, self._policy = float("-inf"), ""
        self._counts: Counter[tuple[str, str]] = Counter()

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """Return how many starts came within their interval, earlier and later, by policy and these words."""
        return dict(self._counts)

    def told(self, state: ClusterState, policy: Policy, draws: int) -> Mapping[Key, StartForecast]:
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
        """Count the jobs that have started since the last look; who left without a start is forgotten by age."""
        for job in jobs:
            if job.state is not JobState.PENDING and job.start_s is not None and job.key in self._first:
                policy, forecast = self._first.pop(job.key)
                self._counts[policy, forecast.came(job.start_s)] += 1


def start_forecasts(state: ClusterState, policy: Policy, draws: int, seed: int = 0) -> dict[Key, StartForecast]:
    """Return when each waiting job starts in ``LEVEL`` of the futures; nothing where too few can be afforded."""
    number = futures(state, draws)
    if not len(state.waiting) or number < LEAST:
        return {}
    state = feasible_starts(state, policy).state
    waiting = state.waiting
    chance = np.random.default_rng(seed)
    found = np.array([followed(drawn(state, chance), policy, HORIZON_S).arrays.jobs.start[waiting]
                      for _ in range(number)])
    low, high = np.quantile(np.nan_to_num(found, nan=np.inf), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0,
                            method="inverted_cdf")
    told: dict[Key, StartForecast] = {}
    for row, least, most in zip(waiting.tolist(), low.tolist(), high.tolist(), strict=True):
        if np.isfinite(least):  # else in hardly any future it starts at all
            told.setdefault(state.records[row].key, StartForecast(least, most if np.isfinite(most) else None))
    return told

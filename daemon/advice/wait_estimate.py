"""What following a policy is expected to change in each job's wait against another, over futures that may come.

Both are forecast in the same futures (run times drawn from what like jobs took), so that the change is paired.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..replay.engine import Policy, followed
from ..replay.monte_carlo import drawn
from ..replay.state import ClusterState

Floats = NDArray[np.float64]

HORIZON_S = 30 * 86400.0
"""Whoever has not started by then has waited so long."""
LEVEL = 0.95
WORK = 20_000
"""Waiting jobs x futures x policies that one round may forecast: a second or so of a core."""
LEAST = 4
"""Fewer futures give no interval."""
ALIKE_S = 60.0
"""Ends that are nearer read the same: an interval from a time to that very time is none."""


@dataclass(frozen=True, slots=True)
class WaitChange:
    """Expected change in a job's wait from now on, in seconds; negative is sooner."""

    mean_s: float
    interval_s: tuple[float, float] | None
    """Of ``LEVEL``, over the futures; None where there are too few of them, or all say the same."""


def futures(state: ClusterState, most: int) -> int:
    """Return how many futures can be afforded; one where there is no time for enough."""
    affordable = min(most, WORK // (2 * max(1, len(state.waiting))))
    return affordable if affordable >= LEAST else min(most, 1)


def changes(state: ClusterState, policy: Policy, other: Policy, draws: int, seed: int = 0) -> dict[int, WaitChange]:
    """Return by waiting job what ``policy`` is expected to change against ``other``; nothing without ``draws``."""
    waiting = state.waiting
    if not draws or not len(waiting):
        return {}
    if policy.name == other.name:  # no future tells them apart
        return {int(job): WaitChange(0.0, None) for job in waiting}
    chance = np.random.default_rng(seed)
    found = np.array([_difference(drawn(state, chance), policy, other, waiting) for _ in range(draws)])
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return {int(job): WaitChange(float(mean), _interval(float(least), float(most), draws))
            for job, mean, least, most in zip(waiting, found.mean(axis=0), low, high, strict=True)}


def _interval(low: float, high: float, draws: int) -> tuple[float, float] | None:
    """Return the interval; None where futures are few, or all alike: then it tells no spread."""
    return (low, high) if draws >= LEAST and high - low >= ALIKE_S else None


def _difference(future: ClusterState, policy: Policy, other: Policy, waiting: NDArray[np.intp]) -> Floats:
    latest = future.now + HORIZON_S
    ours, theirs = (followed(future, each, HORIZON_S).arrays.jobs.start[waiting] for each in (policy, other))
    return np.asarray(np.nan_to_num(ours, nan=latest) - np.nan_to_num(theirs, nan=latest))

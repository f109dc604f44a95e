"""All policies on the paper's ten validation traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ....replay.arrays import Floats
from ....replay.outcome import Interval
from ..arena import replay, traces
from ..kernel import Cluster
from ..sizefree.agent import SizeFree
from ..sizefree.train import Step
from .baselines import baselines

OURS = "ours"
BOUND = "every job alone (no policy can be below)"
TRACES = 10


@dataclass(frozen=True)
class Contest:
    """What came of one limit of workers."""

    most: int
    jct: Mapping[str, Floats]
    """Mean completion time of each trace in slots, by policy."""
    steps: Sequence[Step]
    """How the agent came about."""
    measured: bool
    """Speeds are the authors' file, not our fit of it."""

    def mean(self, policy: str) -> float:
        """Return the mean over traces."""
        return float(self.jct[policy].mean())

    def less_than(self, policy: str, resamples: int = 10_000) -> Interval:
        """Return by how much ours is below a policy, with a paired 95 % bootstrap interval over traces."""
        ours, theirs = self.jct[OURS], self.jct[policy]
        drawn = np.random.default_rng(0).integers(0, len(ours), (resamples, len(ours)))
        shares = 1.0 - ours[drawn].sum(axis=1) / theirs[drawn].sum(axis=1)
        low, high = np.quantile(shares, (0.025, 0.975))
        return Interval(1.0 - float(ours.sum() / theirs.sum()), float(low), float(high))


def contest(cluster: Cluster, weights: Floats, steps: Sequence[Step], *, measured: bool) -> Contest:
    """Replay every policy on the same traces."""
    jct: dict[str, list[float]] = {}
    for trace in islice(traces(), TRACES):
        for name, policy in {**baselines(cluster), OURS: SizeFree(weights)}.items():
            jct.setdefault(name, []).append(float(replay(cluster, trace, policy).mean()))
        fastest = cluster.rates[trace.model, 1:cluster.most + 1, 1:cluster.most + 1].max(axis=(1, 2))
        jct.setdefault(BOUND, []).append(float((trace.epochs / fastest).mean()))
    return Contest(cluster.most, {name: np.array(found) for name, found in jct.items()}, steps, measured)

"""All policies on the paper's ten validation traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...replay.arrays import Floats
from ...replay.outcome import Interval, ratio_interval
from ..failures import ZeroProgressError
from .arena import ArenaTrace, SlotPolicy, replay, traces
from .baselines import baselines, fitted_speeds
from .kernel import ArenaCluster
from .rule import LookAhead

OURS, FITTED, PLAIN = "ours", "ours (fitted)", "ours, without looking ahead"
BOUND = "every job alone (no policy can be below)"
TRACES = 10


@dataclass(frozen=True)
class Contest:
    """Results of all policies with one limit of workers."""

    most: int
    jct: Mapping[str, Floats]
    """Mean completion time of each trace in slots, by policy."""
    measured: bool
    """Whether speeds come from the authors' file; otherwise they are our fit."""
    plans: int
    """Number of plans that our rule tries in each slot."""

    def mean(self, policy: str) -> float:
        """Return a policy's mean completion time over traces, slots."""
        return float(self.jct[policy].mean())

    @property
    def ranked(self) -> list[str]:
        """Return the names of the policies, the lowest mean completion time first."""
        return sorted(self.jct, key=self.mean)

    def least(self, policies: Sequence[str]) -> str:
        """Return the one of some policies with the lowest mean completion time."""
        return min(policies, key=self.mean)

    def less_than(self, policy: str) -> Interval:
        """Return the relative reduction of our rule's completion time against a policy, with a paired 95 % interval."""
        ratio = over_traces(self.jct[OURS], self.jct[policy])
        return Interval(1.0 - ratio.estimate, 1.0 - ratio.high, 1.0 - ratio.low)


def over_traces(ours: Floats, reference: Floats) -> Interval:
    """Return the ratio of mean completion times with its paired 95 % bootstrap interval over traces."""
    return ratio_interval(np.arange(float(len(ours))), ours, reference, block_s=1.0, resamples=10_000)


def contest(cluster: ArenaCluster, *, measured: bool, plans: int) -> Contest:
    """Replay every policy on the same traces; our rule tries so many plans in each slot.

    Our rule is also replayed without plans, and, like Optimus, with fitted speeds.
    ``ZeroProgressError`` names a policy under which jobs wait for ever.
    """
    ours = {OURS: LookAhead(plans), FITTED: LookAhead(plans, fitted_speeds(cluster)),
            **({PLAIN: LookAhead()} if plans else {})}
    jct: dict[str, list[float]] = {}
    for trace in islice(traces(), TRACES):
        for name, policy in {**baselines(cluster), **ours}.items():
            jct.setdefault(name, []).append(_mean(cluster, trace, policy, name))
        fastest = cluster.rates[trace.model, 1:cluster.most + 1, 1:cluster.most + 1].max(axis=(1, 2))
        jct.setdefault(BOUND, []).append(float((trace.epochs / fastest).mean()))
    return Contest(cluster.most, {name: np.array(means) for name, means in jct.items()}, measured, plans)


def _mean(cluster: ArenaCluster, trace: ArenaTrace, policy: SlotPolicy, name: str) -> float:
    try:
        return float(replay(cluster, trace, policy).mean())
    except ZeroProgressError as error:
        raise ZeroProgressError(f"{name}, at most {cluster.most} workers: {error}") from error

"""All policies on the same held-out windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....replay.arrays import Floats
from ....replay.outcome import Interval
from ....replay.power import Occupation, PowerModel, joules
from .. import windows
from ..arena import Outcome, Policy, Trace, replay, site_of, watch
from ..kernel import Site
from ..windows import HELIOS, PHILLY, History
from .baselines import baselines, srsf
from .optimum import Optimum, best_throughput, throughput

OURS = "ours"
BOUND = "LP optimum, SRSF (one large server)"
FIGURES = ("JCT", "makespan", "utilization", "energy")


@dataclass(frozen=True, slots=True)
class Setting:
    """Windows of one kind."""

    history: History
    nodes: int
    at_once: bool = False
    """All jobs are there at the beginning."""
    disturbing: bool = False
    """Neighbours slow each other."""
    bounded: bool = False
    """Small enough for the linear programme."""

    @property
    def name(self) -> str:
        """Return what the setting is called."""
        return (f"{self.history.name}, {self.nodes} nodes, {'all at once' if self.at_once else 'as submitted'}"
                f"{', neighbours disturb' if self.disturbing else ''}")


SETTINGS = (
    *(Setting(PHILLY, nodes, at_once, bounded=nodes == 16) for nodes in (16, 32, 64, 128) for at_once in (False, True)),
    *(Setting(HELIOS, nodes, at_once) for nodes in (16, 32) for at_once in (False, True)),
    *(Setting(PHILLY, 16, at_once, disturbing=True) for at_once in (False, True)))


class Place(NamedTuple):
    """A virtual cluster whose trace is complete, and the days of it."""

    history: History
    partition: str
    first: int
    end: int
    nodes: int


COMPLETE: Mapping[str, Place] = {"Philly 0e4a51, October and November": Place(PHILLY, "0e4a51", 48, 109, 32),
                                 "Venus vcvGl, September": Place(HELIOS, "vcvGl", 0, 30, 20)}


@dataclass(frozen=True)
class Contest:
    """What came of a setting."""

    setting: Setting
    figures: Mapping[str, Mapping[str, Floats]]
    """Of each window, by policy and then by ``FIGURES``: seconds, seconds, ratio, joules."""

    def mean(self, policy: str, figure: str) -> float:
        """Return the mean over windows."""
        return float(self.figures[policy][figure].mean())

    def best(self, policies: Sequence[str], figure: str) -> str:
        """Return the policy with the lowest mean."""
        return min(policies, key=lambda name: self.mean(name, figure))

    def less_than(self, policy: str, figure: str, ours: str = OURS, resamples: int = 10_000) -> Interval:
        """Return by how much ours is below a policy, with a paired 95 % bootstrap interval over windows."""
        one, other = self.figures[ours][figure], self.figures[policy][figure]
        drawn = np.random.default_rng(0).integers(0, len(one), (resamples, len(one)))
        low, high = np.quantile(1.0 - one[drawn].sum(axis=1) / other[drawn].sum(axis=1), (0.025, 0.975))
        return Interval(1.0 - float(one.sum() / other.sum()), float(low), float(high))


def traces_of(setting: Setting, traces: Path, most: int) -> Iterator[Trace]:
    """Yield the held-out windows of a setting."""
    for day in windows.days(setting.history, traces, setting.nodes, most):
        trace = windows.window(setting.history, traces, day, setting.nodes)
        yield windows.at_once(trace) if setting.at_once else trace


def energy(outcome: Outcome, site: Site) -> float:
    """Return the joules of a replay up to its own end, by the usual watts of an A100 node."""
    wall = site.nodes * outcome.makespan
    busy = min(outcome.busy, wall)
    spent = Occupation(outcome.makespan, busy=np.array([busy]), empty=np.array([wall - busy]), down=np.zeros(1),
                       gpu=np.array([outcome.held]), since=np.zeros(1), delay=np.inf)
    return joules(spent, np.array([site.size]), PowerModel()).total


def figures(site: Site, trace: Trace, policy: Policy) -> tuple[float, ...]:
    """Return ``FIGURES`` of one replay."""
    outcome = replay(site, trace, policy)
    return float(outcome.jct.mean()), outcome.makespan, outcome.utilization(site), energy(outcome, site)


def contest(setting: Setting, traces: Path, others: Mapping[str, Policy], most: int = 12) -> Contest:
    """Replay every policy on the windows of a setting."""
    site, rows = site_of(setting.nodes, disturbing=setting.disturbing), list(traces_of(setting, traces, most))
    policies = {**baselines(), **others, **({BOUND: Optimum(srsf)} if setting.bounded else {})}
    found = {name: np.array([figures(site, trace, policy) for trace in rows]) for name, policy in policies.items()}
    return Contest(setting, {name: dict(zip(FIGURES, table.T, strict=True)) for name, table in found.items()})


def share_of_optimum(policy: Policy, site: Site, rows: Sequence[Trace], every: int = 10) -> Floats:
    """Return a policy's throughput over the linear programme's for the jobs that it seated, a value for each window."""
    optimum, shares = Optimum(srsf), []
    for trace in rows:
        sums = np.zeros(2)
        for number, round in enumerate(watch(site, trace, policy)):
            if number % every == 0:
                sums += throughput(round), best_throughput(optimum, round)
        shares.append(sums[0] / sums[1])
    return np.array(shares)


def complete(place: Place, traces: Path, others: Mapping[str, Policy]) -> Mapping[str, tuple[float, ...]]:
    """Return ``FIGURES`` of every policy on a whole virtual cluster."""
    trace = windows.complete(place.history, traces, place.partition, place.first, place.end)
    return {name: figures(site_of(place.nodes), trace, policy) for name, policy in {**baselines(), **others}.items()}

"""All policies on the same held-out windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...replay.arrays import Floats
from ...replay.outcome import Interval, paired_ratio
from ...replay.power import Occupation, PowerModel, joules
from . import windows
from .arena import ArenaTrace, ReplayResult, RoundPolicy, replay, site_of, watch
from .baselines import baselines, srsf
from .kernel import Site
from .optimum import ANY, FAIR, OptimalSpeeds, best_throughput, throughput
from .windows import HELIOS, LEAF, PHILLY, HeldOutCluster, PackagedTrace

OURS, INDEPENDENT = "ours", "independent agents, no graph"
PROGRAMME = "LP for the jobs seated, SRSF"
"""Name of the policy with Synergy's optimum and an order."""
FIGURES = ("JCT", "makespan", "utilization", "energy")


@dataclass(frozen=True, slots=True)
class WindowSetting:
    """A kind of windows: trace, number of nodes and conditions."""

    history: PackagedTrace
    nodes: int
    at_once: bool = False
    """Whether all jobs are submitted at the beginning."""
    disturbing: bool = False
    """Whether neighbours slow each other."""
    leaf: int = 0
    """Number of nodes at each leaf switch; 0 means that all are at one switch."""
    bounded: bool = False
    """Whether the windows are small enough for the linear programme."""

    @property
    def name(self) -> str:
        """Return the name of the setting."""
        return f"{self.history.name}, {self.circumstances}"

    @property
    def label(self) -> str:
        """Return a short name of the setting for plots."""
        return f"{self.history.name} {self.nodes}{'d' if self.disturbing else 's' if self.leaf else ''}"

    @property
    def circumstances(self) -> str:
        """Return the conditions of the setting, which windows of another trace may share."""
        return (f"{self.nodes} nodes, {'all at once' if self.at_once else 'as submitted'}"
                f"{', neighbours disturb' if self.disturbing else ''}"
                f"{f', {self.leaf} at a leaf switch' if self.leaf else ''}")

    @property
    def site(self) -> Site:
        """Return the cluster of the setting."""
        return site_of(self.nodes, disturbing=self.disturbing, leaf=self.leaf)


SETTINGS = (
    *(WindowSetting(history, nodes, at_once, bounded=history is PHILLY and nodes == 16)
      for history in (PHILLY, HELIOS) for nodes in (16, 32, 64, 128) for at_once in (False, True)),
    *(WindowSetting(PHILLY, 16, at_once, disturbing=True) for at_once in (False, True)),
    *(WindowSetting(history, 16, at_once, leaf=LEAF) for history in (PHILLY, HELIOS) for at_once in (False, True)))


@dataclass(frozen=True)
class Contest:
    """Results of all policies in a setting."""

    setting: WindowSetting
    figures: Mapping[str, Mapping[str, Floats]]
    """Results of each window, by policy and then by ``FIGURES``: s, s, ratio, J."""

    def mean(self, policy: str, figure: str) -> float:
        """Return the mean of a figure over windows."""
        return float(self.figures[policy][figure].mean())

    def best(self, policies: Sequence[str], figure: str) -> str:
        """Return the policy with the lowest mean of a figure."""
        return min(policies, key=lambda name: self.mean(name, figure))

    @property
    def windows(self) -> int:
        """Return the number of windows."""
        return len(self.figures[OURS]["JCT"])

    def less_than(self, policy: str, figure: str) -> Interval:
        """Return our agent's relative reduction against a policy in a typical window; see ``outcome.paired_ratio``."""
        return less(paired_ratio(*self.pairs(policy, figure)))

    def pairs(self, policy: str, figure: str) -> tuple[Floats, Floats]:
        """Return a figure of our agent and of a policy, for each window."""
        return self.figures[OURS][figure], self.figures[policy][figure]


def less(ratio: Interval) -> Interval:
    """Convert a ratio with its interval to a relative reduction, 1 - ratio."""
    return Interval(1.0 - ratio.estimate, 1.0 - ratio.high, 1.0 - ratio.low)


def traces_of(setting: WindowSetting, traces: Path, most: int) -> list[ArenaTrace]:
    """Return the held-out windows of a setting."""
    blocks = windows.held_out(setting.history, traces, setting.nodes, most)
    return [windows.at_once(trace) for trace in blocks] if setting.at_once else blocks


def energy(outcome: ReplayResult, site: Site) -> float:
    """Return the energy of a replay up to its own end, by the usual power of an A100 node, J."""
    wall = site.nodes * outcome.makespan
    busy = min(outcome.busy, wall)
    spent = Occupation(outcome.makespan, busy=np.array([busy]), empty=np.array([wall - busy]), down=np.zeros(1),
                       gpu=np.array([outcome.held]), since=np.zeros(1), delay=np.inf)
    return joules(spent, np.array([site.size]), PowerModel()).total


def figures(site: Site, trace: ArenaTrace, policy: RoundPolicy) -> tuple[float, ...]:
    """Return ``FIGURES`` of one replay."""
    outcome = replay(site, trace, policy)
    return float(outcome.jct.mean()), outcome.makespan, outcome.utilization(site), energy(outcome, site)


def contest(setting: WindowSetting, traces: Path, others: Mapping[str, RoundPolicy], most: int) -> Contest:
    """Replay every policy on the windows of a setting."""
    site, rows = setting.site, traces_of(setting, traces, most)
    policies = {**baselines(), **others, **({PROGRAMME: OptimalSpeeds(srsf)} if setting.bounded else {})}
    results = {name: np.array([figures(site, trace, policy) for trace in rows]) for name, policy in policies.items()}
    return Contest(setting, {name: dict(zip(FIGURES, table.T, strict=True)) for name, table in results.items()})


def share_of_optimum(policy: RoundPolicy, site: Site, rows: Sequence[ArenaTrace], every: int = 10) -> Floats:
    """Return a policy's throughput over the linear programmes' for the same jobs, [window, bound or Synergy's]."""
    programmes, shares = [OptimalSpeeds(srsf, least) for least in (ANY, FAIR)], []
    for trace in rows:
        sums = np.zeros(1 + len(programmes))
        for number, round in enumerate(watch(site, trace, policy)):
            if number % every == 0:
                sums += throughput(round), *(best_throughput(programme, round) for programme in programmes)
        shares.append(sums[0] / sums[1:])
    return np.array(shares)


def complete(place: HeldOutCluster, trace: ArenaTrace, others: Mapping[str, RoundPolicy]) -> Mapping[str,
                                                                                                     tuple[float, ...]]:
    """Return ``FIGURES`` of every policy on a whole virtual cluster."""
    return {name: figures(site_of(place.nodes), trace, policy) for name, policy in {**baselines(), **others}.items()}

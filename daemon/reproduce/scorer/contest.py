"""Replays of many policies on the same traces, and the intervals of their differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ...agents.kinds import Figures, TraceWindow, figures
from ...policies import named
from ...replay.arrays import Floats
from ...replay.engine import Policy, run
from ...replay.outcome import Interval

HEURISTICS = tuple(f"{order}+best-fit+easy" for order in ("fifo", "sjf-limit", "sjf-prediction", "qssf", "wfp3",
                                                          "limit-aged"))
BOUNDS = ("random-feasible", "sjf-oracle+best-fit+easy")
RESAMPLES = 2000


@dataclass(frozen=True)
class Cell:
    """Results of the traces of one site."""

    name: str
    known: Mapping[str, tuple[Figures, ...]]
    """Figures of heuristics, by policy, one for each trace."""
    models: tuple[tuple[Figures, ...], ...]
    """Figures of the scorers, [training seed][trace]."""

    @property
    def best(self) -> str:
        """Return the heuristic with the lowest mean completion time on this site."""
        return min(HEURISTICS, key=lambda policy: jct(self.known[policy]).mean())

    def regret(self) -> Interval:
        """Return the relative excess of the scorers' completion time over the best heuristic's; lower is better.

        The interval is a 95 % bootstrap interval over traces, which both share, and over training seeds.
        """
        ours, best = np.array([jct(model) for model in self.models]), jct(self.known[self.best])
        random = np.random.default_rng(0)
        traces = random.integers(0, len(best), (RESAMPLES, len(best)))
        seeds = random.integers(0, len(ours), (RESAMPLES, len(ours)))
        drawn = ours[seeds[:, :, None], traces[:, None, :]].mean(axis=(1, 2)) / best[traces].mean(axis=1) - 1.0
        low, high = np.quantile(drawn, [0.025, 0.975])
        return Interval(float(ours.mean() / best.mean()) - 1.0, float(low), float(high))

    def regret_of(self, figures: Sequence[Figures]) -> float:
        """Return a policy's relative excess of completion time over the best heuristic's, without an interval."""
        return float(jct(figures).mean() / jct(self.known[self.best]).mean()) - 1.0

    def tail(self) -> float:
        """Return the ratio of the scorers' 99th-percentile wait to the best heuristic's; a minute is added to both."""
        ours = np.mean([p99(model).mean() for model in self.models])
        return float((ours + 60.0) / (p99(self.known[self.best]).mean() + 60.0))


def jct(results: Sequence[Figures]) -> Floats:
    """Return the mean completion time of each trace, s."""
    return np.array([result.jct_mean_s for result in results])


def p99(results: Sequence[Figures]) -> Floats:
    """Return the 99th-percentile wait of each trace, s."""
    return np.array([result.wait_p99_s for result in results])


def contest(name: str, draw: Callable[[int], TraceWindow], traces: int, models: Sequence[Policy],
            pool: ThreadPoolExecutor) -> Cell:
    """Replay a number of traces of one site under all policies."""
    policies = [*map(named, (*HEURISTICS, *BOUNDS)), *models]
    replayed = list(pool.map(lambda number: _replayed(draw(number), policies), range(traces)))
    by_policy = list(zip(*replayed, strict=True))
    names = (*HEURISTICS, *BOUNDS)
    return Cell(name, dict(zip(names, by_policy, strict=False)), tuple(by_policy[len(names):]))


def _replayed(window: TraceWindow, policies: Sequence[Policy]) -> list[Figures]:
    return [figures(run(window.cluster, window.workload, policy), window.since_s) for policy in policies]

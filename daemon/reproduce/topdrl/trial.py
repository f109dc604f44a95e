"""Replays of all policies on the same episodes, and the intervals of their differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from ...replay.arrays import Floats
from ...replay.outcome import FEWEST_PAIRS, Interval, paired_ratio
from . import orders, placing
from .arena import ArenaEpisode, EpisodeResult, bound, outcome
from .kernel import EpisodeJobs
from .orders import CLOSE, Rule

Play = Callable[[ArenaEpisode], EpisodeJobs]
"""Runs an episode to its end."""

OURS, LITERAL, BOUND, RANDOM = "ours", "literal", "bound (no policy can be better)", "random-feasible"
_ORDERS = {"FCFS": orders.FCFS, "SJF": orders.SJF, "smallest": orders.SMALLEST, "random": orders.RANDOM}
_PLACEMENTS = {"first-available": placing.FIRST, "load-balance": placing.BALANCE, "random": placing.ANYWHERE,
               "nearest": placing.NEAREST}
PAPER = {f"{order} + {placement}": Rule(number, where) for order, number in _ORDERS.items()
         for placement, where in _PLACEMENTS.items() if (order, placement) != ("random", "random")}
"""Baselines of the predecessor, and probably the six of the paper, which its public abstract does not name."""
BETTER_ORDERS = {"smallest area + nearest": Rule(orders.SMALLEST_AREA), "SJF as near + nearest": Rule(orders.SJF_NOW)}
"""Better orders. Area is GPUs x run time; "as near" uses the run time on the nearest free GPUs."""
STRICT = {"FCFS, no job overtakes + first-available": Rule(orders.FCFS, placing.FIRST, blocking=True),
          "FCFS, no job overtakes + nearest": Rule(orders.FCFS, blocking=True)}
WAITING = {"FCFS, close or wait": Rule(orders.FCFS, least=CLOSE), "SJF, close or wait": Rule(orders.SJF, least=CLOSE),
           "SJF as near, close or wait": Rule(orders.SJF_NOW, least=CLOSE)}
"""Our own rules that wait, which no paper compares with; training starts with the last one."""
RULES: Mapping[str, Rule] = {**PAPER, RANDOM: Rule(orders.RANDOM, placing.ANYWHERE), **BETTER_ORDERS, **STRICT,
                             **WAITING}
NEAREST = [name for name, rule in {**PAPER, **BETTER_ORDERS}.items() if rule.placement == placing.NEAREST]
"""Heuristic orders with the same placement as our agent."""
METRICS = tuple(field.name for field in fields(EpisodeResult))


@dataclass(frozen=True)
class Contest:
    """Results of all policies on some episodes."""

    name: str
    episodes: int
    found: Mapping[str, Floats]
    """Results by policy, [training, episode, metric]; a rule counts as one training."""

    def mean(self, policy: str, metric: str) -> float:
        """Return the mean of a metric for a policy, over trainings and episodes."""
        return float(self.found[policy][:, :, METRICS.index(metric)].mean())

    def best(self, names: Sequence[str], metric: str) -> str:
        """Return the best of some policies: with the shortest completion times, or the most throughput."""
        sign = 1.0 if metric == "jct_s" else -1.0
        return min(names, key=lambda name: sign * self.mean(name, metric))

    def gain(self, policy: str, metric: str, compared: str = OURS) -> Interval:
        """Return the relative difference of ``compared`` to a policy, mean over trainings; 95 %, paired."""
        return self._above(self.found[compared][:, :, METRICS.index(metric)].mean(axis=0), policy, metric)

    def gains(self, policy: str, metric: str) -> list[Interval]:
        """Return the relative difference to a policy of each training of our agent, with paired 95 % intervals."""
        return [self._above(ours, policy, metric) for ours in self.found[OURS][:, :, METRICS.index(metric)]]

    def _above(self, ours: Floats, policy: str, metric: str) -> Interval:
        ratio = paired_ratio(ours, self.found[policy][:, :, METRICS.index(metric)].mean(axis=0))
        return Interval(ratio.estimate - 1.0, ratio.low - 1.0, ratio.high - 1.0)

    def beats(self, policy: str, metric: str) -> bool:
        """Return whether our agent is significantly better than a policy; False if there are too few episodes."""
        difference = self.gain(policy, metric)
        return self.episodes >= FEWEST_PAIRS and (difference.high < 0 if metric == "jct_s" else difference.low > 0)

    @classmethod
    def joined(cls, name: str, parts: Sequence[Contest]) -> Contest:
        """Return several contests joined into one, with the policies that are part of all of them."""
        common = [policy for policy in parts[0].found if all(policy in part.found for part in parts)]
        return cls(name, sum(part.episodes for part in parts),
                   {policy: np.concatenate([part.found[policy] for part in parts], axis=1) for policy in common})


def by_rule(rule: Rule) -> Play:
    """Return a function that runs an episode with a rule."""
    def play(episode: ArenaEpisode) -> EpisodeJobs:
        jobs, cluster = episode.begin()
        orders.replay(episode.site, jobs, cluster, rule)
        return jobs
    return play


def contest(name: str, episodes: Sequence[ArenaEpisode], agents: Mapping[str, Sequence[Play]],
            rules: Mapping[str, Rule] = RULES) -> Contest:
    """Replay every policy on the same episodes; ``agents`` are trainings by name."""
    plays = {**{known: [by_rule(rule)] for known, rule in rules.items()}, **agents}
    results = {policy: np.array([[_row(outcome(episode, play(episode))) for episode in episodes] for play in trainings])
               for policy, trainings in plays.items()}
    return Contest(name, len(episodes), {**results, BOUND: np.array([[_row(bound(episode)) for episode in episodes]])})


def _row(done: EpisodeResult) -> list[float]:
    return [getattr(done, name) for name in METRICS]

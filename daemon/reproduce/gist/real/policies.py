"""The five compared policies, each as a new player of one sequence, for a real and a simulated partition."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....agents.gist_mdrl.agent import GistAgent
from ....agents.gist_mdrl.environment import (
    HOUR_S,
    PARTITIONS,
    Arrival,
    Environment,
    EpisodeOutcome,
    GpuPartition,
    PlacementDecision,
    sequences,
    utilization,
)
from ..baselines import first_fit, naive
from ..exact import drawn
from ..trial import Trial, carry_out, done_before, options_named
from .config import PolicyName, RealSettings
from .episode import Act

NAMED: Mapping[PolicyName, str] = {
    "slurm": "Slurm's own placement", "random": "random server, else wait (the paper's Naive)",
    "first_fit": "first fit", "literal": "the paper's agent", "improved": "the improved agent"}


class Delay(NamedTuple):
    """Delays of a real cluster, in seconds of the paper."""

    begun_s: float = 0.0
    """Time from a job's placement to its beginning."""
    noticed_s: float = 0.0
    """Time from a job's end to the reaction."""


NO_DELAY = Delay()


class Predicted(NamedTuple):
    """The simulated result of a sequence."""

    utilization: float
    terminal_h: float
    decisions: tuple[int, ...] = ()


def _late(outcome: EpisodeOutcome, delay: Delay, decisions: tuple[int, ...]) -> Predicted:
    """Return Eq. 4 of an episode whose simulated runs include the delays, in which no job computes."""
    terminal_s = outcome.terminal_start_s + delay.begun_s
    runs = [(bar.flavor.rate, bar.start_s + delay.begun_s, bar.end_s - delay.noticed_s) for bar in outcome.bars
            if bar.server >= 0 and bar.start_s <= outcome.terminal_start_s]
    first_s = min((start for _, start, _ in runs), default=0.0)
    return Predicted(utilization(runs, terminal_s), (terminal_s - first_s) / HOUR_S, decisions)


class Players:
    """Makes players; agents are loaded from their folder, or trained when they are first needed."""

    def __init__(self, settings: RealSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._agents: dict[str, GistAgent] = {}
        self.kind, self.hour_s = PARTITIONS[settings.kind], settings.hour

    def player(self, policy: PolicyName, number: int) -> Act:
        """Return the player of the sequence with this number; its random choices are the same each time."""
        if policy in ("literal", "improved"):
            return self._agent(policy).act
        chances = naive if policy == "random" else first_fit
        return drawn(self.kind, chances, np.random.default_rng(self._settings.seed * 1000 + number))

    def predicted(self, policy: PolicyName, number: int, delay: Delay = NO_DELAY) -> Predicted:
        """Return the simulated result of the same sequence, with the delays of a real cluster.

        First fit stands for Slurm's own placement.
        """
        act, decisions, environment = self.player(policy, number), list[int](), Environment(self.kind)
        arrivals = [Arrival(flavor, index * environment.reading.gap_s,
                            self.kind.flavors[flavor].limit_s + delay.begun_s + delay.noticed_s,
                            self.kind.flavors[flavor].limit_s)
                    for index, flavor in enumerate(sequences(self.kind)[number])]
        decision: PlacementDecision | None = environment.begin(arrivals)
        while decision is not None:
            decisions.append(act(decision))
            _, decision = environment.step(decisions[-1])
        return _late(environment.outcome, delay, tuple(decisions))

    def _agent(self, name: str) -> GistAgent:
        if name not in self._agents:
            trial = Trial(self.kind.name, name, self._settings.seed)
            if done_before(trial, self._folder) is None:
                carry_out(trial, self._folder)
            agent = GistAgent(self.kind, options_named(name))
            agent.load(self._folder / trial.name)
            self._agents[name] = agent
        return self._agents[name]


def chosen(kind: GpuPartition, count: int) -> list[int]:
    """Return the numbers of the chosen sequences, evenly spread over all."""
    total = len(sequences(kind))
    return [round(index * (total - 1) / (count - 1)) for index in range(count)]

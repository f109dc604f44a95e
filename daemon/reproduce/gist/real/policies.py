"""The five that are compared, each as a fresh player of one sequence, for a real partition and a simulated one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ....agents.gist_mdrl.agent import GistAgent
from ....agents.gist_mdrl.environment import PARTITIONS, Decision, Environment, Partition, play, sequences
from ..baselines import first_fit, naive
from ..exact import Policy, action
from ..trial import Trial, carry_out, done_before, options_named
from .config import PolicyName, RealSettings
from .episode import Act

NAMED: Mapping[PolicyName, str] = {
    "slurm": "Slurm's own placement", "random": "random server, else wait (the paper's Naive)",
    "first_fit": "first fit", "literal": "the paper's agent", "improved": "the improved agent"}


class Players:
    """Makes players; the agents are trained when they are needed first, or found in their folder."""

    def __init__(self, settings: RealSettings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._agents: dict[str, GistAgent] = {}
        self.kind = PARTITIONS[settings.kind]

    def player(self, policy: PolicyName, number: int) -> Act:
        """Return what plays the sequence of that number; chance falls alike each time."""
        if policy in ("literal", "improved"):
            return self._agent(policy).act
        chances = naive if policy == "random" else first_fit
        return _drawn(self.kind, chances, self._settings.seed * 1000 + number)

    def predicted(self, policy: PolicyName, number: int) -> tuple[float, float]:
        """Return utilisation and start of the terminal job (hours) that the simulation has for the same sequence.

        Slurm's own placement is predicted as first fit.
        """
        outcome = play(Environment(self.kind), sequences(self.kind)[number], self.player(policy, number))
        return outcome.utilization, outcome.terminal_start_s / 3600.0

    def _agent(self, name: str) -> GistAgent:
        if name not in self._agents:
            trial = Trial(self.kind.name, name, self._settings.seed)
            if done_before(trial, self._folder) is None:
                carry_out(trial, self._folder)
            agent = GistAgent(self.kind, options_named(name))
            agent.load(self._folder / trial.name)
            self._agents[name] = agent
        return self._agents[name]


def chosen(kind: Partition, count: int) -> list[int]:
    """Return the numbers of sequences that are played, evenly spread over all."""
    total = len(sequences(kind))
    return [round(index * (total - 1) / (count - 1)) for index in range(count)]


def _drawn(kind: Partition, chances: Policy, seed: int) -> Act:
    draw = np.random.default_rng(seed)

    def act(decision: Decision) -> int:
        choices, weights = zip(*chances(decision).items(), strict=True)
        return action(kind, decision.flavor, choices[int(draw.choice(len(choices), p=weights))])

    return act

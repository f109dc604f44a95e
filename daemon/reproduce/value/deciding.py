"""Replays in which the active policy changes: by the promotion gate, or when a trained agent abstains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...policies import named
from ...replay import arrays as a
from ...replay.arrays import Floats
from ...replay.engine import Policy, prepare
from ...replay.queue import queue_up
from ...replay.state import ClusterState


@dataclass(frozen=True)
class Decider:
    """A policy, and the job data that it may use."""

    policy: Policy
    limit: Floats
    prediction: Floats


@dataclass
class Deciders:
    """The policy that decides until the next check."""

    first: Decider
    every_s: float = np.inf
    choose: Callable[[ClusterState, float], Decider] | None = None
    """Returns the policy at each check; None if the first policy always decides."""
    _now: Decider | None = None
    _calculator: object = None

    @property
    def policy(self) -> Policy:
        """Return the policy that decides now."""
        return (self._now or self.first).policy

    def look(self, state: ClusterState, now: float) -> None:
        """Change the policy, if another one is to decide from now on."""
        if self.choose is None:
            return
        wanted = self.choose(state, now)
        if wanted is not (self._now or self.first):
            self._now = wanted
            self._hand_over(state, wanted)

    def _hand_over(self, state: ClusterState, wanted: Decider) -> None:
        """Rank the jobs again under other rules, and keep the recorded priorities for later use."""
        jobs = state.arrays.jobs
        jobs.limit, jobs.prediction = wanted.limit, wanted.prediction
        self._calculator, state.calculator = state.calculator or self._calculator, None
        rules = wanted.policy.rules  # type: ignore[attr-defined]
        if rules.calculator is not None:
            state.calculator = self._calculator  # type: ignore[assignment]
        trees = state.arrays.leaves, state.arrays.branches, state.arrays.roots
        queue_up(jobs, state.arrays.order, trees, np.arange(len(jobs)))
        prepare(state, rules)
        state.arrays.counts[a.CHANGED] = 1


@dataclass(frozen=True)
class Promoted:
    """Moment from which on a candidate decides."""

    since_s: float
    name: str


def as_promoted(first: Decider, later: Sequence[tuple[float, Decider]]) -> Deciders:
    """Return deciders that follow promotions, each from its moment on."""
    def choose(state: ClusterState, now: float) -> Decider:
        return next((decider for since_s, decider in reversed(later) if since_s <= now), first)

    return Deciders(first, 86400.0, choose)


def as_trusted(first: Decider, agent: Decider, since_s: float, *, heeding: bool) -> Deciders:
    """Return an agent that decides from a moment on; with ``heeding``, the first policy decides while it abstains."""
    def choose(state: ClusterState, now: float) -> Decider:
        if now < since_s:
            return first
        return first if heeding and agent.policy.doubt(state) is not None else agent  # type: ignore[attr-defined]

    return Deciders(first, 3600.0, choose)


def of_name(name: str, limit: Floats, prediction: Floats) -> Decider:
    """Return a heuristic and the job data that it may use."""
    return Decider(named(name), limit, prediction)

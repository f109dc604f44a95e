"""Stretches of history as something to be good at: replayed by any weights, judged relative to known orders."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ...policies import named
from ...replay import arrays as a
from ...replay import engine, events
from ...replay.arrays import Floats
from ...replay.state import ClusterState
from ..figures import Figures, figures
from ..kinds import Objective, Stretch
from .agent import outfit, rules_of
from .inputs import inputs_of
from .network import SIZE
from .orders import blank, plain


class Arena:
    """One stretch; threads may replay it at the same time."""

    def __init__(self, stretch: Stretch, incumbent: str, objective: Objective) -> None:
        self.stretch, self._objective = stretch, objective
        speed = stretch.speeds.table
        self._fresh = ClusterState.of(stretch.cluster, stretch.workload, speed=speed)
        engine.prepare(self._fresh, rules_of(np.zeros(SIZE))._replace(ready=None))
        self.inputs = inputs_of(self._fresh)
        self.counted = (self._fresh.arrays.jobs.status != a.REJECTED) & (stretch.workload.submit >= stretch.since_s)
        self.incumbent = self._judged(engine.run(stretch.cluster, stretch.workload, named(incumbent), speed=speed))

    @cached_property
    def bar(self) -> float:
        """Return the logarithm of the objective that the best of the known orders reaches; the incumbent's is 0."""
        orders = plain(blank(self._objective.longest_wait_s))
        return min(0.0, *(math.log(self.score(weights)) for weights in orders))

    def play(self, weights: Floats) -> engine.Run:
        """Replay the stretch."""
        state = self._fresh.copy()
        state.arrays = outfit(weights, self.inputs, state.arrays)
        engine.go_on(state, events.agenda_of(self.stretch.cluster), rules_of(weights), np.inf)
        return engine.Run("scorer", 0, self.stretch.cluster, self.stretch.workload, state)

    def score(self, weights: Floats) -> float:
        """Return the objective of these weights relative to the incumbent's."""
        return self._judged(self.play(weights)).relative(self.incumbent, self._objective)

    def regret(self, weights: Floats) -> float:
        """Return the logarithm of the objective of these weights over that of the best known order."""
        return math.log(self.score(weights)) - self.bar

    def _judged(self, run: engine.Run) -> Figures:
        return figures(run, self.stretch.since_s, watts=self._objective.watts(self.stretch))

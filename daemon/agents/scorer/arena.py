"""Evaluation of weights: replays of a window of history, relative to known orders.

Untrained weights that express known orders are where training starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np

from ...policies import named
from ...replay import arrays as a
from ...replay import engine, events
from ...replay.arrays import Floats
from ...replay.state import ClusterState
from ...replay.timeline import ReservedNodes, replay
from ..doubts import longest_queue
from ..kinds import Figures, Objective, TraceWindow, figures
from .agent import inputs_of, outfit, rules_of
from .network import INPUTS, SIZE, TRAITS, layer

LOG_2 = float(np.log(2.0))


def blank(patience_s: float) -> Floats:
    """Return weights that choose the fullest node, and order by the first trait alone, whose weights are 0 yet."""
    weights = np.zeros(SIZE)
    layer(weights, "mood.base")[0] = 1.0
    layer(weights, "place.linear")[0] = 1.0
    layer(weights, "patience")[:] = patience_s
    return weights


def initial(random: np.random.Generator, patience_s: float) -> Floats:
    """Return ``blank`` weights whose hidden layers and other traits are random, so that learning can change them."""
    weights = blank(patience_s)
    for name, fan_in in (("order.hidden", len(INPUTS)), ("mood.hidden", 4), ("place.hidden", 4)):
        part = layer(weights, name)
        part[:] = random.normal(0.0, 1.0 / np.sqrt(fan_in), part.shape)
    layer(weights, "order.linear")[:, 1:] = random.normal(0.0, 0.3, (len(INPUTS), TRAITS - 1))
    return weights


def plain(weights: Floats) -> Iterator[Floats]:
    """Yield weights that order exactly as FIFO, SJF by limit, SJF by prediction and QSSF do."""
    heuristic = weights.copy()
    layer(heuristic, "mood.base")[TRAITS] = 1.0
    yield heuristic
    for parts in ({"requested limit": 1.0}, {"predicted run time": 1.0}, {"predicted run time": 1.0, "GPUs": LOG_2}):
        heuristic = weights.copy()
        for name, value in parts.items():
            layer(heuristic, "order.linear")[INPUTS.index(name), 0] = value
        yield heuristic


class Arena:
    """One window; threads may replay it at the same time."""

    def __init__(self, window: TraceWindow, incumbent: str, objective: Objective) -> None:
        self.window, self._objective = window, objective
        speed = window.speeds.table
        self._fresh = ClusterState.of(window.cluster, window.workload, speed=speed)
        engine.prepare(self._fresh, rules_of(np.zeros(SIZE))._replace(ready=None))
        self.inputs = inputs_of(self._fresh)
        self.counted = (self._fresh.arrays.jobs.status != a.REJECTED) & (window.workload.submit >= window.since_s)
        incumbent_run = replay(window.cluster, window.workload, named(incumbent), window.reserved, speed=speed)
        self.incumbent, self.queue = self._judged(incumbent_run), longest_queue(incumbent_run)

    @cached_property
    def bar(self) -> float:
        """Return the logarithm of the best objective of the known orders; the incumbent's is 0."""
        orders = plain(blank(self._objective.longest_wait_s))
        return min(0.0, *(math.log(self.score(weights)) for weights in orders))

    def play(self, weights: Floats) -> engine.Run:
        """Replay the window."""
        state = self._fresh.copy()
        state.arrays = outfit(weights, self.inputs, state.arrays)
        cluster, work, reserved = self.window.cluster, self.window.workload, self.window.reserved
        if reserved:  # copies share what usually never changes
            state.arrays = state.arrays._replace(eligible=state.arrays.eligible.copy())
        ReservedNodes(state, work, cluster, reserved).proceed(
            partial(engine.go_on, state, events.event_list_of(cluster), rules_of(weights)), np.inf)
        return engine.Run("scorer", 0, cluster, work, state)

    def score(self, weights: Floats) -> float:
        """Return the objective of these weights relative to the incumbent's."""
        return self._judged(self.play(weights)).relative(self.incumbent, self._objective)

    def regret(self, weights: Floats) -> float:
        """Return the logarithm of the objective of these weights over that of the best known order."""
        return math.log(self.score(weights)) - self.bar

    def _judged(self, run: engine.Run) -> Figures:
        return figures(run, self.window.since_s, watts=self._objective.watts(self.window))

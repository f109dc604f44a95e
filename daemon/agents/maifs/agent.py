"""MAIFS as a policy: nodes decide together on the next jobs, with CPUs and memory; it abstains where it is unsure.

Beyond the paper: a job that has waited for too long goes first, and the first job that finds no room gets a reservation
that no other job may delay. A job of several nodes is placed close together, at the first level with room.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....storage.records import ModelCard
from ...replay.arrays import Floats, Longs
from ...replay.speed import SpeedTable
from ...replay.state import Actions, ClusterState
from .. import checkpoint
from ..demands import CHUNK, CPUS, MEMORY
from ..doubts import STRANGE, groups_of, outside, strange_jobs, strange_share, wrong_size
from ..free_resources import somebody_fits
from ..kinds import Objective
from ..observation import considered_jobs, grants_known, observe
from . import graph
from .levels import LEVELS, Needs
from .network import ACTION_INPUTS, NODE_INPUTS, OF_JOB, ORDER, SHAPES, SIZE, NodeWeights, rated, unpacked
from .scheduling_round import Decide, Joint, SchedulingRound, job_inputs

GB = 1e9


def schema() -> dict[str, object]:
    """Return what weights must have been trained for to fit here."""
    return {"agent": "maifs", "node": list(NODE_INPUTS), "actions": list(ACTION_INPUTS), "levels": list(LEVELS),
            "order": list(ORDER), "shapes": {name: list(shape) for name, shape in SHAPES.items()}}


class Maifs:
    """A trained agent, the same object live and replayed."""

    grants = True
    """It grants CPUs and memory, so that it is replayed with speeds by CPUs and memory."""

    def __init__(self, weights: Floats, card: ModelCard, longest_wait_s: float = Objective().longest_wait_s,
                 decide: Decide | None = None) -> None:
        """Serve by ``weights``, or during training by ``decide``."""
        self.name, self.card, self.weights, self.longest_wait_s = card.model, card, weights, longest_wait_s
        parts: dict[str, Floats] = unpacked(np.asarray(weights, np.float64))
        self._order = parts["order"]
        self._network = NodeWeights(*(parts[name] for name in NodeWeights._fields))
        self._decide = decide or self.joint_action
        self._speed_table: SpeedTable | None = None
        self._needs = Needs(np.zeros(0), np.zeros(0))

    def decide(self, state: ClusterState) -> Actions:
        """Return which jobs to start now, and with which resources; the state does not change."""
        if not somebody_fits(state):
            return ()
        needs = self._needs_of(state.known)
        scheduling_round = SchedulingRound(observe(state), needs, self._order, self.longest_wait_s)
        return list(scheduling_round.starts(self._decide))

    def joint_action(self, joint: Joint, noise: Floats | None = None) -> Longs:
        """Return the joint action of the nodes; ``noise`` [agent, action] on the utilities makes them explore."""
        utility, factors, attention = rated(self._network, joint.node_inputs, joint.actions, joint.able)
        if noise is not None:
            utility += noise
        actions = np.zeros(len(utility), np.int64)
        if joint.tasks > 1:  # else the node that rates it highest: nothing needs coordination
            able = joint.able.reshape(len(utility), joint.tasks, len(LEVELS))
            edges = graph.edges(attention, able, actions)
            actions = graph.settle(utility, edges, graph.conflicts(factors, edges), graph.ITERATIONS)
        return _by_agent(graph.repair(actions, utility, joint.tasks), len(utility))

    def doubt(self, state: ClusterState) -> str | None:
        """Return why the agent should abstain in this state; None when it should not."""
        return (wrong_size(self.card, state) or _unknown_needs(state)
                or strange_jobs(self._outside(state), ACTION_INPUTS[:OF_JOB]))

    def drift(self, state: ClusterState) -> float:
        """Return the share of waiting jobs, 0..1, that lie outside its training range; 0 when none waits."""
        return strange_share(self._outside(state))

    def reasons(self, state: ClusterState, job: int) -> tuple[str, ...]:
        """Return the requests of a job compared with the known use of similar jobs."""
        observation = observe(state)
        at = np.flatnonzero(observation.waiting.rows == job)
        if not len(at):
            return ()
        demand, application = observation.waiting.demands[int(at[0])], observation.waiting.application[at]
        cpus, memory = (float(amount[0]) for amount in self._needs_of(state.known).of_applications(application))
        gpus, reasons = max(1, int(demand[CHUNK])), []
        if np.isfinite(cpus) and demand[CPUS] > 0:
            reasons.append(f"it asks for {demand[CPUS] / gpus:.3g} CPUs for each GPU, and its like use {cpus:.3g}")
        if np.isfinite(memory) and demand[MEMORY] > 0:
            reasons.append(f"it asks for {demand[MEMORY] / gpus / GB:.3g} GB for each GPU, and its like use "
                           f"{memory / GB:.3g}")
        return tuple(reasons)

    def _needs_of(self, known: SpeedTable) -> Needs:
        if known is not self._speed_table:
            self._speed_table, self._needs = known, Needs.of(known)
        return self._needs

    def _outside(self, state: ClusterState) -> NDArray[np.bool_]:
        """Return [job, input] whether an input of a job lies outside its range in training."""
        observation = observe(state)
        rows = job_inputs(observation, considered_jobs(observation), self._needs_of(state.known))
        return outside(self.card, ACTION_INPUTS[:OF_JOB], rows)


def _by_agent(assigned: Longs, agents: int) -> Longs:
    """Return the action of each agent, for the agent and level of each task."""
    actions = np.zeros(agents, np.int64)
    for task, (agent, level) in enumerate(assigned.tolist()):
        if agent >= 0:
            actions[agent] = 1 + task * len(LEVELS) + level
    return actions


def _unknown_needs(state: ClusterState) -> str | None:
    """Return the groups whose speed by CPUs is unknown, where too many such jobs wait; else None."""
    waiting = state.waiting
    with_gpus = waiting[state.arrays.jobs.gpus[waiting] > 0]
    unmeasured = ~grants_known(state.known, state.arrays.jobs.model[with_gpus].astype(np.int64))
    if not len(with_gpus) or unmeasured.mean() <= STRANGE:
        return None
    return f"the speed of {groups_of(state, with_gpus[unmeasured])} by CPUs is not known"


def save(folder: Path, weights: Floats, card: ModelCard, longest_wait_s: float) -> ModelCard:
    """Write weights and their card; return the card as written."""
    arrays = {"maifs": weights.astype(np.float32), "longest_wait_s": np.array([longest_wait_s])}
    return checkpoint.save(folder, card, arrays, schema())


def load(folder: Path) -> Maifs:
    """Return a saved agent; ``CheckpointError`` when its weights are not whole or not for this agent."""
    like: dict[str, NDArray[np.generic]] = {"maifs": np.zeros(SIZE, np.float32), "longest_wait_s": np.zeros(1)}
    arrays, card = checkpoint.load(folder, schema(), like=like)
    return Maifs(arrays["maifs"].astype(np.float64), card, float(arrays["longest_wait_s"][0]))

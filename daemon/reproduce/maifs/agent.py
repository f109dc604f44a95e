"""The agent of the simulator: choice of jobs for a round, and joint decisions of the nodes on their placement.

Evolution strategies train this agent; the agent for sites, on the engine, is ``daemon/agents/maifs/``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ....storage.records import ModelCard
from ...agents import checkpoint
from ...agents.maifs.graph import LEVELS
from ...replay.arrays import Floats, Longs
from . import kernel, network, observation, placing
from .arena import Round
from .exchange import exchange
from .graph import HIDDEN, RANK
from .kernel import THROUGHPUT
from .observation import NODE_INPUTS, NODE_WIDTH, NOMINATED, PAIR_INPUTS, TASK_INPUTS, TASKS
from .placing import PROPORTIONAL

SCHEMA = {"shapes": {name: list(shape) for name, shape in network.ALL_SHAPES.items()}, "hidden": HIDDEN, "rank": RANK,
          "order": list(network.ORDER_INPUTS), "node": list(NODE_INPUTS), "task": list(TASK_INPUTS),
          "levels": ["lean", "fair", "best"]}


@dataclass
class ArenaMaifs:
    """The trained agent as a policy of the simulator; it needs no torch. The flags are the paper's ablations."""

    flat: Floats = field(default_factory=lambda: network.initial(0))
    attentive: bool = True
    coordinated: bool = True
    fungible: bool = True
    """Whether CPUs and memory are variable; otherwise every job has the fair share."""
    integrated: bool = True
    """Whether placement and grants are decided together; otherwise jobs are placed by GPUs before nodes are divided."""
    decisions: int = 0
    """Number of joint decisions so far."""

    @cached_property
    def weights(self) -> network.Weights:
        """Return the arrays by name."""
        return network.unpacked(self.flat)

    def decide(self, round: Round) -> None:
        """Choose the jobs of this round, place them, and divide the nodes' CPUs and memory."""
        site, jobs, nodes = round.site, round.jobs, round.nodes
        order = round.live[np.argsort(network.keys(self.weights, round), kind="stable")]
        queue = np.empty((1 + site.size) * len(jobs.gpus), np.int64)  # each can move as many as a node has GPUs
        count = placing.select(site, jobs, nodes, order, queue)
        if self.integrated and self.fungible:
            self._place(round, queue, count)
            exchange(site, jobs, nodes, self.weights["taste"])
        else:
            placing.place_all(site, jobs, nodes, queue, count, PROPORTIONAL)
        if self.fungible:
            kernel.divide_all(site, jobs, nodes, THROUGHPUT, self.weights["taste"])
        kernel.update_speeds(site, jobs, nodes, round.live)

    def _place(self, round: Round, queue: Longs, count: int) -> None:
        """Place the queue by joint decisions of the nodes; a job without room waits."""
        site, jobs, nodes, first = round.site, round.jobs, round.nodes, 0
        while first < count:
            if kernel.whole(site, jobs.gpus[queue[first]]):
                chosen = self.gather(round, int(queue[first]))
                if len(chosen):  # else too few nodes are left, and it waits
                    count = placing.claim(site, jobs, nodes, queue, first, count, chosen)
                first += 1
                continue
            count = placing.make_room(site, jobs, nodes, queue, first, count)
            tasks = queue[first:min(first + TASKS, count)].copy()
            left = tasks[~self._settle(round, tasks)]
            if len(left) == len(tasks):
                left = left[1:]  # no node has room for the first task
            first += len(tasks) - len(left)
            queue[first:first + len(left)] = left

    def _settle(self, round: Round, tasks: Longs) -> np.ndarray:
        """Take one joint decision; return which tasks were placed."""
        chosen = self.choose(round, tasks)
        taste = self.weights["taste"]
        site, jobs, nodes = round.site, round.jobs, round.nodes
        return np.array([node >= 0 and bool(observation.accept(site, jobs, nodes, job, node, level, taste))
                         for job, (node, level) in zip(tasks.tolist(), chosen.tolist(), strict=True)])

    def choose(self, round: Round, tasks: Longs) -> Longs:
        """Return the node and the level for each of at most ``TASKS`` tasks, [task, 2], -1 where no node can."""
        site, jobs, nodes = round.site, round.jobs, round.nodes
        most = NOMINATED * len(tasks)
        candidates, requests = np.empty(most, np.int64), np.empty((most, len(tasks)), np.int64)
        count = observation.nominate(site, jobs, nodes, tasks, np.empty(site.nodes, np.int64), candidates, requests)
        if not count:
            return np.full((len(tasks), 2), -1)
        inputs, pair = np.empty((count, NODE_WIDTH)), np.empty((count, len(tasks), PAIR_INPUTS))
        able = np.empty((count, len(tasks), LEVELS))
        pairs = observation.CandidatePairs(tasks, candidates[:count], requests[:count])
        observation.observe(site, jobs, nodes, pairs, self.weights["taste"],
                            observation.AgentInputs(inputs, pair, able))
        self.decisions += 1
        given = network.joint(self.weights, inputs, pair, able, attentive=self.attentive, coordinated=self.coordinated)
        given[:, 0] = np.where(given[:, 0] >= 0, candidates[given[:, 0]], -1)
        return given

    def gather(self, round: Round, job: int) -> Longs:
        """Return the nodes for a task of several nodes; none if there are too few."""
        site, jobs, nodes = round.site, round.jobs, round.nodes
        wanted, candidates = kernel.whole(site, jobs.gpus[job]), observation.survey(site, jobs, nodes, job)
        if len(candidates) <= wanted:
            return np.asarray(candidates if len(candidates) == wanted else candidates[:0])
        inputs, pair = np.empty((len(candidates), NODE_WIDTH)), np.empty((len(candidates), 1, PAIR_INPUTS))
        observation.observe_whole(site, jobs, nodes, job, candidates, self.weights["taste"], inputs, pair)
        self.decisions += 1
        stake = 1.0 - float(site.crossing[jobs.model[job], 1])
        return np.asarray(candidates[network.together(
            self.weights, inputs, pair, site.leaf[candidates], wanted, stake, attentive=self.attentive,
            coordinated=self.coordinated)])

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card; return the card as written, digests filled in."""
        return checkpoint.save(folder, card, {"maifs": self.flat}, SCHEMA)

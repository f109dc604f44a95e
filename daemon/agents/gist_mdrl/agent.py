"""The agent of one partition (§5): its inputs, its actions, and how it chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ....storage.records import ModelCard
from .. import checkpoint
from ..memory import Floats, ReplayMemory, Transition, TransitionBatch
from .environment import GpuPartition, PlacementDecision
from .network import Shape, Weights, advantages, initial, q_values


@dataclass(frozen=True, slots=True)
class AgentChanges:
    """Changes to the paper's agent, all off by default; each is evaluated separately."""

    masked: bool = False
    """Servers without room cannot be chosen; the paper's agent learns that from rewards of -1."""
    double: bool = False
    """The policy network picks the next action, the target network values it (van Hasselt et al. 2016)."""
    dueling: bool = False
    steps: int = 1
    """n of n-step returns."""
    remaining: bool = False
    """[13] The state has the time until each server's last job ends; the paper's does not."""
    queue: bool = False
    """[13] The state has the queue, and whether the job comes from it."""
    learns_on_dequeue: bool = False
    """[4] A decision about a queued job is a learning step, too; without that Fig. 3's lesson cannot be learned."""
    paid_at_end: bool = False
    """Only U at the terminal job's start is rewarded: the paper's aim (Eq. 5) instead of its rewards (§5.2)."""
    alike: bool = False
    """Equal servers are sorted, the fullest first, so that nothing has to be learned separately for each of them."""
    keeps_best: bool = False
    """Training returns the best weights, by tests without exploration, instead of the last ones."""


LITERAL = AgentChanges()
IMPROVED = AgentChanges(masked=True, double=True, dueling=True, steps=5, remaining=True, queue=True,
                        learns_on_dequeue=True, paid_at_end=True, alike=True, keeps_best=True)


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """[15] The paper names none of these."""

    discount: float = 1.0
    """Episodes end by themselves, and only the sum counts."""
    learning_rate: tuple[float, float] = (1e-3, 2e-5)
    learning_episodes: int = 1000
    """Episodes in which the learning rate falls: utilisations that differ by 0.01 are distinguished only in the end."""
    batch: int = 64
    memory: int = 20_000
    warm_up: int = 64
    """Transitions before the first learning step."""
    target_period: int = 100
    """Learning steps between copies of the policy network to the target network."""
    hidden: tuple[int, ...] = (64, 64)
    exploration: tuple[float, float] = (1.0, 0.1)
    exploration_episodes: int = 250
    """The paper's curve settles after 300 episodes."""
    tested_every: int = 50
    """Episodes between tests without exploration, once it has come to its end; only ``keeps_best`` needs them."""


UNNAMED = Hyperparameters()


class Learner(Protocol):
    """Improves weights; the one that needs torch is in ``train.py``."""

    @property
    def weights(self) -> Weights:
        """Return the policy network."""

    def update(self, batch: TransitionBatch) -> float:
        """Take one step; return the loss."""


MOST_QUEUED = 4
"""Queued jobs of a flavour beyond which the input is clipped; the paper's episodes have no more."""


class StateEncoder:
    """Encodes a decision as the network's inputs, numbers of about 0..1."""

    def __init__(self, partition: GpuPartition, options: AgentChanges) -> None:
        self._partition, self._options = partition, options
        servers = [f"{'server, by fill, number' if options.alike else 'server'} {server}"
                   for server in range(partition.servers)]
        self.names = [f"free {resource} of {server}" for server in servers for resource in ("gpus", "cpus", "memory")]
        if options.remaining:
            self.names += [f"remaining time of {server}" for server in servers]
        if options.queue:
            self.names += [f"queued {flavor.name}" for flavor in partition.flavors] + ["from the queue"]
        # CPUs and memory may be unknown: servers then have none, and none is free.
        scales = [np.tile(np.maximum(np.array(partition.server, np.float32), 1.0), partition.servers)]
        if options.remaining:
            scales.append(np.full(partition.servers, partition.terminal.limit_s, np.float32))
        self._scale = np.concatenate([*scales, np.ones(len(self.names) - sum(map(len, scales)), np.float32)])

    def encode(self, decision: PlacementDecision, order: Sequence[int] | None = None) -> Floats:
        """Return the state of a decision, [inputs]. [13] The job itself is not in it: it limits the actions."""
        servers = self.order(decision) if order is None else order
        values: list[float] = [amount for server in servers for amount in decision.free[server]]
        if self._options.remaining:
            values += [decision.remaining_s[server] for server in servers]
        if self._options.queue:
            values += [min(count, MOST_QUEUED) for count in decision.queued]
            values.append(decision.dequeued)
        return np.asarray(np.array(values, np.float32) / self._scale)

    def encode_ordered(self, free: NDArray[np.int64], remaining_s: NDArray[np.float64], queued: Sequence[int],
                       dequeued: bool) -> Floats:  # noqa: FBT001
        """Return the state of a decision whose servers, [server, resource], are already in order."""
        values = np.zeros(len(self.names), np.float32)
        end = free.size
        values[:end] = free.ravel()
        if self._options.remaining:
            values[end:end + len(free)] = remaining_s
        if self._options.queue:
            values[-1 - len(queued):] = [*(min(count, MOST_QUEUED) for count in queued), dequeued]
        values /= self._scale
        return values

    def allowed(self, decision: PlacementDecision, order: Sequence[int] | None = None) -> NDArray[np.bool_]:
        """Return which of the network's actions are this job's (and, masked, feasible), [actions]."""
        servers, flavors = self._partition.servers, len(self._partition.flavors)
        allowed = np.zeros(flavors * (servers + 1), np.bool_)
        first = decision.flavor * servers
        allowed[first:first + servers] = [decision.room[server] for server in order or self.order(decision)] \
            if self._options.masked else True
        # [12] One queue action per flavour: which job waits says something about the state.
        allowed[flavors * servers + decision.flavor] = True
        return allowed

    def environment_action(self, decision: PlacementDecision, chosen: int, order: Sequence[int] | None = None) -> int:
        """Return the environment's action for an action of the network."""
        first = decision.flavor * self._partition.servers
        server = chosen - first
        return first + (order or self.order(decision))[server] if 0 <= server < self._partition.servers else chosen

    def order(self, decision: PlacementDecision) -> list[int]:
        """Return the servers in the order of the network's inputs."""
        servers = range(self._partition.servers)
        if not self._options.alike:
            return list(servers)
        return sorted(servers, key=lambda server: (decision.free[server], -decision.remaining_s[server]))


class GistAgent:
    """A deep Q agent of one partition."""

    def __init__(self, partition: GpuPartition, options: AgentChanges = LITERAL, values: Hyperparameters = UNNAMED,
                 *, seed: int = 0) -> None:
        self.partition, self.options, self.values = partition, options, values
        self.encoder = StateEncoder(partition, options)
        actions = len(partition.flavors) * (partition.servers + 1)
        self.shape = Shape(len(self.encoder.names), actions, values.hidden, options.dueling)
        self.random = np.random.default_rng(seed)
        self.weights = initial(self.shape, self.random)
        self.memory = ReplayMemory(values.memory, self.shape.inputs, actions)
        self.learner: Learner | None = None
        self._loss = float("nan")

    def act(self, situation: PlacementDecision, exploration: float = 0.0) -> int:
        """Return the action with the largest Q among the job's own (§5.2); the first one of equals."""
        return self.encoder.environment_action(situation, self.choose(situation, exploration))

    def best(self, situation: PlacementDecision) -> int:
        """Return the action with the largest Q without exploring, faster than :meth:`act`: serving waits for it."""
        order = self.encoder.order(situation)
        worth = advantages(self.weights, self.encoder.encode(situation, order))
        chosen = int(np.where(self.encoder.allowed(situation, order), worth, -np.inf).argmax())
        return self.encoder.environment_action(situation, chosen, order)

    def best_of(self, inputs: Floats, flavor: int, room: NDArray[np.bool_]) -> int | None:
        """Return the place of the server that has the largest Q for a job of a flavour; None to wait."""
        worth, servers = advantages(self.weights, inputs), self.partition.servers
        of_flavor = worth[flavor * servers:(flavor + 1) * servers]
        if self.options.masked:
            of_flavor = np.where(room, of_flavor, -np.inf)
        place = int(of_flavor.argmax())
        return None if of_flavor[place] < worth[len(self.partition.flavors) * servers + flavor] else place

    def choose(self, situation: PlacementDecision, exploration: float = 0.0) -> int:
        """Return that action in the network's numbering, which training uses."""
        allowed = self.encoder.allowed(situation)
        if exploration > 0.0 and self.random.random() < exploration:
            return int(self.random.choice(np.flatnonzero(allowed)))
        q = q_values(self.weights, self.encoder.encode(situation))
        return int(np.argmax(np.where(allowed, q, -np.inf)))

    def learn(self, experience: Transition) -> None:
        """Keep a transition, and take one step on a sample of those kept (Algorithm 1, lines 19-20)."""
        if self.learner is None:
            raise RuntimeError("this agent serves; training gives it a learner first")
        self.memory.add(experience)
        if len(self.memory) >= self.values.warm_up:
            self._loss = self.learner.update(self.memory.sample(self.values.batch, self.random))
            self.weights = self.learner.weights

    def schema(self) -> dict[str, object]:
        """Return what weights must have been trained for to fit here."""
        return {"agent": "gist_mdrl", "inputs": self.encoder.names, "shape": asdict(self.shape),
                "limits_s": [flavor.limit_s for flavor in (*self.partition.flavors, self.partition.terminal)]}

    def save(self, folder: Path, card: ModelCard) -> ModelCard:
        """Write weights and card."""
        return checkpoint.save(folder, card, self.weights, self.schema())

    def load(self, folder: Path) -> ModelCard:
        """Take over saved weights."""
        self.weights, card = checkpoint.load(folder, self.schema(), like=self.weights)
        return card

    @property
    def statistics(self) -> Mapping[str, float]:
        """Return the loss of the latest step, and how much is remembered."""
        return {"loss": self._loss, "memory": float(len(self.memory))}

"""Algorithm 1: play episodes, remember, learn. The only file of this agent that imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ..checkpoint import read_unfinished, schema_hash, write_unfinished
from ..memory import Arrays, Returns, Step, Transition, TransitionBatch
from ..schedules import Linear
from .agent import UNNAMED, AgentChanges, GistAgent, Hyperparameters
from .environment import (
    CLOSEST,
    HALVES,
    Arrival,
    Environment,
    EpisodeOutcome,
    GpuPartition,
    PlacementDecision,
    Reading,
    play,
    sequences,
)
from .network import Weights, q_values

TRAINING = "training.safetensors"
_TESTED = {"all": slice(None), "0": HALVES[0], "1": HALVES[1]}


def device_named(name: str) -> str:
    """Return where to train: ``auto`` is CUDA where there is one. RuntimeError when that device is not there."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise RuntimeError("torch finds no CUDA device here; train on the cpu, which is as fast for networks so small")
    return ("cuda" if available else "cpu") if name == "auto" else name


class TransitionTensors(NamedTuple):
    """The columns of a ``TransitionBatch``, where the network is."""

    state: torch.Tensor
    action: torch.Tensor
    reward: torch.Tensor
    discount: torch.Tensor
    next_state: torch.Tensor
    next_allowed: torch.Tensor


class DeepQ:
    """Moves a policy network towards Eq. 6, whose next value comes from a target network."""

    def __init__(self, weights: Weights, values: Hyperparameters, *, double: bool, device: str = "cpu") -> None:
        self._period, self._double, self._device = values.target_period, double, torch.device(device)
        self.policy = {name: torch.tensor(array, device=self._device, requires_grad=True)
                       for name, array in weights.items()}
        self.target = {name: tensor.detach().clone() for name, tensor in self.policy.items()}
        self.optimizer = torch.optim.Adam(self.policy.values(), lr=values.learning_rate[0])
        self.updates = 0

    @property
    def weights(self) -> Weights:
        """Return the policy network; on a CPU this is the same memory, not a copy."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.policy.items()}

    def set_learning_rate(self, learning_rate: float) -> None:
        """Set the learning rate of the steps to come."""
        self.optimizer.param_groups[0]["lr"] = learning_rate

    def update(self, batch: TransitionBatch) -> float:
        """Take one step on the Huber loss of Eq. 6; FloatingPointError when it is not finite."""
        columns = TransitionTensors(*(torch.from_numpy(column).to(self._device) for column in batch))
        wanted = columns.reward + columns.discount * self._next_value(columns)
        q = q_values(self.policy, columns.state).gather(1, columns.action[:, None])[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(q, wanted)
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss.item()} after {self.updates} steps: "
                                     "a lower learning rate may help")
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.updates += 1
        if self.updates % self._period == 0:
            self.copy_to_target()
        return loss.item()

    @torch.no_grad()
    def _next_value(self, columns: TransitionTensors) -> torch.Tensor:
        """Return the value of the next state: the best of the actions that are open there."""
        target = q_values(self.target, columns.next_state)
        chooser = q_values(self.policy, columns.next_state) if self._double else target
        best = chooser.masked_fill(~columns.next_allowed, -torch.inf).argmax(1, keepdim=True)
        return target.gather(1, best)[:, 0]

    def state(self) -> Weights:
        """Return all arrays that the next step depends on."""
        parts = {"policy": self.policy, "target": self.target}
        for name, tensor in self.policy.items():
            for moment, value in self.optimizer.state.get(tensor, {}).items():
                parts.setdefault(f"adam.{moment}", {})[name] = value
        return {f"{part}.{name}": tensor.detach().cpu().numpy() for part, tensors in parts.items()
                for name, tensor in tensors.items()}

    @torch.no_grad()
    def restore(self, arrays: Weights, updates: int) -> None:
        """Take over what :meth:`state` returned."""
        self.updates = updates
        for name, tensor in self.policy.items():
            tensor.copy_(torch.from_numpy(arrays[f"policy.{name}"]))
            self.target[name].copy_(torch.from_numpy(arrays[f"target.{name}"]))
            moments = ((key, key.split(".", 2)) for key in arrays if key.startswith("adam."))
            self.optimizer.state[tensor] = {parts[1]: torch.from_numpy(arrays[key]).to(self._device)
                                            for key, parts in moments if parts[2] == name}

    @torch.no_grad()
    def start_from(self, weights: Weights) -> None:
        """Start from the weights of another training, with a fresh optimiser."""
        for name, tensor in self.policy.items():
            tensor.copy_(torch.from_numpy(np.array(weights[name])))
        self.copy_to_target()

    @torch.no_grad()
    def copy_to_target(self) -> None:
        """Copy the policy network to the target network."""
        for name, tensor in self.target.items():
            tensor.copy_(self.policy[name])


@dataclass(frozen=True, slots=True)
class GistEpisode:
    """One episode of training."""

    number: int
    """The number of the episode, counted from 0."""
    outcome: EpisodeOutcome
    reward: float
    """Sum of §5.2's rewards for all decisions, the terminal job's U included."""
    exploration: float


Draw = Callable[[np.random.Generator], Sequence[Arrival]]
"""Draws the jobs of an episode."""


class PartitionTraining:
    """The training of one agent, which resumes exactly where a saved one stopped.

    [16] Eq. 5 sums U over partitions that share nothing, so each partition's agent is trained by itself.
    """

    def __init__(self, partition: GpuPartition, options: AgentChanges, values: Hyperparameters = UNNAMED, *,
                 reading: Reading = CLOSEST, seed: int = 0, device: str = "cpu", draw: Draw | None = None) -> None:
        # One network is too small to be worth a second thread, and one thread adds in one order.
        torch.set_num_threads(1)
        device = device_named(device)
        self.agent = GistAgent(partition, options, values, seed=seed)
        self._learner = DeepQ(self.agent.weights, values, double=options.double, device=device)
        self.agent.learner = self._learner
        self._environment, self._draw = Environment(partition, reading), draw
        # The jobs come from a generator of their own: agents that explore differently meet the same jobs.
        self._jobs = np.random.default_rng([seed, 1])
        self._exploration = Linear(*values.exploration, values.exploration_episodes)
        self._learning_rate = Linear(*values.learning_rate, values.learning_episodes)
        self._best: dict[str, tuple[float, Weights]] = {}
        self.episodes = 0
        self._plan = {"schema": self.agent.schema(), "options": asdict(options), "values": asdict(values),
                      "reading": asdict(reading), "seed": seed, "tested": list(_TESTED)}

    def run(self) -> Iterator[GistEpisode]:
        """Yield episodes without end, learning in each."""
        while True:
            exploration = self._exploration(self.episodes)
            self._learner.set_learning_rate(self._learning_rate(self.episodes))
            number, self.episodes = self.episodes, self.episodes + 1
            reward = self._play(self._begin(), exploration)
            episode = GistEpisode(number, self._environment.outcome, reward, exploration)
            if self.agent.options.keeps_best and self._due():
                self._test()
            yield episode

    def start_from(self, weights: Weights) -> None:
        """Begin with the weights of another training (fine-tuning)."""
        self._learner.start_from(weights)
        self.agent.weights = self._learner.weights

    def conclude(self) -> GistAgent:
        """Return the agent for serving, with its last weights, or its best where the options ask for them."""
        if self._best:
            self.agent.weights = self._best["all"][1]
        return self.agent

    def best_without(self, half: int) -> Weights:
        """Return the weights that did best on the other half of the sequences; the last ones where none are kept."""
        return self._best[str(1 - half)][1] if self._best else self.agent.weights

    def _due(self) -> bool:
        """Tell whether a test is due; there is none before exploration has come down."""
        values = self.agent.values
        return self.episodes >= values.exploration_episodes and self.episodes % values.tested_every == 0

    def _test(self) -> None:
        """Play every sequence without exploration; keep the weights if they did better than any before."""
        worths = [play(self._environment, flavors, self.agent.act).utilization
                  for flavors in sequences(self.agent.partition)]
        for tested, part in _TESTED.items():
            worth = float(np.mean(worths[part]))
            if tested not in self._best or worth > self._best[tested][0]:
                self._best[tested] = worth, {name: array.copy() for name, array in self.agent.weights.items()}

    def _begin(self) -> PlacementDecision:
        if self._draw is not None:
            return self._environment.begin(self._draw(self._jobs))
        partition = self.agent.partition
        return self._environment.reset(self._jobs.integers(0, len(partition.flavors), partition.jobs).tolist())

    def _play(self, decision: PlacementDecision | None, exploration: float) -> float:
        """Play one episode (Algorithm 1, lines 11-21); return its rewards."""
        agent, options, steps = self.agent, self.agent.options, _Pending(self.agent)
        total = 0.0
        while decision is not None:
            decided, chosen = decision, agent.choose(decision, exploration)
            reward, decision = self._environment.step(agent.encoder.environment_action(decided, chosen))
            total += reward
            if options.learns_on_dequeue or not decided.dequeued:
                steps.add(decided, chosen, 0.0 if options.paid_at_end else reward)
        # [6] The terminal job has one action, to start on all servers; U then is its reward, one step later.
        final_reward = self._environment.outcome.utilization
        steps.end(agent.values.discount * final_reward)
        return total + final_reward

    def save(self, folder: Path) -> None:
        """Save the state for a later :meth:`resume`, in one file."""
        state = {"plan": schema_hash(self._plan), "episodes": self.episodes, "updates": self._learner.updates,
                 "random": self.agent.random.bit_generator.state, "jobs": self._jobs.bit_generator.state}
        arrays = self._learner.state() | _under("memory", self.agent.memory.state())
        state["best"] = {tested: worth for tested, (worth, _) in self._best.items()}
        for tested, (_, weights) in self._best.items():
            arrays |= _under(f"best.{tested}", weights)
        write_unfinished(folder / TRAINING, state, arrays)

    def resume(self, folder: Path) -> None:
        """Resume a saved state; ``CheckpointError`` for another or a damaged training."""
        state, arrays = read_unfinished(folder / TRAINING, schema_hash(self._plan), "other options, seed or partition")
        self.episodes = state["episodes"]
        self._learner.restore(arrays, state["updates"])
        self.agent.memory.restore(_below("memory", arrays))
        self._best = {tested: (worth, _below(f"best.{tested}", arrays)) for tested, worth in state["best"].items()}
        self.agent.random.bit_generator.state, self._jobs.bit_generator.state = state["random"], state["jobs"]
        self.agent.weights = self._learner.weights


class _Pending:
    """Holds each step until the next state is known, which the transition needs."""

    def __init__(self, agent: GistAgent) -> None:
        self._agent = agent
        self._returns = Returns(agent.options.steps, agent.values.discount)
        self._last: Step | None = None

    def add(self, decision: PlacementDecision, action: int, reward: float) -> None:
        """Take the next step of the episode."""
        encoder, before = self._agent.encoder, self._last
        self._last = Step(encoder.encode(decision), encoder.allowed(decision), action, reward)
        if before is not None:
            self._learn(self._returns.add(before))

    def end(self, reward: float) -> None:
        """End the episode with a reward that the last step earned in the end."""
        assert self._last is not None
        self._learn(self._returns.add(replace(self._last, reward=self._last.reward + reward)))
        self._learn(self._returns.end())

    def _learn(self, transitions: Iterator[Transition]) -> None:
        for transition in transitions:
            self._agent.learn(transition)


def _under(folder: str, arrays: Arrays) -> Weights:
    return {f"{folder}.{name}": array for name, array in arrays.items()}


def _below(folder: str, arrays: Arrays) -> Weights:
    return {name.removeprefix(f"{folder}."): array for name, array in arrays.items() if name.startswith(f"{folder}.")}

"""Training of DL2's agent: imitation of a scheduler, then actor-critic. Only this file imports torch."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ....storage.records import ModelCard
from ...agents.checkpoint import read_unfinished, schema_hash, write_unfinished
from ...agents.kinds import TrainingError
from ...replay.arrays import Floats, Longs, Masks, Singles
from .agent import PAPER, PUBLISHED, Ablations, FlatAgent, PaperSettings, trail
from .arena import ArenaTrace, SlotPolicy, mean_jct, progress, traces, watch
from .flat_kernel import Trail, rebuild
from .kernel import ArenaCluster, waiting
from .memory import DecisionBatch, DecisionMemory
from .network import Weights, desk, initial, outputs

STATE = "training.safetensors"
LONGEST = 1000
"""Largest number of slots of a training episode, because a job without progress would never end."""
CORRECTION = (0.1, 1.0)
"""Beta of the prioritised memory at the beginning and at the end of training."""


@dataclass(frozen=True)
class Dl2TrainingConfig:
    """All settings of a training of DL2's agent; the same config gives the same agent."""

    cluster: ArenaCluster
    teacher: SlotPolicy
    seed: int = 1
    """Seed of the training traces; the traces for selection use the next seed. Neither is the paper's seed."""
    options: Ablations = PAPER
    values: PaperSettings = PUBLISHED
    updates: int = 6000
    """Number of updates by reinforcement learning, one for each slot."""
    judged_every: int = 500
    chosen_by: int = 10
    folder: Path | None = None
    """Folder of the training's state, from which it resumes."""


@dataclass(frozen=True)
class Dl2TrainingProgress:
    """Progress of a training of DL2's agent."""

    update: int
    """Number of updates by reinforcement learning so far; 0 after the warm-up."""
    jct: float
    """Mean completion time on the traces for selection, slots."""
    best: Weights
    """Weights of the best policy so far."""
    spent_s: float


def tensors(weights: Weights) -> dict[str, torch.Tensor]:
    """Return weights as trainable tensors."""
    return {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}


def arrays(weights: dict[str, torch.Tensor]) -> Weights:
    """Return trained tensors as arrays that share their memory."""
    return {name: tensor.detach().numpy() for name, tensor in weights.items()}


def masked(policy: dict[str, torch.Tensor], states: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return the log probabilities of actions among the open actions."""
    return torch.log_softmax(outputs(policy, states).masked_fill(~allowed, -1e9), dim=-1)


def lessons(config: Dl2TrainingConfig) -> tuple[Singles, Masks, Longs]:
    """Return the teacher's states, open actions and actions, [decision, ...]; TrainingError if there are none."""
    trails = []
    for trace in islice(traces(config.seed), config.values.imitated):
        for slot in islice(watch(config.cluster, trace, config.teacher, np.full(len(trace.arrival), np.nan)), LONGEST):
            observed = slot.jobs
            jobs = waiting(config.cluster, observed.number, observed.model, observed.stay, observed.remaining,
                           observed.epochs)
            recorded = trail(config.values.shape, int(observed.steps[0]))
            teacher_jobs = observed._replace(tasks=observed.tasks.copy())
            rebuild(config.cluster, jobs, np.zeros_like(slot.used), teacher_jobs, desk(config.values.shape), recorded)
            trails.append(recorded)
    if not sum(int(recorded.taken[0]) for recorded in trails):
        raise TrainingError("the teacher gives no job more than its first bundle: there is nothing to imitate; name "
                            "another one, or train without")
    return joined(trails)


def joined(trails: Sequence[Trail]) -> tuple[Singles, Masks, Longs]:
    """Return the states, open actions and actions of all records, joined, [decision, ...]."""
    states, allowed, actions = ([getattr(decisions, column)[:decisions.taken[0]] for decisions in trails]
                                for column in ("states", "allowed", "actions"))
    return np.concatenate(states), np.concatenate(allowed), np.concatenate(actions)


def imitate(policy: dict[str, torch.Tensor], lessons: tuple[Singles, Masks, Longs], values: PaperSettings,
            random: np.random.Generator) -> None:
    """Move a policy towards the teacher's decisions by cross-entropy (§4.2)."""
    taught = tuple(torch.from_numpy(column) for column in lessons)
    optimizer = torch.optim.Adam(policy.values(), lr=values.imitation_rate)
    for update in range(values.imitation_updates):
        optimizer.param_groups[0]["lr"] = values.imitation_rate * (1 - update / values.imitation_updates)
        rows = torch.from_numpy(random.integers(0, len(taught[0]), values.batch))
        states, allowed, actions = (column[rows] for column in taught)
        loss = torch.nn.functional.nll_loss(masked(policy, states, allowed), actions)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


class DecisionTensors(NamedTuple):
    """The columns of a ``DecisionBatch`` as tensors."""

    state: torch.Tensor
    allowed: torch.Tensor
    action: torch.Tensor
    chance: torch.Tensor
    reward: torch.Tensor
    following: torch.Tensor
    further: torch.Tensor


class ActorCritic:
    """A policy network and a value network, which is the baseline of the advantages."""

    def __init__(self, policy: dict[str, torch.Tensor], value: dict[str, torch.Tensor], options: Ablations,
                 values: PaperSettings) -> None:
        self.policy, self.value, self._options, self._values = policy, value, options, values
        self.optimizers = (torch.optim.Adam(policy.values(), lr=values.rate),
                           torch.optim.Adam(value.values(), lr=values.critic_rate))
        self.average = 0.0
        """Moving average of rewards, used without a critic."""

    def update(self, batch: DecisionBatch, weights: Singles) -> Floats:
        """Take one step; return the errors of the values. FloatingPointError if the loss is not finite."""
        decisions = DecisionTensors(*(torch.from_numpy(np.ascontiguousarray(column)) for column in batch))
        important = torch.from_numpy(weights)
        advantage, critic_loss = self._advantage(decisions, important)
        log_chances = masked(self.policy, decisions.state, decisions.allowed)
        ratio = (log_chances.gather(1, decisions.action[:, None])[:, 0] - decisions.chance.clamp_min(1e-20).log()).exp()
        clipped = ratio.clamp(1 - self._values.clip, 1 + self._values.clip)
        entropy = -(log_chances.exp() * log_chances.clamp_min(-50.0)).sum(1)
        gain = torch.minimum(ratio * advantage, clipped * advantage) + self._values.entropy * entropy
        loss = critic_loss - (important * gain).mean()
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss.item()}: a lower learning rate may help")
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in self.optimizers:
            optimizer.step()
        return advantage.numpy().astype(np.float64)

    def state(self) -> Weights:
        """Return all arrays that the next step depends on."""
        parts: Weights = {}
        for part, weights, optimizer in self._parts():
            for name, tensor in weights.items():
                parts[f"{part}.{name}"] = tensor.detach().numpy()
                for slot, moment in optimizer.state.get(tensor, {}).items():
                    parts[f"{part}.{name}.{slot}"] = moment.numpy()
        return parts

    @torch.no_grad()
    def restore(self, arrays: Weights, average: float) -> None:
        """Restore the arrays that :meth:`state` returned."""
        self.average = average
        for part, weights, optimizer in self._parts():
            for name, tensor in weights.items():
                tensor.copy_(torch.from_numpy(arrays[f"{part}.{name}"]))
                moments = {slot: arrays.get(f"{part}.{name}.{slot}") for slot in ("step", "exp_avg", "exp_avg_sq")}
                optimizer.state[tensor] = {slot: torch.from_numpy(moment.copy())
                                           for slot, moment in moments.items() if moment is not None}

    def _parts(self) -> Iterator[tuple[str, dict[str, torch.Tensor], torch.optim.Adam]]:
        yield "policy", self.policy, self.optimizers[0]
        yield "value", self.value, self.optimizers[1]

    def _advantage(self, decisions: DecisionTensors, important: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the advantages of actions, and the loss of the value network."""
        if not self._options.critic:
            self.average = 0.99 * self.average + 0.01 * float(decisions.reward.mean())
            return decisions.reward - self.average, torch.zeros(())
        with torch.no_grad():
            ahead = outputs(self.value, decisions.following)[:, 0] * decisions.further
            wanted = decisions.reward + self._options.discount * ahead
        expected = outputs(self.value, decisions.state)[:, 0]
        wrong = wanted - expected
        return wrong.detach(), (important * torch.nn.functional.huber_loss(expected, wanted, reduction="none")).mean()


class Practice:
    """A policy that is trained with each new slot and with remembered slots."""

    def __init__(self, values: PaperSettings, options: Ablations, updates: int, random: np.random.Generator) -> None:
        shape = values.shape
        self.learner = ActorCritic(tensors(initial(shape, shape.actions, random)),
                                   tensors(initial(shape, 1, random)), options, values)
        self.memory = DecisionMemory(shape, values.memory)
        self.rewards = (0.0, 0)
        """Sum and number of rewards so far."""
        self.updates = 0
        self._values, self._options, self._planned, self._random = values, options, updates, random

    @property
    def policy(self) -> Weights:
        """Return the policy as it is now, which learning changes in place."""
        return arrays(self.learner.policy)

    def learn(self, batch: DecisionBatch) -> None:
        """Store the decisions of a slot and take one training step."""
        total, count = self.rewards[0] + float(batch.reward[0]), self.rewards[1] + 1
        self.rewards = total, count
        self.updates += 1
        if not self._options.replay:
            self.learner.update(batch, np.ones(len(batch.action), np.float32))
            return
        self.memory.add(batch, max(1.0, float(batch.reward[0]) - total / count))
        share = min(1.0, self.updates / self._planned)
        correction = CORRECTION[0] + share * (CORRECTION[1] - CORRECTION[0])
        rows, drawn, weights = self.memory.sample(self._values.batch, correction, self._random)
        self.memory.learned(rows, self.learner.update(drawn, weights))


class SlotTraining:
    """A training of DL2's agent on simulated slots; a saved training continues where it stopped."""

    def __init__(self, config: Dl2TrainingConfig) -> None:
        torch.set_num_threads(1)  # so small a network is not worth a second one, and one thread adds in one order
        self.config, self.spent_s = config, 0.0
        self.random = np.random.default_rng(config.seed)
        self._practice = Practice(config.values, config.options, config.updates, self.random)
        self._judges = list(islice(traces(config.seed + 1), config.chosen_by))
        self._trace = 0
        """Number of the next training trace."""
        self.best = copied(self.policy)
        self.curve: list[tuple[int, float]] = []
        self._warmed = False

    def run(self) -> Iterator[Dl2TrainingProgress]:
        """Train; yield after the warm-up and after each evaluation.

        A caller that stops keeps the best policy so far.
        """
        began = time.monotonic() - self.spent_s
        if not self._warmed:
            if self.config.options.warm_up:
                imitate(self._practice.learner.policy, lessons(self.config), self.config.values, self.random)
            self._warmed = True
            yield self._judge(began)
        episodes = islice(traces(self.config.seed), self._trace, None)
        while self.updates < self.config.updates:
            for update in self._episode(next(episodes)):
                if update % self.config.judged_every == 0 or update == self.config.updates:
                    yield self._judge(began)
                if update == self.config.updates:
                    break
            self._trace += 1
            self.spent_s = time.monotonic() - began
            self._save()

    @property
    def agent(self) -> FlatAgent:
        """Return an agent with the best weights so far."""
        return FlatAgent(self.best, self.config.values.shape)

    @property
    def policy(self) -> Weights:
        """Return the policy as it is now, which learning changes in place."""
        return self._practice.policy

    @property
    def updates(self) -> int:
        """Return the number of updates so far."""
        return self._practice.updates

    def _judge(self, began: float) -> Dl2TrainingProgress:
        """Evaluate the policy, and keep its weights if they are the best so far."""
        self.spent_s = time.monotonic() - began
        agent = FlatAgent(self.policy, self.config.values.shape)
        mean_slots = float(mean_jct(self.config.cluster, agent, self._judges).mean())
        if not self.curve or mean_slots < min(score for _, score in self.curve):
            self.best = copied(self.policy)
        self.curve.append((self.updates, mean_slots))
        return Dl2TrainingProgress(self.updates, mean_slots, self.best, self.spent_s)

    def _episode(self, trace: ArenaTrace) -> Iterator[int]:
        """Simulate a trace and train once in each slot; yield the number of updates."""
        config, options = self.config, self.config.options
        recorded = trail(config.values.shape, 2 * config.cluster.most * len(trace.arrival))
        agent = FlatAgent(self.policy, config.values.shape, self.random.random,
                          config.values.exploration if options.aware else 0.0, recorded)
        slots = islice(watch(config.cluster, trace, agent, np.full(len(trace.arrival), np.nan)), LONGEST)
        rewards = (float((progress(config.cluster, slot.jobs) / slot.jobs.epochs).sum()) for slot in slots)
        for batch in linked(decided(recorded, reward) for reward in rewards):
            self._practice.learn(batch)
            yield self.updates

    @property
    def plan(self) -> str:
        """Return the digest of all settings that identify this training."""
        config = self.config
        return schema_hash({"options": asdict(config.options), "values": asdict(config.values), "seed": config.seed,
                            "updates": config.updates, "teacher": repr(config.teacher), "most": config.cluster.most,
                            "speeds": hashlib.sha256(config.cluster.rates.tobytes()).hexdigest()})

    def _save(self) -> None:
        """Write the state that the training needs to continue, in one file."""
        if self.config.folder is None:
            return
        state = {"plan": self.plan, "updates": self.updates, "trace": self._trace, "spent_s": self.spent_s,
                 "rewards": self._practice.rewards, "average": self._practice.learner.average, "curve": self.curve,
                 "random": self.random.bit_generator.state}
        parts: dict[str, Mapping[str, NDArray[np.generic]]] = {
            "best": self.best, "memory": self._practice.memory.state(), "learner": self._practice.learner.state()}
        arrays = {f"{part}.{name}": array for part, part_arrays in parts.items() for name, array in part_arrays.items()}
        write_unfinished(self.config.folder / STATE, state, arrays)

    def resume(self) -> SlotTraining:
        """Restore the saved state, if there is one; ``CheckpointError`` if its settings differ or it is damaged."""
        path = None if self.config.folder is None else self.config.folder / STATE
        if path is None or not path.exists():
            return self
        state, arrays = read_unfinished(path, self.plan, "other settings")
        parts: dict[str, Weights] = {}
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = array
        self.best = parts["best"]
        self._practice.memory.restore(parts["memory"])
        self._practice.learner.restore(parts["learner"], float(state["average"]))
        self._practice.updates, self._trace, self.spent_s = state["updates"], state["trace"], state["spent_s"]
        self._practice.rewards = (state["rewards"][0], state["rewards"][1])
        self.curve, self._warmed = [(update, score) for update, score in state["curve"]], True
        self.random.bit_generator.state = state["random"]
        return self


def copied(weights: Weights) -> Weights:
    """Return a copy of weights, which training does not change."""
    return {name: array.copy() for name, array in weights.items()}


def decided(recorded: Trail, reward: float) -> DecisionBatch | None:
    """Remove the decisions of a slot from a record; all get the slot's reward. None if there are none."""
    count = int(recorded.taken[0])
    recorded.taken[0] = 0
    if count == 0:
        return None
    states = recorded.states[:count].copy()
    return DecisionBatch(states, recorded.allowed[:count].copy(), recorded.actions[:count].copy(),
                         recorded.chances[:count].astype(np.float32), np.full(count, reward, np.float32),
                         np.zeros_like(states),
                         np.ones(count, np.float32))


def linked(slots: Iterable[DecisionBatch | None]) -> Iterator[DecisionBatch]:
    """Yield the slots of an episode that have decisions, each with the first state of the next such slot."""
    before: DecisionBatch | None = None
    for batch in slots:
        if batch is None:
            continue
        if before is not None:
            yield before._replace(following=np.broadcast_to(batch.state[0], before.state.shape))
        before = batch
    if before is not None:
        yield before._replace(further=np.zeros_like(before.further))


def card_of(training: SlotTraining) -> ModelCard:
    """Return the model card of a trained agent."""
    config = training.config
    curve = tuple((update / max(config.updates, 1), score) for update, score in training.curve)
    return ModelCard("dl2-flat", "1", time.time(), config.seed, version("idlewatt"), "", "", kind="dl2", curve=curve,
                     metrics={"jct_slots": min(score for _, score in training.curve), "wall_s": training.spent_s},
                     source=f"traces of DL2's generator, seed {config.seed}")

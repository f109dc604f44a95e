"""Training of the published agent: imitation of the best rule, then PPO (Schulman et al. 2017).

The only file of TopDRL that imports torch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
import torch

from .....storage.records import ModelCard
from ....agents.checkpoint import schema_hash
from ....replay.arrays import Floats, Longs, Singles
from ..arena import MIXES, ArenaEpisode, described, made_up, outcome
from ..kernel import NOW
from ..orders import CLOSE
from .agent import SCHEMA, WAIT, WAITING_COSTS, ActionEpisode, Literal, NetworkInput, play
from .kernel import QUEUE
from .network import GPUS, Weights, forward, initial

HOUR_S = 3600.0
_RUN, _SLOWER = QUEUE.index("run"), QUEUE.index("slower now")


@dataclass(frozen=True)
class CanvasTrainingConfig:
    """All settings of a training; the same config gives the same agent."""

    seed: int = 1
    lessons: int = 32
    """Number of episodes of the imitated rule."""
    epochs: int = 20
    """Number of passes over the imitated episodes."""
    rounds: int = 60
    values_first: int = 8
    """Number of first rounds that train only the values; otherwise the first advantages would be random."""
    tables: int = 8
    """Number of parallel episodes."""
    steps: int = 256
    """Number of steps of each parallel episode in a round."""
    chosen_by: int = 16
    chosen_every: int = 5
    rate: float = 3e-4
    clip: float = 0.2
    passes: int = 4
    batch: int = 256
    entropy: float = 0.003
    horizon_h: float = 24.0
    """Time constant of the discount, h: a reward this much later counts 1/e."""
    smoothing: float = 0.95
    """Lambda of generalised advantage estimation."""
    waiting: float = WAITING_COSTS

    @property
    def plan(self) -> str:
        """Return the digest of all settings that identify this training."""
        return schema_hash({**SCHEMA, **asdict(self), "bench": described()})


@dataclass(frozen=True)
class CanvasTrainingProgress:
    """Progress of a training of the published agent."""

    round: int
    worth: float
    """Log ratio of the completion time to the imitated rule's, on the episodes for selection."""
    best: Weights


class TensorInput(NamedTuple):
    """Inputs of the network as tensors, [decision, ...]; see ``NetworkInput``."""

    canvas: torch.Tensor
    queue: torch.Tensor
    summary: torch.Tensor
    open: torch.Tensor


class ActionBatch(NamedTuple):
    """A batch of decisions as columns, [decision, ...]."""

    canvas: torch.Tensor
    queue: torch.Tensor
    summary: torch.Tensor
    open: torch.Tensor
    action: torch.Tensor
    logarithm: torch.Tensor
    """Log probability of each taken action."""
    advantage: torch.Tensor
    wanted: torch.Tensor
    """Target of the value."""


def rule(view: NetworkInput) -> int:
    """Return the action of the best rule: shortest first at present speeds, and wait for close GPUs."""
    close = view.open[:WAIT] & (view.queue[:, _SLOWER] <= -math.log(CLOSE))
    fitting = close if close.any() or view.open[WAIT] else view.open[:WAIT]
    if not fitting.any():
        return WAIT
    length = np.expm1(view.queue[:, _RUN] / 0.4) * np.exp(view.queue[:, _SLOWER])
    return int(np.where(fitting, length, np.inf).argmin())


def episodes(seed: int, count: int) -> list[ArenaEpisode]:
    """Return generated episodes for the size of cluster that the network supports."""
    return [made_up(seed, number, GPUS, MIXES[number % len(MIXES)]) for number in range(count)]


class Seat:
    """An endless series of episodes, with a reward for finished work minus waiting."""

    def __init__(self, config: CanvasTrainingConfig, number: int) -> None:
        self._config, self._next = config, number
        self.table = self._deal()

    def _deal(self) -> ActionEpisode:
        episode = made_up(self._config.seed, self._next, GPUS, MIXES[self._next % len(MIXES)])
        self._next += self._config.tables
        return ActionEpisode(episode)

    def act(self, action: int) -> tuple[float, float]:
        """Take an action; return its reward and the discount until the next decision (0 at an episode's end)."""
        before = float(self.table.cluster.clock[NOW])
        self.table.act(action)
        hours = (float(self.table.cluster.clock[NOW]) - before) / HOUR_S
        reward = self._earned(before) if hours > 0 else 0.0
        if self.table.over:
            self.table = self._deal()
            return reward, 0.0
        return reward, math.exp(-hours / self._config.horizon_h)

    def _earned(self, since: float) -> float:
        """Return the work done, in hours at the best speed, minus the cost of waiting; about 1 in the horizon.

        Every job counts once, whatever its number of GPUs, as in the mean completion time.
        """
        jobs, now = self.table.jobs, float(self.table.cluster.clock[NOW])
        going = np.maximum(0.0, np.minimum(jobs.end, now) - np.maximum(jobs.start, since)) * jobs.speed
        until = np.where(np.isnan(jobs.start), now, jobs.start)
        waited = np.maximum(0.0, np.minimum(until, now) - np.maximum(jobs.submit, since))
        hours = float(np.nansum(going) - self._config.waiting * waited.sum()) / HOUR_S
        return hours / GPUS / self._config.horizon_h


class CanvasLearner:
    """The network in torch, with its optimiser."""

    def __init__(self, config: CanvasTrainingConfig) -> None:
        self.config = config
        self.tensors = {name: torch.tensor(array, requires_grad=True) for name, array in initial(config.seed).items()}
        self._optimizer = torch.optim.Adam(self.tensors.values(), lr=config.rate)
        self._draw = torch.Generator().manual_seed(config.seed)

    @property
    def weights(self) -> Weights:
        """Return a copy of the weights."""
        return {name: tensor.detach().numpy().copy() for name, tensor in self.tensors.items()}

    def chances(self, columns: TensorInput | ActionBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log probabilities of actions (-inf for closed ones), and the values."""
        jobs, wait, value = forward(self.tensors, columns.canvas, columns.queue, columns.summary)
        logits = torch.cat((jobs, wait), dim=1)
        return torch.log_softmax(logits.masked_fill(~columns.open, -1e9), dim=1), value

    @torch.no_grad()
    def draw(self, views: Sequence[NetworkInput]) -> tuple[Longs, Singles, Singles]:
        """Return a random action for each input, its log probability and the value."""
        chances, value = self.chances(_stacked(views))
        action = torch.multinomial(chances.exp(), 1, generator=self._draw)
        return action[:, 0].numpy(), chances.gather(1, action)[:, 0].numpy(), value.numpy()

    def imitate(self, views: Sequence[NetworkInput], actions: Sequence[int]) -> None:
        """Train on a rule's actions by cross-entropy."""
        columns, wanted = _stacked(views), torch.tensor(actions)
        for _ in range(self.config.epochs):
            for rows in self._shuffled(len(actions)):
                chances, _ = self.chances(TensorInput(*(column[rows] for column in columns)))
                self._step(-chances.gather(1, wanted[rows, None]).mean(), tuple(self.tensors))

    def improve(self, batch: ActionBatch, *, values_only: bool) -> None:
        """Take the steps of PPO on the decisions of a round."""
        for _ in range(self.config.passes):
            for rows in self._shuffled(len(batch.action)):
                chosen = ActionBatch(*(column[rows] for column in batch))
                chances, value = self.chances(chosen)
                off = 0.5 * (value - chosen.wanted).square().mean()
                if values_only:
                    self._step(off, ("value.weight", "value.bias"))
                else:
                    self._step(off + self._surrogate(chosen, chances), tuple(self.tensors))

    def _shuffled(self, count: int) -> Sequence[torch.Tensor]:
        """Return row numbers in random order, a batch at a time."""
        return torch.split(torch.randperm(count, generator=self._draw), self.config.batch)

    def _surrogate(self, batch: ActionBatch, chances: torch.Tensor) -> torch.Tensor:
        ratio = (chances.gather(1, batch.action[:, None])[:, 0] - batch.logarithm).exp()
        advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-6)
        clipped = ratio.clamp(1 - self.config.clip, 1 + self.config.clip)
        entropy = -(chances.exp() * chances.clamp(min=-30)).sum(dim=1).mean()
        return -torch.minimum(ratio * advantage, clipped * advantage).mean() - self.config.entropy * entropy

    def _step(self, loss: torch.Tensor, moving: Sequence[str]) -> None:
        if not torch.isfinite(loss):
            raise FloatingPointError("the loss is no number: a lower rate may help")
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for name, tensor in self.tensors.items():
            if name not in moving:
                tensor.grad = None
        torch.nn.utils.clip_grad_norm_(self.tensors.values(), 0.5)
        self._optimizer.step()


def _stacked(views: Sequence[NetworkInput]) -> TensorInput:
    return TensorInput(*(torch.from_numpy(np.stack(column)) for column in zip(*views, strict=True)))


def train(config: CanvasTrainingConfig) -> Iterator[CanvasTrainingProgress]:
    """Train and yield progress; a caller that stops keeps the best weights so far."""
    torch.set_num_threads(1)  # more of them only wait for each other on networks so small
    learner, judges = CanvasLearner(config), episodes(config.seed + 1, config.chosen_by)
    learner.imitate(*_lesson(episodes(config.seed, config.lessons)))
    known = [outcome(episode, play(episode, rule)).jct_s for episode in judges]
    seats = [Seat(config, number) for number in range(config.tables)]
    best, least = learner.weights, math.inf
    for number in range(config.rounds + 1):
        if number:
            learner.improve(_played(learner, seats), values_only=number <= config.values_first)
        if number % config.chosen_every == 0 or number == config.rounds:
            agent = Literal(learner.weights)
            worth = float(np.mean([math.log(outcome(episode, agent.replay(episode)).jct_s / known_jct_s)
                                   for episode, known_jct_s in zip(judges, known, strict=True)]))
            best, least = (agent.weights, worth) if worth < least else (best, least)
            yield CanvasTrainingProgress(number, worth, best)


def _lesson(shown: Sequence[ArenaEpisode]) -> tuple[list[NetworkInput], list[int]]:
    """Return the inputs and the actions of the rule in an episode."""
    views, actions = list[NetworkInput](), list[int]()
    for episode in shown:
        table = ActionEpisode(episode)
        while not table.over:
            views.append(table.view())
            actions.append(rule(views[-1]))
            table.act(actions[-1])
    return views, actions


def _played(learner: CanvasLearner, seats: Sequence[Seat]) -> ActionBatch:
    """Run a round of all parallel episodes; return its decisions with their advantages."""
    config, views, rows = learner.config, list[NetworkInput](), list[tuple[Longs, Singles, Singles, Floats, Floats]]()
    for _ in range(config.steps):
        seen = [seat.table.view() for seat in seats]
        action, logarithm, value = learner.draw(seen)
        paid = np.array([seat.act(int(chosen)) for seat, chosen in zip(seats, action, strict=True)])
        views += seen
        rows.append((action, logarithm, value, paid[:, 0], paid[:, 1]))
    action, logarithm, value, reward, discount = (np.stack(column) for column in zip(*rows, strict=True))
    last = learner.draw([seat.table.view() for seat in seats])[2]
    advantage = advantages(reward, discount, np.concatenate([value, last[None]]), config.smoothing)
    flat = (np.ascontiguousarray(column, kind).reshape(-1) for column, kind in (
        (action, np.int64), (logarithm, np.float32), (advantage, np.float32), (advantage + value, np.float32)))
    return ActionBatch(*_stacked(views), *map(torch.from_numpy, flat))


def advantages(reward: Floats, discount: Floats, value: Floats, smoothing: float) -> Floats:
    """Return generalised advantages [step, episode] of rewards; ``value`` has one more step than the rewards."""
    estimates, later = np.zeros_like(reward), np.zeros(reward.shape[1])
    for step in reversed(range(len(reward))):
        error = reward[step] + discount[step] * value[step + 1] - value[step]
        later = error + discount[step] * smoothing * later
        estimates[step] = later
    return estimates


def card_of(config: CanvasTrainingConfig, steps: Sequence[CanvasTrainingProgress]) -> ModelCard:
    """Return the model card of a trained agent."""
    curve = tuple((step.round / max(config.rounds, 1), step.worth) for step in steps)
    return ModelCard("topdrl literal", "1", time.time(), config.seed, version("idlewatt"), "", "", kind="topdrl",
                     curve=curve, metrics={"worth_log": min(step.worth for step in steps)},
                     source=f"episodes of TopDRL's bench with {GPUS} GPUs, seed {config.seed}")

"""How DL2's agent learns on fungible jobs: as on its own, by imitation and then actor-critic. It needs torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from typing import Any

import numpy as np
import torch

from ....storage.records import ModelCard
from ...agents.kinds import TrainingError
from ...replay.arrays import Floats, Longs
from ..dl2.agent import PAPER, Hyperparameters, Options, trail
from ..dl2.flat_kernel import Singles, Trail
from ..dl2.kernel import Bools
from ..dl2.memory import Batch
from ..dl2.network import Weights, desk
from ..dl2.train import Practice, copied, decided, imitate, joined, linked
from .arena import Policy, Round, replay, watch
from .baselines import Order, srsf
from .dl2 import USUAL, Dl2, most_decisions, slot
from .dl2_kernel import KINDS, rebuild
from .train import Task, figures, score

LONGEST = 3000
"""Rounds of a window that are learned from: a job that nothing moves would keep it from ever ending."""
FIRST_PLAYED = 1_000_000
"""Number of the first window of reinforcement learning; before it are those of imitation."""


@dataclass(frozen=True)
class GrantTrainingConfig:
    """Everything that a training is given; the same course gives the same agent."""

    draw: Callable[[int], Task]
    """Returns the window number ``n`` to learn from; the same number gives the same one."""
    judges: Sequence[Task]
    """Windows that choose among policies."""
    teacher: Policy
    order: Order = srsf
    """Whom of those it serves the teacher serves first."""
    seed: int = 1
    options: Options = PAPER
    values: Hyperparameters = USUAL
    noted_every: int = 8
    """Of so many rounds one is written down for imitation."""
    updates: int = 3000
    """Of reinforcement learning, one per round."""
    judged_every: int = 500


@dataclass(frozen=True)
class GrantTrainingProgress:
    """How far a training has come."""

    update: int
    """Of reinforcement learning; 0 after the warm-up."""
    score: float
    """Mean log of completion time and makespan relative to the teacher's, on the windows to choose by."""
    best: Weights
    """Of the best policy so far."""
    spent_s: float


class Noted:
    """A teacher whose decisions are written down as those of the agent."""

    def __init__(self, course: GrantTrainingConfig) -> None:
        self._course, self._rounds = course, 0
        self.found: list[Trail] = []

    def decide(self, round: Round) -> None:
        """Let the teacher decide."""
        self._course.teacher.decide(round)
        if self._rounds % self._course.noted_every == 0:
            self.found.append(self._noted(round))
        self._rounds += 1

    def _noted(self, round: Round) -> Trail:
        shape, jobs = self._course.values.shape, round.jobs
        served = round.live[np.argsort(self._course.order(round), kind="stable")]
        told = trail(shape, most_decisions(round))
        rebuild(round.site, jobs, round.nodes, round.live, served[jobs.node[served] >= 0],
                np.stack([jobs.cpus, jobs.memory], axis=1), round.now, slot(round), desk(shape), told)
        taken = told.taken[0]
        return Trail(told.states[:taken].copy(), told.allowed[:taken].copy(), told.actions[:taken].copy(),
                     told.chances[:taken].copy(), told.taken)


def lessons(course: GrantTrainingConfig) -> tuple[Singles, Bools, Longs]:
    """Return what the teacher did, [decision, ...]: states, what was open, its actions. TrainingError for nothing."""
    noted = Noted(course)
    for number in range(course.values.imitated):
        for _ in islice(watch(*course.draw(number), noted), LONGEST):
            pass
    if not sum(int(told.taken[0]) for told in noted.found):
        raise TrainingError("the teacher starts no job: there is nothing to imitate; name another one")
    return shuffled(*joined(noted.found), np.random.default_rng(course.seed))


def shuffled(states: Singles, allowed: Bools, actions: Longs,
             random: np.random.Generator) -> tuple[Singles, Bools, Longs]:
    """Return lessons with their jobs in another order, empty rows last, as DL2 does for imitation alone."""
    count, window = len(actions), allowed.shape[1] // 3
    jobs, open_to = states.reshape(count, window, -1), allowed[:, :-1].reshape(count, window, 3)
    order = np.argsort(random.random((count, window)) + (jobs[..., :KINDS].sum(axis=2) == 0), axis=1)
    row = np.argsort(order, axis=1)[np.arange(count), actions // 3]
    mixed: Any
    open_now: Any
    mixed, open_now = (np.take_along_axis(table, order[..., None], axis=1).reshape(count, -1)
                       for table in (jobs, open_to))
    return mixed, np.concatenate([open_now, allowed[:, -1:]], axis=1), 3 * row + actions % 3


def played(task: Task, agent: Dl2, told: Trail) -> Iterator[Batch | None]:
    """Yield the decisions of each round with what they brought: the parts of all jobs' work that were done."""
    batch, left = None, np.zeros(0)
    for round in islice(watch(*task, agent), LONGEST):
        if len(left):
            yield _rewarded(batch, left, round)
        batch, left = decided(told, 0.0), round.jobs.left.copy()
    yield _rewarded(batch, left, round)


def _rewarded(batch: Batch | None, left: Floats, round: Round) -> Batch | None:
    if batch is None:
        return None
    return batch._replace(reward=np.full_like(batch.reward, ((left - round.jobs.left) / round.jobs.work).sum()))


class Training:
    """An agent and the windows it learns from."""

    def __init__(self, course: GrantTrainingConfig) -> None:
        torch.set_num_threads(1)  # so small a network is not worth a second one, and one thread adds in one order
        self.course, self._random = course, np.random.default_rng(course.seed)
        self._practice = Practice(course.values, course.options, course.updates, self._random)
        self.steps: list[GrantTrainingProgress] = []

    def run(self) -> Iterator[GrantTrainingProgress]:
        """Yield after the warm-up, then whenever the policy is judged; whoever stops asking keeps the best so far."""
        course, began = self.course, time.monotonic()
        known = [figures(replay(*task, course.teacher)) for task in course.judges]
        if course.options.warm_up:
            imitate(self._practice.learner.policy, lessons(course), course.values, self._random)
        yield self._judge(known, began)
        number = FIRST_PLAYED
        while self._practice.updates < course.updates:
            for update in self._episode(course.draw(number)):
                if update % course.judged_every == 0 or update == course.updates:
                    yield self._judge(known, began)
                if update == course.updates:
                    break
            number += 1

    @property
    def agent(self) -> Dl2:
        """Return the best so far."""
        return Dl2(self.steps[-1].best, self.course.values.shape)

    def _episode(self, task: Task) -> Iterator[int]:
        """Play a window and learn once a round; yield the number of updates."""
        values, (site, trace) = self.course.values, task
        told = trail(values.shape, len(trace.submit) + 2 * site.shares * site.nodes + 2)
        agent = Dl2(self._practice.policy, values.shape, self._random.random,
                    values.exploration if self.course.options.aware else 0.0, told)
        for batch in linked(played(task, agent, told)):
            self._practice.learn(batch)
            yield self._practice.updates

    def _judge(self, known: Sequence[Floats], began: float) -> GrantTrainingProgress:
        """Look how good the policy is, and remember it if it is the best."""
        policy = self._practice.policy
        found = score(Dl2(policy, self.course.values.shape), self.course.judges, known)
        best = (copied(policy) if not self.steps or found < min(step.score for step in self.steps)
                else self.steps[-1].best)
        self.steps.append(GrantTrainingProgress(self._practice.updates, found, best, time.monotonic() - began))
        return self.steps[-1]


def card_of(training: Training, source: str) -> ModelCard:
    """Return what is known of an agent after its training."""
    course, steps = training.course, training.steps
    curve = tuple((step.update / max(course.updates, 1), step.score) for step in steps)
    return ModelCard("maifs-dl2", "1", time.time(), course.seed, version("idlewatt"), "", "", kind="dl2", curve=curve,
                     metrics={"log_ratio_to_tune": min(step.score for step in steps), "wall_s": steps[-1].spent_s},
                     source=source)

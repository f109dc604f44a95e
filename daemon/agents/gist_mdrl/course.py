"""Training on a site: pieces of its history as episodes, an agent per partition; later history picks the best."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np

from ....storage.records import ModelCard
from ...policies import named
from ...replay.engine import Policy, run
from ...replay.state import ClusterState
from ..checkpoint import CheckpointError, write
from ..figures import Figures, figures
from ..kinds import Course, Progress, Stretch, TrainingError
from . import live
from .agent import Hyperparameters
from .environment import Partition
from .live import SERVING, GistPolicy
from .site import Episodes, forms, single_server
from .train import Training

log = logging.getLogger(__name__)

STATE = "state.json"
ROUND = 50
"""Episodes of each agent between looks at the clock."""
MOST_EPISODES = 3000
"""The learning rate has come down by then."""
VALUES = Hyperparameters(discount=0.99, exploration_episodes=500, learning_episodes=MOST_EPISODES)
"""Like the paper's agents; rewards of a longer episode need a discount to stay in bounds."""


@dataclass
class School:
    """All agents of a course, and how far they have come."""

    course: Course
    trainings: Mapping[str, Training]
    incumbent: Sequence[Figures]
    """On each stretch of ``select``."""
    spent_s: float = 0.0
    best: float | None = None
    looked_s: float = 0.0
    """How long the last look at later history took."""
    since_look_s: float = field(default=float("inf"))

    @property
    def done(self) -> float:
        """Return the share of the budget that is spent; 1 when there is nothing left to learn."""
        episodes = min(training.episodes for training in self.trainings.values())
        if self.course.steps is not None:
            return min(1.0, episodes / max(1, self.course.steps))
        return min(1.0, max(self.spent_s / self.course.budget_s, episodes / MOST_EPISODES))

    def round(self) -> Progress:
        """Learn for a while; look at later history when as long was learned as the last look took.

        Where steps are counted it is looked at after each round: what is found must not depend on the machine.
        """
        began = time.monotonic()
        for training in self.trainings.values():
            for _ in itertools.islice(training.run(), self._episodes(training)):
                pass
        learned_s = time.monotonic() - began
        self.since_look_s += learned_s
        self.spent_s += learned_s
        due = self.course.steps is not None or self.since_look_s >= self.looked_s or self.done >= 1.0
        saved = due and self._look()
        return Progress(self.done, self.best, saved)

    def _episodes(self, training: Training) -> int:
        """Return how many episodes a round has; a step of a course is an episode of each agent."""
        steps = self.course.steps
        return ROUND if steps is None else min(ROUND, steps - training.episodes)

    def _look(self) -> bool:
        """Replay later history; keep the agents when they do better than any before."""
        began = time.monotonic()
        card = ModelCard("gist_mdrl", "0", time.time(), self.course.seed, version("idlewatt"), "", "", kind="gist_mdrl")
        agents = {name: training.agent for name, training in self.trainings.items()}
        policy = GistPolicy(agents, card, self.course.objective.longest_wait_s)
        worth = float(np.mean([_replayed(policy, stretch, self.course).relative(before, self.course.objective)
                               for stretch, before in zip(self.course.select, self.incumbent, strict=True)]))
        better = self.best is None or worth < self.best
        if better:
            self.best = worth
            live.save(self.course.folder / "best", agents, card, self.course.objective.longest_wait_s)
        self.looked_s, self.since_look_s = time.monotonic() - began, 0.0
        self.spent_s += self.looked_s
        self._save()
        return better

    def _save(self) -> None:
        for number, training in enumerate(self.trainings.values()):
            training.save(self.course.folder / f"agent{number}")
        write(self.course.folder / STATE, json.dumps({"spent_s": self.spent_s, "best": self.best}).encode())

    def resume(self) -> None:
        """Go on where an earlier training was left, if there was one; ``TrainingError`` when it was another one."""
        if not (self.course.folder / STATE).exists():
            return
        try:
            told = json.loads((self.course.folder / STATE).read_bytes())
            self.spent_s, self.best = float(told["spent_s"]), told["best"]
            for number, training in enumerate(self.trainings.values()):
                training.resume(self.course.folder / f"agent{number}")
        except (OSError, ValueError, KeyError, TypeError, CheckpointError) as error:
            raise TrainingError(f"{self.course.folder}: the training there cannot be gone on with: {error}") from error


def train(course: Course) -> Iterator[Progress]:
    """Train an agent for each partition that has the paper's form; ``TrainingError`` when none has.

    They learn within minutes, so they begin anew and not from ``course.start``.
    """
    fitting, reasons = forms(course.fit(0))
    if not fitting:
        told = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise TrainingError(f"no partition has the form that gist_mdrl is made for ({told}); try another agent")
    for name, why in reasons.items():
        log.warning("partition %s gets no agent, a heuristic decides there: %s", name, why)
    course.folder.mkdir(parents=True, exist_ok=True)
    stretches = [course.fit(number) for number in range(Episodes.STRETCHES)]
    try:
        trainings = {name: _training(course, partition, number, stretches)
                     for number, (name, partition) in enumerate(fitting.items())}
    except RuntimeError as error:  # no such device
        raise TrainingError(str(error)) from error
    school = School(course, trainings, [_replayed(named(course.incumbent), stretch, course)
                                        for stretch in course.select])
    school.resume()
    try:
        while True:
            yield school.round()
            if school.done >= 1.0:
                return
    except FloatingPointError as error:
        raise TrainingError(str(error)) from error


def _training(course: Course, partition: Partition, number: int, stretches: Sequence[Stretch]) -> Training:
    jobs = {index: single_server(ClusterState.of(stretch.cluster, stretch.workload), partition.name)
            for index, stretch in enumerate(stretches)}
    return Training(partition, SERVING, VALUES, seed=1000 * course.seed + number, device=course.device,
                    draw=Episodes(partition, jobs))


def _replayed(policy: Policy, stretch: Stretch, course: Course) -> Figures:
    outcome = run(stretch.cluster, stretch.workload, policy, speed=stretch.speeds.table)
    return figures(outcome, stretch.since_s, watts=course.objective.watts(stretch))


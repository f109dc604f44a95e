"""Training on a site: episodes from its history, an agent per partition; later history picks the best."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version

import numpy as np

from ....storage.records import ModelCard, Node
from ...flavours import FlavourBook, FlavourKey, impossible
from ...policies import named
from ...replay.engine import Policy, run
from ...replay.state import ClusterState
from ..checkpoint import CheckpointError, write
from ..kinds import Figures, Progress, TraceWindow, TrainingConfig, TrainingError, figures
from . import live
from .agent import GistAgent, Hyperparameters
from .environment import GpuPartition
from .live import SERVING, GistPolicy, ServingMode
from .site import Episodes, forms, single_server
from .train import PartitionTraining

log = logging.getLogger(__name__)

STATE = "state.json"
LISTENED: ServingMode = "listened"
ROUND = 50
"""Episodes of each agent between looks at the clock."""
MOST_EPISODES = 3000
"""The learning rate has come down by then."""
VALUES = Hyperparameters(discount=0.99, exploration_episodes=500, learning_episodes=MOST_EPISODES)
"""Like the paper's agents; rewards of a longer episode need a discount to stay in bounds."""
TUNING = replace(VALUES, exploration=(0.3, 0.1), learning_rate=(3e-4, 2e-5))
"""Where training goes on from an agent: one that forgets all of it by trying anything might as well start untrained."""


@dataclass
class School:
    """All agents of a config, and how far they have come."""

    config: TrainingConfig
    trainings: Mapping[str, PartitionTraining]
    incumbent: Sequence[Figures]
    """On each window of ``select``."""
    spent_s: float = 0.0
    best: float | None = None
    floor: float | None = None
    """First fit's utilisation on ``select``; None until it was replayed."""
    looked_s: float = 0.0
    """How long the last look at later history took."""
    since_look_s: float = field(default=float("inf"))

    @property
    def done(self) -> float:
        """Return the share of the budget that is spent; 1 when there is nothing left to learn."""
        episodes = min(training.episodes for training in self.trainings.values())
        if self.config.steps is not None:
            return min(1.0, episodes / max(1, self.config.steps))
        return min(1.0, max(self.spent_s / self.config.budget_s, episodes / MOST_EPISODES))

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
        due = self.config.steps is not None or self.since_look_s >= self.looked_s or self.done >= 1.0
        saved = due and self._look()
        return Progress(self.done, self.best, saved)

    def _episodes(self, training: PartitionTraining) -> int:
        """Return how many episodes a round has; a step of a config is an episode of each agent."""
        steps = self.config.steps
        return ROUND if steps is None else min(ROUND, steps - training.episodes)

    def _look(self) -> bool:
        """Replay later history; keep the agents, and whether they are listened to, where that is better than before.

        Agents with less utilisation than first fit, or no better than what decides without agents, are not listened to.
        """
        began = time.monotonic()
        alone: tuple[ServingMode, ...] = ("first_fit", "abstains") if self.best is None else ()
        better = any([self._better(mode) for mode in (*alone, LISTENED)])
        self.looked_s, self.since_look_s = time.monotonic() - began, 0.0
        self.spent_s += self.looked_s
        self._save()
        return better

    def _better(self, mode: ServingMode) -> bool:
        card = ModelCard("gist_mdrl", "0", time.time(), self.config.seed, version("idlewatt"), "", "", kind="gist_mdrl")
        agents = {name: training.agent for name, training in self.trainings.items()}
        policy = GistPolicy(agents, card, self.config.objective.longest_wait_s, mode)
        found = [_replayed(policy, window, self.config) for window in self.config.select]
        worth = float(np.mean([one.relative(before, self.config.objective)
                               for one, before in zip(found, self.incumbent, strict=True)]))
        used = float(np.mean([one.utilization for one in found]))
        if self.floor is None:
            self.floor = used
        better = self.best is None or (worth < self.best and used >= self.floor)
        log.info("seen on later history", extra={"manner": mode, "worth": worth, "utilization": used})
        if better:
            self.best = worth
            live.save(self.config.folder / "best", agents, card, self.config.objective.longest_wait_s, mode)
        return better

    def _save(self) -> None:
        for number, training in enumerate(self.trainings.values()):
            training.save(self.config.folder / f"agent{number}")
        told = {"spent_s": self.spent_s, "best": self.best, "floor": self.floor}
        write(self.config.folder / STATE, json.dumps(told).encode())

    def resume(self) -> None:
        """Go on where an earlier training was left, if there was one; ``TrainingError`` when it was another one."""
        if not (self.config.folder / STATE).exists():
            return
        try:
            told = json.loads((self.config.folder / STATE).read_bytes())
            self.spent_s, self.best, self.floor = float(told["spent_s"]), told["best"], told["floor"]
            for number, training in enumerate(self.trainings.values()):
                training.resume(self.config.folder / f"agent{number}")
        except (OSError, ValueError, KeyError, TypeError, RecursionError, CheckpointError) as error:
            raise TrainingError(f"{self.config.folder}: the training there cannot be gone on with: {error}") from error


def train(config: TrainingConfig) -> Iterator[Progress]:
    """Train an agent for each partition that has the paper's form; ``TrainingError`` when none has.

    A partition that ``config.start`` has an agent of the same form for goes on from it; the others start untrained.
    """
    first = config.fit(0)
    _refuse_impossible(config, first)
    fitting, reasons = forms(first, config.flavours)
    if not fitting:
        told = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise TrainingError(f"no partition has the form that gist_mdrl is made for ({told}); try another agent")
    for name, why in reasons.items():
        log.warning("partition %s gets no agent, a heuristic decides there: %s", name, why)
    _tell_unnamed(config, first, fitting)
    config.folder.mkdir(parents=True, exist_ok=True)
    windows = [config.fit(number) for number in range(Episodes.WINDOWS)]
    try:
        before = live.load(config.start).agents if config.start is not None else {}
        trainings = {name: _training(config, partition, number, windows, before.get(name))
                     for number, (name, partition) in enumerate(fitting.items())}
    except RuntimeError as error:  # no such device
        raise TrainingError(str(error)) from error
    school = School(config, trainings, [_replayed(named(config.incumbent), window, config)
                                        for window in config.select])
    school.resume()
    try:
        while True:
            yield school.round()
            if school.done >= 1.0:
                return
    except FloatingPointError as error:
        raise TrainingError(str(error)) from error


def _training(config: TrainingConfig, partition: GpuPartition, number: int, windows: Sequence[TraceWindow],
              before: GistAgent | None) -> PartitionTraining:
    jobs = {index: single_server(ClusterState.of(window.cluster, window.workload), partition.name)
            for index, window in enumerate(windows)}
    alike = before is not None and _shape(before) == _shape(GistAgent(partition, SERVING, VALUES))
    training = PartitionTraining(partition, SERVING, TUNING if alike else VALUES, seed=1000 * config.seed + number,
                                 device=config.device, draw=Episodes(partition, jobs))
    if before is not None and alike:
        training.start_from(before.weights)
    elif config.start is not None:
        log.warning("partition %s is learned anew: %s", partition.name, "its flavours or servers are others now"
                    if before is not None else "the model to go on from has no agent for it")
    return training


def _shape(agent: GistAgent) -> object:
    """Return what weights must have in common to go on with: limits may have changed."""
    return agent.eyes.names, agent.shape


def _refuse_impossible(config: TrainingConfig, window: TraceWindow) -> None:
    """Raise ``TrainingError`` for flavours that no partition of this cluster can hold."""
    cluster = window.cluster
    nodes = [Node(name, tuple(partition for partition, mine in cluster.partitions.items() if mine[number]),
                  int(cluster.gpus[number]), cluster.model[number]) for number, name in enumerate(cluster.names)]
    wrong = impossible(config.flavours, nodes)
    if wrong:
        names = [one.name for one in config.flavours]
        raise TrainingError("; ".join(f"flavours[{names.index(name)}] ({name}): {why}" for name, why in wrong.items()))


def _tell_unnamed(config: TrainingConfig, window: TraceWindow, fitting: Mapping[str, GpuPartition]) -> None:
    """Log how many jobs are of no configured flavour: those that are too long count as the longest of their size."""
    state = ClusterState.of(window.cluster, window.workload)
    book = FlavourBook([one for one in config.flavours if not one.gpu_model])
    for name in fitting if book.configured else ():
        jobs = single_server(state, name)
        asked = [FlavourKey(name, gpus, limit if np.isfinite(limit) else None) for gpus, limit
                 in zip(jobs.gpus.tolist(), jobs.limit_s.tolist(), strict=True)]
        none = [one for one in asked if not book.of(one)]
        if none:
            log.warning("%d of %d single-server jobs of partition %s are of no flavour; of the first: %s", len(none),
                        len(asked), name, book.why_none(none[0]))


def _replayed(policy: Policy, window: TraceWindow, config: TrainingConfig) -> Figures:
    outcome = run(window.cluster, window.workload, policy, speed=window.speeds.table)
    return figures(outcome, window.since_s, watts=config.objective.watts(window))

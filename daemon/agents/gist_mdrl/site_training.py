"""Training on a site: episodes from its history, an agent per partition, and validation on later history."""

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
from ....storage.whole_files import write
from ...flavours import FlavourBook, FlavourKey, impossible
from ...policies import named
from ...replay.engine import Policy
from ...replay.state import ClusterState
from ...replay.timeline import replay
from ..checkpoint import CheckpointError
from ..kinds import Figures, Progress, TraceWindow, TrainingConfig, TrainingError, figures
from . import live
from .agent import GistAgent, Hyperparameters
from .environment import GpuPartition
from .live import SERVING, GistPolicy, ServingMode
from .site import Episodes, gist_partitions, single_server
from .train import PartitionTraining

log = logging.getLogger(__name__)

STATE = "state.json"
AGENTS_DECIDE: ServingMode = "listened"
ROUND = 50
"""Episodes of each agent between looks at the clock."""
MOST_EPISODES = 3000
"""The learning rate has come down by then."""
VALUES = Hyperparameters(discount=0.99, exploration_episodes=500, learning_episodes=MOST_EPISODES)
"""Like the paper's agents; rewards of a longer episode need a discount to stay in bounds."""
TUNING = replace(VALUES, exploration=(0.3, 0.1), learning_rate=(3e-4, 2e-5))
"""Values for fine-tuning an agent: with full exploration it would forget what it has learned."""


@dataclass
class SiteTraining:
    """The trainings of all agents of a config, and their progress."""

    config: TrainingConfig
    trainings: Mapping[str, PartitionTraining]
    incumbent: Sequence[Figures]
    """The incumbent's figures on each window of ``select``."""
    spent_s: float = 0.0
    best: float | None = None
    first_fit_utilization: float | None = None
    """First fit's utilisation on ``select``; None until it was replayed."""
    evaluation_s: float = 0.0
    """Duration of the last validation on later history."""
    since_evaluation_s: float = field(default=float("inf"))

    @property
    def done(self) -> float:
        """Return the share of the budget that is spent; 1 when there is nothing left to learn."""
        episodes = min(training.episodes for training in self.trainings.values())
        if self.config.steps is not None:
            return min(1.0, episodes / max(1, self.config.steps))
        return min(1.0, max(self.spent_s / self.config.budget_s, episodes / MOST_EPISODES))

    def round(self) -> Progress:
        """Train for a while; validate on later history when training took as long as the last validation.

        Where steps are counted, each round ends with a validation: results must not depend on the machine.
        """
        began = time.monotonic()
        for training in self.trainings.values():
            for _ in itertools.islice(training.run(), self._episodes(training)):
                pass
        learned_s = time.monotonic() - began
        self.since_evaluation_s += learned_s
        self.spent_s += learned_s
        due = self.config.steps is not None or self.since_evaluation_s >= self.evaluation_s or self.done >= 1.0
        saved = due and self._evaluate()
        return Progress(self.done, self.best, saved)

    def _episodes(self, training: PartitionTraining) -> int:
        """Return how many episodes a round has; a step of a config is an episode of each agent."""
        steps = self.config.steps
        return ROUND if steps is None else max(0, min(ROUND, steps - training.episodes))

    def _evaluate(self) -> bool:
        """Validate on later history; keep the agents and the serving mode where they improve on former ones.

        Agents do not decide where their utilisation is below first fit's, or where the fallback is as good.
        """
        began = time.monotonic()
        heuristic_modes: tuple[ServingMode, ...] = ("first_fit", "abstains") if self.best is None else ()
        better = any([self._try_mode(mode) for mode in (*heuristic_modes, AGENTS_DECIDE)])
        self.evaluation_s, self.since_evaluation_s = time.monotonic() - began, 0.0
        self.spent_s += self.evaluation_s
        self._save()
        return better

    def _try_mode(self, mode: ServingMode) -> bool:
        card = ModelCard("gist_mdrl", "0", time.time(), self.config.seed, version("idlewatt"), "", "", kind="gist_mdrl")
        agents = {name: training.agent for name, training in self.trainings.items()}
        policy = GistPolicy(agents, card, self.config.objective.longest_wait_s, mode)
        results = [_replayed(policy, window, self.config) for window in self.config.select]
        worth = float(np.mean([result.relative(incumbent, self.config.objective)
                               for result, incumbent in zip(results, self.incumbent, strict=True)]))
        utilization = float(np.mean([result.utilization for result in results]))
        if self.first_fit_utilization is None:
            self.first_fit_utilization = utilization
        better = self.best is None or (worth < self.best and utilization >= self.first_fit_utilization)
        log.info("seen on later history", extra={"manner": mode, "worth": worth, "utilization": utilization})
        if better:
            self.best = worth
            live.save(self.config.folder / "best", agents, card, self.config.objective.longest_wait_s, mode)
        return better

    def _save(self) -> None:
        for number, training in enumerate(self.trainings.values()):
            training.save(self.config.folder / f"agent{number}")
        state = {"spent_s": self.spent_s, "best": self.best, "floor": self.first_fit_utilization}
        write(self.config.folder / STATE, json.dumps(state).encode())

    def resume(self) -> None:
        """Resume a saved training, if there is one; ``TrainingError`` when it is another training's."""
        if not (self.config.folder / STATE).exists():
            return
        try:
            state = json.loads((self.config.folder / STATE).read_bytes())
            self.spent_s, self.best, self.first_fit_utilization = float(state["spent_s"]), state["best"], state["floor"]
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
    fitting, reasons = gist_partitions(first, config.flavours)
    if not fitting:
        refused = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise TrainingError(f"no partition has the form that gist_mdrl is made for ({refused}); try another agent")
    for name, reason in reasons.items():
        log.warning("partition %s gets no agent, a heuristic decides there: %s", name, reason)
    _log_without_flavour(config, first, fitting)
    config.folder.mkdir(parents=True, exist_ok=True)
    windows = [config.fit(number) for number in range(Episodes.WINDOWS)]
    try:
        start_agents = live.load(config.start).agents if config.start is not None else {}
        trainings = {name: _training(config, partition, number, windows, start_agents.get(name))
                     for number, (name, partition) in enumerate(fitting.items())}
    except RuntimeError as error:  # no such device
        raise TrainingError(str(error)) from error
    site = SiteTraining(config, trainings, [_replayed(named(config.incumbent), window, config)
                                            for window in config.select])
    site.resume()
    try:
        while True:
            yield site.round()
            if site.done >= 1.0:
                return
    except FloatingPointError as error:
        raise TrainingError(str(error)) from error


def _training(config: TrainingConfig, partition: GpuPartition, number: int, windows: Sequence[TraceWindow],
              start_agent: GistAgent | None) -> PartitionTraining:
    jobs = {index: single_server(ClusterState.of(window.cluster, window.workload), partition.name)
            for index, window in enumerate(windows)}
    same_shape = start_agent is not None and _shape(start_agent) == _shape(GistAgent(partition, SERVING, VALUES))
    training = PartitionTraining(partition, SERVING, TUNING if same_shape else VALUES, seed=1000 * config.seed + number,
                                 device=config.device, draw=Episodes(partition, jobs))
    if start_agent is not None and same_shape:
        training.start_from(start_agent.weights)
    elif config.start is not None:
        log.warning("partition %s is learned anew: %s", partition.name, "its flavours or servers are others now"
                    if start_agent is not None else "the model to go on from has no agent for it")
    return training


def _shape(agent: GistAgent) -> object:
    """Return what weights must have in common to go on with: limits may have changed."""
    return agent.encoder.names, agent.shape


def _refuse_impossible(config: TrainingConfig, window: TraceWindow) -> None:
    """Raise ``TrainingError`` for flavours that no partition of this cluster can hold."""
    cluster = window.cluster
    nodes = [Node(name, tuple(partition for partition, nodes_of in cluster.partitions.items() if nodes_of[number]),
                  int(cluster.gpus[number]), cluster.model[number]) for number, name in enumerate(cluster.names)]
    wrong = impossible(config.flavours, nodes)
    if wrong:
        names = [flavour.name for flavour in config.flavours]
        raise TrainingError("; ".join(f"flavours[{names.index(name)}] ({name}): {reason}"
                                      for name, reason in wrong.items()))


def _log_without_flavour(config: TrainingConfig, window: TraceWindow, fitting: Mapping[str, GpuPartition]) -> None:
    """Log how many jobs are of no configured flavour: those that are too long count as the longest of their size."""
    state = ClusterState.of(window.cluster, window.workload)
    book = FlavourBook([flavour for flavour in config.flavours if not flavour.gpu_model])
    for name in fitting if book.configured else ():
        jobs = single_server(state, name)
        sizes = [FlavourKey(name, gpus, limit if np.isfinite(limit) else None) for gpus, limit
                      in zip(jobs.gpus.tolist(), jobs.limit_s.tolist(), strict=True)]
        without_flavour = [job for job in sizes if not book.of(job)]
        if without_flavour:
            log.warning("%d of %d single-server jobs of partition %s are of no flavour; of the first: %s",
                        len(without_flavour), len(sizes), name, book.why_none(without_flavour[0]))


def _replayed(policy: Policy, window: TraceWindow, config: TrainingConfig) -> Figures:
    outcome = replay(window.cluster, window.workload, policy, window.reserved, speed=window.speeds.table)
    return figures(outcome, window.since_s, watts=config.objective.watts(window))

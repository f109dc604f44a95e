"""Training and test of one agent as in §6 of the paper, with a saved result."""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np

from ....storage.records import ModelCard
from ....storage.whole_files import write
from ...agents.gist_mdrl import environment
from ...agents.gist_mdrl.agent import IMPROVED, LITERAL, UNNAMED, AgentChanges, GistAgent, Hyperparameters
from ...agents.gist_mdrl.environment import (
    A100,
    HALVES,
    PARTITIONS,
    Environment,
    EpisodeOutcome,
    GpuPartition,
    play,
    sequences,
)
from ...agents.gist_mdrl.network import Weights
from ...agents.tracking import TensorBoard
from .exact import mean_figures

AGENTS = {"literal": "the paper's agent", "improved": "with all options"}
"""Names of the agents in reports."""
OPTIONS = tuple(field.name for field in fields(AgentChanges))
RESULT = "result.json"


def options_named(name: str) -> AgentChanges:
    """Return the options of ``literal``, ``improved`` or of the paper's agent with one change."""
    if name in ("literal", "improved"):
        return LITERAL if name == "literal" else IMPROVED
    return AgentChanges(**{name: getattr(IMPROVED, name)})


@dataclass(frozen=True, slots=True)
class Trial:
    """One training: the agent, its partition, its seed and its settings."""

    partition: str
    agent: str
    """``literal``, ``improved``, or the one option that differs from the paper."""
    seed: int
    episodes: int = 1000
    tests: int = 100
    device: str = "cpu"
    values: Hyperparameters = UNNAMED
    label: str = ""
    """Name of a further change, which becomes part of the trial's name; '' for none."""
    other: GpuPartition | None = None
    """The partition, if it is not one of the paper's."""

    @property
    def name(self) -> str:
        """Return the name of the trial's folder."""
        return "-".join(filter(None, (self.partition, self.agent, self.label, str(self.seed))))

    @property
    def form(self) -> GpuPartition:
        """Return the partition that the agent is trained on."""
        return self.other or PARTITIONS[self.partition]

    def key(self) -> str:
        """Return the digest of everything that the result depends on."""
        stored = (asdict(self), asdict(options_named(self.agent)), _sources())
        return hashlib.sha256(repr(stored).encode()).hexdigest()[:16]


@functools.cache
def _sources() -> str:
    """Return the digest of the code that makes a result."""
    here, agent = Path(__file__).parent, Path(environment.__file__).parent
    files = [here / name for name in ("exact.py", "trial.py")]
    files += [agent / name for name in ("agent.py", "environment.py", "network.py", "train.py")]
    files += [agent.parent / name for name in ("memory.py", "schedules.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Result of a trial."""

    key: str
    curve: tuple[float, ...]
    """Utilisation of each training episode (Fig. 5)."""
    tested: tuple[float, ...]
    """Utilisation of each test episode (Fig. 6)."""
    mean: Mapping[str, float]
    """``FIGURES`` over all 81 sequences.

    Where the best weights are kept, each half of the sequences is played with those that did best on the other half.
    """
    seconds: float
    """Wall-clock time of the training."""
    chosen_here: float | None = None
    """Mean utilisation with weights that were chosen on the reported sequences themselves."""

    @property
    def utilization(self) -> float:
        """Return the exact mean utilisation of the trained agent."""
        return self.mean["utilization"]


def all_trials(seeds: range, apart: int, episodes: int, tests: int, device: str = "cpu") -> list[Trial]:
    """Return all trials of the report: both agents in both partitions, then each option alone in one partition."""
    # Equal seeds would make equal agents of both partitions, for the shares of their flavours are equal.
    kinds = [(partition, agent, 1000 * index + seed) for seed in seeds for agent in ("literal", "improved")
             for index, partition in enumerate(PARTITIONS)]
    kinds += [("A100", option, seeds.start + seed) for seed in range(apart) for option in OPTIONS]
    return [Trial(partition, agent, seed, episodes, tests, device) for partition, agent, seed in kinds]


def random_episodes(count: int, partition: GpuPartition = A100) -> list[tuple[int, ...]]:
    """Return the random episodes that all agents are tested on."""
    drawn = np.random.default_rng(2022).integers(0, len(partition.flavors), (count, partition.jobs))
    return [tuple(row) for row in drawn.tolist()]


def carry_out(trial: Trial, folder: Path, *, tensorboard: bool = False) -> TrialResult:
    """Train and test an agent; save weights, card and result in the trial's folder."""
    from ...agents.gist_mdrl.train import PartitionTraining  # torch is loaded where it is used

    home, began = folder / trial.name, time.perf_counter()
    training = PartitionTraining(trial.form, options_named(trial.agent), trial.values, seed=trial.seed,
                                 device=trial.device)
    with ExitStack() as stack:
        tracker = stack.enter_context(TensorBoard(home)) if tensorboard else None
        curve = [_tracked(tracker, episode.number, episode.outcome.utilization, training.agent)
                 for episode in islice(training.run(), trial.episodes)]
    agent = training.conclude()
    seconds, environment = time.perf_counter() - began, Environment(agent.partition)
    chosen_here = mean_figures([play(environment, flavors, agent.act) for flavors in sequences(agent.partition)])
    mean = mean_figures(_chosen_elsewhere(agent, training.best_without, environment))
    tested = [play(environment, flavors, agent.act).utilization
              for flavors in random_episodes(trial.tests, agent.partition)]
    agent.save(home, ModelCard(f"gist_mdrl {trial.name}", "1", time.time(), trial.seed, version("idlewatt"), "", "",
                               metrics=mean))
    result = TrialResult(trial.key(), tuple(curve), tuple(tested), mean, seconds, chosen_here["utilization"])
    write(home / RESULT, json.dumps(asdict(result)).encode())
    return result


def _chosen_elsewhere(agent: GistAgent, best_without: Callable[[int], Weights],
                      environment: Environment) -> list[EpisodeOutcome]:
    """Return the result of every sequence with weights that were chosen on other sequences."""
    ended, served = list[EpisodeOutcome](), agent.weights
    for half, some in enumerate(HALVES):
        agent.weights = best_without(half)
        ended += [play(environment, flavors, agent.act) for flavors in sequences(agent.partition)[some]]
    agent.weights = served
    return ended


def _tracked(tracker: TensorBoard | None, number: int, utilization: float, agent: GistAgent) -> float:
    if tracker is not None:
        tracker.write(number, {"utilization": utilization, **agent.statistics})
    return utilization


def done_before(trial: Trial, folder: Path) -> TrialResult | None:
    """Return the saved result of an earlier run of the same trial, or None."""
    try:
        stored = json.loads((folder / trial.name / RESULT).read_bytes())
        result = TrialResult(**stored)
    except (OSError, ValueError, TypeError, RecursionError):
        return None  # not done, or not whole: it is simply done again
    return result if result.key == trial.key() else None

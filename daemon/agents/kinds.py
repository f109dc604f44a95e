"""The kinds of agents that can be trained on a site and made active: each registers itself from its own folder.

This file is the interface between an agent and the trainer, promotion, the advisor and the command line. To add one,
write a folder with ``agent.py`` (acts, without torch), ``network.py`` (its forward pass in numpy), ``train.py``
(learns) and ``kind.py`` (registers it). Code that only reproduces a paper is in ``daemon/reproduce/``. Candidates are
chosen by an operator's objective, relative to another replay of the same window.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from ...storage.records import ModelCard
from ..replay import arrays as a
from ..replay import engine
from ..replay.cluster import Cluster
from ..replay.engine import Policy, Run
from ..replay.outcome import SHORT_S, paper_utilization
from ..replay.power import PowerModel, energy
from ..replay.site_speeds import FLAT_SPEEDS, SiteSpeeds
from ..replay.state import ClusterState
from ..replay.timeline import Reserved, replay
from ..replay.workload import Workload
from ..settings.flavours import FlavourSettings
from ..settings.training import ObjectiveSettings


class TrainedPolicy(Policy, Protocol):
    """A policy that was learned, loaded to serve; the same object decides live and in replay."""

    card: ModelCard

    def doubt(self, state: ClusterState) -> str | None:
        """Return why the agent should abstain in this state; None when it should not.

        The state may lie outside its training range, or its members may disagree.
        """

    def reasons(self, state: ClusterState, job: int) -> tuple[str, ...]:
        """Return the main reasons for its decision on this job, the strongest first, in an operator's terms."""

    def drift(self, state: ClusterState) -> float:
        """Return the share of waiting jobs, 0..1, that lie outside its training range; 0 when none waits."""


RESTART_S = 120.0
"""Seconds that a running job loses when it is resized: it restarts from its checkpoint."""


@dataclass(frozen=True, slots=True)
class TraceWindow:
    """A part of a recorded or bootstrapped history that is replayed as a whole."""

    cluster: Cluster
    workload: Workload
    since_s: float
    """Jobs submitted earlier fill the cluster; only those submitted since count."""
    speeds: SiteSpeeds = FLAT_SPEEDS
    """How fast jobs run wherever they are placed."""
    resize_s: float = RESTART_S
    power: PowerModel = PowerModel()
    """The power of its nodes; what its jobs add is in the workload."""
    settled_s: float = float("inf")
    """The history is complete for jobs submitted before this time; evidence counts until then."""
    reserved: tuple[Reserved, ...] = ()
    """Which reservation each node was for, by time."""

    def replayed(self, policy: Policy) -> Run:
        """Replay it at its speeds."""
        return replay(self.cluster, self.workload, policy, self.reserved, speed=self.speeds.table_for(policy),
                      resize_s=self.resize_s)


@dataclass(frozen=True, slots=True)
class Objective:
    """The operator's objective: weights of figures relative to the incumbent's."""

    jct_mean: float = 0.7
    slowdown_mean: float = 0.2
    wait_p99: float = 0.1
    energy_wasted: float = 0.0
    longest_wait_s: float = 7 * 86400.0
    """A job that has waited for longer goes before all younger jobs, whatever order an agent gives."""
    wait_mean: float = 0.0
    utilization: float = 0.0
    """More is better, unlike with all other figures."""
    makespan: float = 0.0
    energy: float = 0.0

    @classmethod
    def of(cls, settings: ObjectiveSettings) -> Self:
        """Return the objective that the configuration sets."""
        return cls(**settings.weights, longest_wait_s=settings.longest_wait)

    @property
    def weights(self) -> dict[str, float]:
        """Return the weights by figure."""
        return {name: value for name, value in asdict(self).items() if name != "longest_wait_s"}

    @property
    def aim(self) -> str:
        """Return the objective in short: the names of its weights, the heaviest first, joined by ``+``."""
        heavy = sorted(((-weight, name) for name, weight in self.weights.items() if weight))
        return "+".join(name for _, name in heavy)

    @property
    def counts_energy(self) -> bool:
        """Tell whether energy has a weight: counting energy takes longer than all other figures."""
        return self.energy > 0 or self.energy_wasted > 0

    def watts(self, window: TraceWindow) -> PowerModel | None:
        """Return the power model for counting energy; None where energy has no weight, which saves time."""
        return window.power if self.counts_energy else None


@dataclass(frozen=True)
class TrainingConfig:
    """The inputs of a training; the same config and seed give the same agent."""

    fit: Callable[[int], TraceWindow]
    """Draws the window number ``n`` to learn from; the same number gives the same window."""
    select: Sequence[TraceWindow]
    """Later history for validation: it only chooses among candidates."""
    incumbent: str
    """The policy whose decisions are imitated first; results are relative to it."""
    seed: int
    budget_s: float
    folder: Path
    """Where the training stores its state; after an interruption it resumes from there."""
    objective: Objective = Objective()
    start: Path | None = None
    """A complete model of this kind to start from (fine-tuning), unless ``folder`` already holds a training."""
    device: str = "cpu"
    """The device of kinds that train with torch: ``cpu``, ``cuda``, or ``auto`` for CUDA where there is one."""
    steps: int | None = None
    """Train for so many steps instead of ``budget_s``: then the weights are the same on any machine. Each kind defines
    its own step."""
    flavours: tuple[FlavourSettings, ...] = ()
    """The site's flavours in any order; without any, job sizes are flavours."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a training."""

    done: float
    """Share of the budget, 0..1."""
    score: float | None
    """Objective of the best candidate on ``select``, relative to the incumbent: below 1 is better. None at first."""
    saved: bool
    """``config.folder / "best"`` holds a new best candidate, whole, as ``checkpoint.save`` writes it."""


@dataclass(frozen=True, slots=True)
class AgentKind:
    """A kind of agent."""

    name: str
    train: Callable[[TrainingConfig], Iterator[Progress]]
    """Trains and yields progress from time to time; a caller that stops iterating keeps the best so far. Raises
    ``TrainingError``, and ``checkpoint.CheckpointError`` when the state to resume from must not be used."""
    load: Callable[[Path], TrainedPolicy]
    """Raises ``checkpoint.CheckpointError`` when the weights must not be used."""
    torch: bool = False
    """Whether it trains with torch, on ``TrainingConfig.device``."""
    objective: Objective = Objective()
    """Its objective where the operator sets none."""


FAILURES = (Exception,)
"""What an agent may raise when its decision cannot be carried out or its code is faulty: any exception but those that
end the process."""


class TrainingError(Exception):
    """A training that cannot start or has failed; the message says why and what to do."""


_KINDS: dict[str, AgentKind] = {}
ALIASES = {"gist": "gist_mdrl"}
"""Other names of kinds on the command line."""


def register(kind: AgentKind) -> AgentKind:
    """Register a kind; called by its own ``kind.py``."""
    _KINDS[kind.name] = kind
    return kind


def names() -> set[str]:
    """Return the names of all kinds, which are those of their folders, without importing their agents."""
    return {module.rsplit(".", 2)[-2] for module in _modules()} | set(_KINDS)


def kinds() -> dict[str, AgentKind]:
    """Return every kind by name, importing each folder's ``kind`` on first use, but never torch."""
    for module in _modules():
        importlib.import_module(module)
    return _KINDS


def _modules() -> Iterator[str]:
    """Yield the module of each folder that makes it a kind."""
    package = __name__.rpartition(".")[0]
    for module_info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = f"{package}.{module_info.name}.kind"
        if module_info.ispkg and importlib.util.find_spec(module) is not None:
            yield module


SMOOTHING_S = 60.0
"""Added to waits before they are divided: a wait of two seconds instead of one is no loss."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of a replay over its counted jobs."""

    jct_mean_s: float
    slowdown_mean: float
    wait_p99_s: float
    wait_mean_s: float
    wasted_joules: float | None
    """None where energy was not counted, which takes longer than all other figures."""
    utilization: float = float("nan")
    """The mean over partitions, from the first counted time to the last submission: Eq. (5) of the GIST AI-X paper."""
    makespan_s: float = float("nan")
    """The time from the first counted moment to the last end of a job."""
    joules: float | None = None
    """Including power supplies; None where energy was not counted."""

    def relative(self, other: Figures, objective: Objective) -> float:
        """Return the objective, relative to another replay of the same jobs: below 1 is better.

        A weighted geometric mean of ratios: the better of two replays does not depend on their common reference, and
        2 % matter as much in long queues as in short ones.
        """
        parts = [(objective.jct_mean, self.jct_mean_s, other.jct_mean_s),
                 (objective.slowdown_mean, self.slowdown_mean, other.slowdown_mean),
                 (objective.wait_p99, self.wait_p99_s + SMOOTHING_S, other.wait_p99_s + SMOOTHING_S),
                 (objective.wait_mean, self.wait_mean_s + SMOOTHING_S, other.wait_mean_s + SMOOTHING_S),
                 (objective.utilization, other.utilization, self.utilization),  # more of it is better
                 (objective.makespan, self.makespan_s, other.makespan_s),
                 *self._energies(other, objective)]
        logs = sum(weight * math.log(own_cost / other_cost) for weight, own_cost, other_cost in parts if weight)
        return math.exp(logs / sum(part[0] for part in parts))

    def _energies(self, other: Figures, objective: Objective) -> list[tuple[float, float, float]]:
        """Return the parts of the objective that are energies."""
        parts = []
        for weight, own_cost, other_cost in ((objective.energy_wasted, self.wasted_joules, other.wasted_joules),
                                     (objective.energy, self.joules, other.joules)):
            if weight and (own_cost is None or other_cost is None):
                raise ValueError("the objective wants energy, which was not counted: figures(…, watts=MODEL)")
            if own_cost is not None and other_cost is not None:
                parts.append((weight, own_cost, other_cost))
        return parts


def figures(run: engine.Run, since_s: float, *, watts: PowerModel | None = None) -> Figures:
    """Return the figures of a run over the jobs submitted since a moment; jobs that have not ended end with the run."""
    jobs = run.state.arrays.jobs
    counted = (jobs.status != a.REJECTED) & (jobs.submit >= since_s)
    submit, end = jobs.submit[counted], run.end[counted]
    jct = np.where(np.isnan(end), max(run.state.now, float(np.nanmax(end, initial=0.0))), end) - submit
    wait = np.maximum(0.0, jct - jobs.run[counted])
    slowdown = np.maximum(1.0, jct / np.maximum(jobs.run[counted], SHORT_S))
    spent = None if watts is None else energy(run, watts)
    until_s = float(submit.max(initial=since_s))
    return Figures(float(jct.mean()), float(slowdown.mean()), float(np.quantile(wait, 0.99)), float(wait.mean()),
                   None if spent is None else spent.wasted, paper_utilization(run, since_s, until_s),
                   max(1.0, float((jct + submit).max()) - since_s), None if spent is None else spent.total)

"""Simulator of fungible jobs in rounds, as in Synergy: each round decides again on jobs, nodes, CPUs and memory.

Every 300 s a policy decides on all jobs in the system, unless all run and none has come or gone. A job that is moved
or resumed loses the time of a preemption in HeliosArtifact's simulator (7, 30 and 60 s for 1, up to 8 and more
GPUs); a change of CPUs or memory costs less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import NamedTuple, Protocol

import numpy as np

from ...replay import speed_priors
from ...replay.arrays import Floats, Longs
from ...replay.power import PowerModel
from ...replay.speed_priors import FAIR_CPUS, FAIR_MEMORY, PRIORS
from ..failures import ZeroProgressError
from . import kernel, models
from .kernel import FAIR, WAITING, NodeArrays, Site, SubmittedJobs
from .models import MODELS

UNIT = FAIR_MEMORY / FAIR_CPUS
"""Size of a unit of memory, bytes: a node has as many units as CPUs."""
PREEMPTION_S = (7.0, 30.0, 60.0)
"""Cost of a preemption for 1, up to 8, and more GPUs, s."""
CURVE = (1, 2, 4, 6, 12)
"""CPUs per GPU at which node agents know the speed of a task; the fair share is 3."""
MOST_ROUNDS = 200_000
"""Number of rounds after which a policy counts as one that never ends."""


class ArenaTrace(NamedTuple):
    """A trace for the simulator: its jobs by submission."""

    submit: Floats
    work: Floats
    """Run time at the fair share, s."""
    gpus: Longs
    model: Longs
    """Index of each job's model in ``models.MODELS``."""


class RoundPolicy(Protocol):
    """A policy of the simulator, which decides at every round."""

    def decide(self, round: Round) -> None:
        """Place and stop jobs with the compiled functions, and write their speeds."""


@dataclass
class Round:
    """The state of a round, which a policy reads and changes."""

    site: Site
    jobs: SubmittedJobs
    nodes: NodeArrays
    live: Longs
    """Numbers of the jobs in the system, by submission."""
    now: float
    meters: Floats = field(default_factory=lambda: np.zeros(2))
    """Totals so far: GPU-seconds held, and node-seconds with a job."""


@dataclass(frozen=True)
class ReplayResult:
    """Result of a replay."""

    jct: Floats
    """Completion time of every job, s."""
    makespan: float
    """Time from the first submission to the last end, s."""
    held: float
    """GPU-seconds that jobs held."""
    busy: float
    """Node-seconds with a job."""

    def utilization(self, site: Site) -> float:
        """Return the share of the cluster's GPU time that jobs held."""
        return self.held / (self.makespan * site.nodes * site.size)


def site_of(nodes: int, *, disturbing: bool = False, leaf: int = 0) -> Site:
    """Return a cluster of Synergy's servers, with ``leaf`` of them at each leaf switch (0: all at one switch).

    With ``disturbing``, neighbours slow each other as DeepShare measured.
    """
    rates, best, options = _tables()
    interference = models.interference() if disturbing else np.ones((len(MODELS), len(MODELS)))
    one_gpu_s, node_s, nodes_s = PREEMPTION_S
    preemption_s = np.array([one_gpu_s, one_gpu_s, *[node_s] * 7, nodes_s])
    return Site(rates, best, options, interference, preemption_s, models.crossing(),
                _traits(rates), _draw(rates.shape[1] - 1), np.arange(nodes) // (leaf or nodes), nodes)


def _draw(size: int) -> Floats:
    """Return the power of a node by GPUs held, as a share of its power when all are held."""
    power = PowerModel()
    watts = np.array([power.host + held * power.at_load(power.load) + (size - held) * power.idle
                      for held in range(size + 1)])
    return np.asarray(watts / watts[-1])


def _traits(rates: Floats) -> Floats:
    """Return the model inputs of node agents, [model, trait]: the task, and speeds at shares of a node.

    The speeds are those of one GPU at ``CURVE`` CPUs with the fair share of memory, and at the fair CPUs with the least
    memory, less that at the fair share.
    """
    tasks = np.array([[float(model in models) for models in speed_priors.TASKS.values()] for model in MODELS])
    fair = int(FAIR_CPUS)
    curve = rates[:, 1, list(CURVE), fair] - 1.0
    return np.hstack([tasks, curve, rates[:, 1, fair, 1:2] - 1.0])


@cache
def _tables() -> tuple[Floats, Longs, Longs]:
    """Return the tables of models: speeds, best grants, and useful grants."""
    rates = np.zeros((len(MODELS), 9, 25, 25))
    for model, gpus, cpus, memory in np.ndindex(rates.shape):
        if gpus and cpus and memory:
            rates[model, gpus, cpus, memory] = PRIORS[MODELS[model]].at(cpus / gpus, memory * UNIT / gpus)
    return rates, _best(rates), _options(rates)


def _best(rates: Floats) -> Longs:
    """Return the least CPUs and memory with the speed of a whole node, [model, GPUs, CPUs or memory]."""
    best = np.zeros((*rates.shape[:2], 2), np.int64)
    for model, gpus in np.ndindex(*rates.shape[:2]):
        enough = np.argwhere(rates[model, gpus] >= rates[model, gpus, -1, -1] * (1 - 1e-6))
        best[model, gpus] = enough[enough.sum(axis=1).argmin()]
    return best


def _options(rates: Floats) -> Longs:
    """Return the profiled grants for which no smaller grant is as fast, by rising CPUs."""
    grants = {place: _worth_having(rates[place], place[1]) if place[1] else []
              for place in np.ndindex(*rates.shape[:2])}
    table = np.zeros((*rates.shape[:2], max(map(len, grants.values())), 2), np.int64)
    for place, options in grants.items():
        if options:
            table[place][:len(options)] = options
    return table


def _worth_having(rates: Floats, gpus: int) -> list[tuple[int, int]]:
    cpus = np.unique(np.minimum(speed_priors.CPUS * gpus, len(rates) - 1)).astype(int).tolist()
    memory = np.unique(np.minimum(speed_priors.MEMORY / UNIT * gpus, len(rates) - 1).round()).astype(int).tolist()
    worthwhile: list[tuple[int, int]] = []
    for place in product(cpus, memory):  # smaller ones come first, in one of the two
        if not any(c <= place[0] and m <= place[1] and rates[c, m] >= rates[place] - 1e-9 for c, m in worthwhile):
            worthwhile.append(place)
    return worthwhile


def begin(site: Site, trace: ArenaTrace) -> Round:
    """Return the state of a trace before its first round."""
    count = len(trace.submit)
    if (trace.gpus > site.nodes * site.size).any() or (trace.gpus < 1).any() or not (trace.work > 0).all():
        raise ValueError(f"jobs must have work, and 1 to {site.nodes * site.size} GPUs; "
                         f"{int((trace.gpus > site.nodes * site.size).sum())} ask for more than the cluster has")
    jobs = SubmittedJobs(trace.submit, trace.work, trace.gpus, trace.model, trace.work.copy(), np.zeros(count),
                         np.full(count, np.nan), np.full(count, WAITING), np.zeros(count, np.int64),
                         np.zeros(count, np.int64),
                         np.full(count, FAIR), np.zeros(count), np.full((count, 3), WAITING))
    nodes = NodeArrays(np.tile(np.array([site.size, site.shares, site.shares]), (site.nodes, 1)),
                       np.zeros((site.nodes, site.size), np.int64), np.zeros(site.nodes, np.int64),
                       np.full(site.nodes, -1),
                       np.zeros(site.nodes))
    return Round(site, jobs, nodes, np.zeros(0, np.int64), 0.0)


def watch(site: Site, trace: ArenaTrace, policy: RoundPolicy) -> Iterator[Round]:
    """Yield each round after its decision and before time advances, until all jobs are done."""
    round, arrived, changed = begin(site, trace), 0, True
    for _ in range(MOST_ROUNDS):
        if not len(round.live):
            if arrived == len(trace.submit):
                return
            round.now = max(round.now, np.ceil(trace.submit[arrived] / site.round_s) * site.round_s)
        here = int(np.searchsorted(trace.submit, round.now, side="right"))
        if here > arrived:
            round.live, arrived, changed = np.concatenate([round.live, np.arange(arrived, here)]), here, True
        if changed or (round.jobs.node[round.live] == WAITING).any():
            policy.decide(round)  # else all run on as they do
        yield round
        remaining = kernel.advance(site, round.jobs, round.nodes, round.live, round.now, round.meters)
        changed, round.live, round.now = remaining < len(round.live), round.live[:remaining], round.now + site.round_s
    raise ZeroProgressError(f"after {MOST_ROUNDS} rounds {len(round.live)} jobs are not done: nothing moves them")


def replay(site: Site, trace: ArenaTrace, policy: RoundPolicy) -> ReplayResult:
    """Replay a trace under a policy; return the result. ``ZeroProgressError`` if some job never ends."""
    for last in watch(site, trace, policy):
        round = last
    ends = round.jobs.end
    return ReplayResult(ends - trace.submit, float(ends.max() - trace.submit[0]), float(round.meters[0]),
                   float(round.meters[1]))

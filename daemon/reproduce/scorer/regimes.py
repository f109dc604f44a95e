"""Generated sites that favour different heuristics: few or many nodes, informative or useless time limits, any load.

Forty users with six recurring kinds of jobs each, log-normal run times up to a day, every seventh job failing early, 1
to 16 GPUs, arrivals in bursts and by day. Users ask for one to three times what their job takes if it does not fail;
*lazy* ones always for 24 h.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...agents.kinds import TraceWindow
from ...policies import named
from ...replay.arrays import Floats
from ...replay.cluster import Cluster
from ...replay.engine import run
from ...replay.runtime_prediction import JobFeatures, predicted_columns
from ...replay.workload import Workload

INCUMBENT = "fifo+best-fit+easy"
USERS, KINDS = 40, 6
HOUR_S, DAY_S = 3600.0, 86400.0
GPUS, GPU_ODDS = (1, 2, 4, 8, 16), (0.45, 0.15, 0.17, 0.18, 0.05)
EARLY = 0.15
"""Share of jobs that fail early."""
WARM_UP = 0.15
"""Share of a trace's jobs that only fill the cluster and the predictor's history."""


@dataclass(frozen=True, slots=True)
class Regime:
    """Parameters of a generated site."""

    nodes: int
    limits: str
    """Kind of time limits: a name in ``LAZY``."""
    load: float
    """Ratio of requested GPU time to available GPU time."""

    @property
    def name(self) -> str:
        """Return it in words."""
        return f"{self.nodes} nodes, {self.limits} limits, load {self.load:g}"


LAZY = {"informative": 0.0, "lazy": 0.9, "no": 1.0}
"""Share of users who always request 24 h; with ``no``, neither limits nor users are known."""
TAUGHT = ("informative", "lazy", "informative", "lazy", "no")
"""Kinds of limits from which the training windows are drawn."""
NODES, LIMITS, LOADS = (4, 8, 32, 128), ("informative", "lazy"), (0.7, 0.9, 1.1)
FIRST_JUDGED = 1000
"""Number of the first test trace; traces below were used during the development of the scorer."""
REGIMES = tuple(Regime(nodes, limits, load) for nodes in NODES for limits in LIMITS for load in LOADS)


def window(regime: Regime, seed: int) -> TraceWindow:
    """Return a trace of a regime; the same seed gives the same trace."""
    random = np.random.default_rng([seed, regime.nodes, round(100 * LAZY[regime.limits]), round(100 * regime.load)])
    jobs = int(np.clip(150 * regime.nodes, 1200, 6000))
    kinds = random.integers(0, USERS * KINDS, jobs)
    median = np.clip(random.lognormal(np.log(0.5 * HOUR_S), 1.7, USERS * KINDS), 60.0, 20 * HOUR_S)[kinds]
    gpus = random.choice(GPUS, USERS * KINDS, p=GPU_ODDS)[kinds]
    whole = np.minimum(median * random.lognormal(0.0, 0.5, jobs), DAY_S)
    run_s = np.where(random.random(jobs) < EARLY, whole * random.uniform(0.01, 0.2, jobs), whole)
    lazy = (random.random(USERS) < LAZY[regime.limits])[kinds // KINDS]
    requested = np.minimum(DAY_S, np.ceil(whole * random.uniform(1.0, 3.0, jobs) / 900.0) * 900.0)
    limit = np.where(lazy, DAY_S, requested)
    submit = _arrivals(random, gpus * run_s / (8 * regime.nodes * regime.load))
    cluster = Cluster.from_spec(f"{regime.nodes}x8")
    user = (kinds // KINDS).astype(np.int32)
    if regime.limits == "no":
        limit, user, kinds = np.full(jobs, np.inf), np.full(jobs, -1, np.int32), np.full(jobs, -1)
    work = Workload.of(submit, run_s, gpus, limit=limit, user=user, user_names=tuple(map(str, range(USERS))))
    # What is known of run times is what had ended under the incumbent, the same for all compared policies.
    past = run(cluster, work, named(INCUMBENT))
    known: dict[str, Any] = predicted_columns(submit_s=work.submit, run_s=work.run, ended_s=past.end,
                                              limit_s=work.limit, started_s=past.start,
                                              features=JobFeatures(work.gpus, work.user, kinds))
    return TraceWindow(cluster, replace(work, **known), float(work.submit[int(WARM_UP * jobs)]))


def _arrivals(random: np.random.Generator, gap_s: Floats) -> Floats:
    """Return submission times with the mean gap ``gap_s``: in bursts, and more by day than by night."""
    jobs = len(gap_s)
    burst = random.geometric(0.35, jobs)
    begins = np.repeat(np.arange(jobs), burst)[:jobs]
    gaps = random.exponential(1.0, jobs)[begins]
    first = np.concatenate([[True], np.diff(begins) > 0])
    steps = np.where(first, gaps, 0.02 * random.random(jobs))
    unwarped = np.cumsum(steps)
    span = float(gap_s.sum())
    even = unwarped / unwarped[-1] * span
    day = 2 * np.pi * even / DAY_S
    return np.asarray(even + 0.4 * DAY_S / (2 * np.pi) * (1.0 - np.cos(day)))


def judging(regime: Regime, number: int) -> TraceWindow:
    """Return the test trace with this number; no test trace was used during the development of the scorer."""
    return window(regime, FIRST_JUDGED + number)


def enough(regime: Regime, largest: int) -> int:
    """Return the number of traces of a site that gives the same precision as the largest site's.

    Small sites need more.
    """
    return largest * max(NODES) // regime.nodes


def drawn(nodes: int, number: int) -> TraceWindow:
    """Return the training trace with this number, on so many nodes, with random kind of limits and random load."""
    random = np.random.default_rng([7, number])
    regime = Regime(nodes, str(random.choice(TAUGHT)), float(random.uniform(0.65, 1.15)))
    return window(regime, 1_000_000 + number)

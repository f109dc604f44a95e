"""Training of TopDRL on a site: imitation of the best order with the closest placement, then policy gradient."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...replay.arrays import Floats
from ..kinds import Progress, TraceWindow, TrainingConfig
from ..observation import spread_known
from ..policy_gradient import PolicyGradientSpec
from ..policy_gradient import train as learn
from .agent import NEVER, TopDRL, load, save, schema
from .network import INPUTS, NET, OF_JOB, SLOWER

CLOSE = 0.86
"""Least speed, relative to the closest placement, at which rules that wait start a job."""
_RUN, _GPUS, _WAITED, _IDLE = (INPUTS.index(name) for name in ("run", "GPUs", "waited", "is waiting"))


def first(rows: Floats) -> int:
    """Choose the job that has waited for the longest."""
    return _chosen(rows, rows[:, _WAITED])


def shortest(rows: Floats) -> int:
    """Choose the job with the shortest expected run time on its present placement."""
    return _chosen(rows, -2.0 * rows[:, _RUN] - rows[:, SLOWER])


def smallest(rows: Floats) -> int:
    """Choose the least GPU time."""
    return _chosen(rows, -2.0 * rows[:, _RUN] - rows[:, SLOWER] - 3.0 * np.log(2.0) * rows[:, _GPUS])


def shortest_close(rows: Floats) -> int:
    """Choose the job expected to run for the shortest, of those not far faster on GPUs closer together."""
    slow = rows[:, SLOWER] > -np.log(CLOSE)
    return _chosen(rows, np.where(slow, 2 * NEVER, -2.0 * rows[:, _RUN] - rows[:, SLOWER]))


RULES = {"fifo": first, "sjf": shortest, "smallest-area": smallest, "sjf-close": shortest_close}
"""Orders, all with the nearest placement and a promise to the first that does not fit."""


def _chosen(rows: Floats, rank: Floats) -> int:
    """Return the row of highest rank; waiting ranks below every job that may start."""
    return int(np.where(rows[:, _IDLE] == 1.0, NEVER, rank).argmax())


def flat(window: TraceWindow) -> str | None:
    """Return why nothing can be learned from a trace window: the slowdown by distance is unknown; else None."""
    work = window.workload
    several = work.application[work.gpus > 1].astype(np.int64)
    if spread_known(window.speeds.table, several).any():
        return None
    return ("the speed of no group of jobs when scattered is known, which is what topdrl goes by; it needs speeds by "
            "placement")


SPEC = PolicyGradientSpec("topdrl", NET, schema(), INPUTS[:OF_JOB], RULES, TopDRL, save, flat)


def train(config: TrainingConfig) -> Iterator[Progress]:
    """Train and yield progress; ``TrainingError`` where nothing can be learned."""
    start = None if config.start is None else load(config.start).weights
    return learn(SPEC, config, start)

"""Training of DL2 on a site: imitation of the best known sizing rule, then policy gradient."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...replay.arrays import Floats
from ..kinds import Progress, TraceWindow, TrainingConfig
from ..observation import of_application
from ..policy_gradient import PolicyGradientSpec
from ..policy_gradient import train as learn
from .agent import DL2, load, save, schema
from .network import BELOW, GAIN, GROWS, INPUTS, LEFT, NEED, NET, OF_STEP, SHRINKS, STARTS, STOPS, WAITED

NEVER = -1e300
LEAST_GAIN = 0.2
"""Least gain of speed by doubling, as a logarithm; less would waste GPUs."""


def rigid(rows: Floats) -> int:
    """Start the job with the shortest remaining time at its requested size, and never resize."""
    rank = np.where(rows[:, STARTS] == 1.0, -rows[:, LEFT], NEVER)
    return _chosen(rows, np.where((rows[:, GROWS] == 1.0) & (rows[:, BELOW] == 1.0), 1e3, rank))


def oldest(rows: Floats) -> int:
    """Start the job that has waited for the longest at its requested size, and never resize."""
    rank = np.where(rows[:, STARTS] == 1.0, rows[:, WAITED], NEVER)
    return _chosen(rows, np.where((rows[:, GROWS] == 1.0) & (rows[:, BELOW] == 1.0), 1e3, rank))


def gainful(rows: Floats) -> int:
    """Start the shortest job at its smallest size, then double the job that gains most, if it gains enough."""
    rank = np.where(rows[:, STARTS] == 1.0, 1e3 - rows[:, LEFT], NEVER)
    grows = (rows[:, GROWS] == 1.0) & (rows[:, GAIN] > LEAST_GAIN)
    return _chosen(rows, np.where(grows, rows[:, GAIN], rank))


def sharing(rows: Floats) -> int:
    """Grow jobs as ``gainful`` does, or shrink the job that loses least while another one has no GPUs."""
    takes = (rows[:, SHRINKS] == 1.0) & (rows[:, NEED] == 1.0)
    rank = np.where(rows[:, STARTS] == 1.0, 1e3 - rows[:, LEFT], np.where(takes, rows[:, GAIN], NEVER))
    grows = (rows[:, GROWS] == 1.0) & (rows[:, GAIN] > LEAST_GAIN) & (rows[:, NEED] == 0.0)
    return _chosen(rows, np.where(grows, rows[:, GAIN], rank))


RULES = {"sjf, as asked": rigid, "fifo, as asked": oldest, "gain": gainful, "sharing": sharing}


def _chosen(rows: Floats, rank: Floats) -> int:
    """Return the row of highest rank; stopping ranks above all that a rule never does."""
    return int(np.where(rows[:, STOPS] == 1.0, NEVER / 2, rank).argmax())


def all_rigid(window: TraceWindow) -> str | None:
    """Return why nothing can be learned from a window: no job has other sizes with known speeds; else None."""
    work = window.workload
    known = (of_application(window.speeds.table.size, work.application.astype(np.int64))[:, 1:] != 1.0).any(axis=1)
    if ((work.minimum < work.maximum) & known).any():
        return None
    return ("no job here may have another number of GPUs than it asks for with a speed that is known, which is what "
            "dl2 decides on; it needs jobs that came in several sizes, and speeds by size")


SPEC = PolicyGradientSpec("dl2", NET, schema(), INPUTS[:OF_STEP], RULES, DL2, save, all_rigid)


def train(config: TrainingConfig) -> Iterator[Progress]:
    """Train and yield progress; ``TrainingError`` where nothing can be learned."""
    start = None if config.start is None else load(config.start).weights
    return learn(SPEC, config, start)

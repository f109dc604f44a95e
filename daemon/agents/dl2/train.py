"""How DL2 learns on a site: as the best known way of sizing jobs first, then by policy gradient."""

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
"""Logarithm of the speed that doubling must bring, or else it only burns GPUs."""


def rigid(rows: Floats) -> int:
    """Start the job that is expected to be done first, give each what it asked for, and change nothing later."""
    rank = np.where(rows[:, STARTS] == 1.0, -rows[:, LEFT], NEVER)
    return _chosen(rows, np.where((rows[:, GROWS] == 1.0) & (rows[:, BELOW] == 1.0), 1e3, rank))


def oldest(rows: Floats) -> int:
    """Start the job that has waited for the longest, give each what it asked for, and change nothing later."""
    rank = np.where(rows[:, STARTS] == 1.0, rows[:, WAITED], NEVER)
    return _chosen(rows, np.where((rows[:, GROWS] == 1.0) & (rows[:, BELOW] == 1.0), 1e3, rank))


def gainful(rows: Floats) -> int:
    """Start the job that is done first on the least it can use, then double the one that gains most, if enough."""
    rank = np.where(rows[:, STARTS] == 1.0, 1e3 - rows[:, LEFT], NEVER)
    grows = (rows[:, GROWS] == 1.0) & (rows[:, GAIN] > LEAST_GAIN)
    return _chosen(rows, np.where(grows, rows[:, GAIN], rank))


def sharing(rows: Floats) -> int:
    """Grow the job that gains most as ``gainful`` does, or take GPUs from the one that loses least if one has none."""
    takes = (rows[:, SHRINKS] == 1.0) & (rows[:, NEED] == 1.0)
    rank = np.where(rows[:, STARTS] == 1.0, 1e3 - rows[:, LEFT], np.where(takes, rows[:, GAIN], NEVER))
    grows = (rows[:, GROWS] == 1.0) & (rows[:, GAIN] > LEAST_GAIN) & (rows[:, NEED] == 0.0)
    return _chosen(rows, np.where(grows, rows[:, GAIN], rank))


RULES = {"sjf, as asked": rigid, "fifo, as asked": oldest, "gain": gainful, "sharing": sharing}


def _chosen(rows: Floats, rank: Floats) -> int:
    """Return the highest rank; to stop comes before all that a rule would never do."""
    return int(np.where(rows[:, STOPS] == 1.0, NEVER / 2, rank).argmax())


def all_rigid(window: TraceWindow) -> str | None:
    """Return why nothing can be learned from a window: no job may have another size with a speed that is known."""
    work = window.workload
    known = (of_application(window.speeds.table.size, work.application.astype(np.int64))[:, 1:] != 1.0).any(axis=1)
    if ((work.minimum < work.maximum) & known).any():
        return None
    return ("no job here may have another number of GPUs than it asks for with a speed that is known, which is what "
            "dl2 decides on; it needs jobs that came in several sizes, and speeds by size")


SPEC = PolicyGradientSpec("dl2", NET, schema(), INPUTS[:OF_STEP], RULES, DL2, save, all_rigid)


def train(config: TrainingConfig) -> Iterator[Progress]:
    """Train and yield how far it has come; ``TrainingError`` where nothing can be learned."""
    start = None if config.start is None else load(config.start).weights
    return learn(SPEC, config, start)

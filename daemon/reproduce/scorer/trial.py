"""Training settings of scorers: on generated sites of eight nodes, and on Philly's other virtual clusters."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ...agents.kinds import Objective, TrainingConfig
from .regimes import INCUMBENT, drawn
from .sites import other_clusters

NODES = 8
OBJECTIVE = Objective(jct_mean=0.95, slowdown_mean=0.0, wait_p99=0.05)
"""Objective of training on generated sites: mean completion time, without a worse tail of waits."""
SELECT, FIRST_SELECTED = 48, 900_000
"""Number of windows for selection, and the number of the first one."""
APART = 10_000
"""Distance between the window numbers of two seeds, so that trainings share no windows."""
MEAN = Objective(jct_mean=1.0, slowdown_mean=0.0, wait_p99=0.0)
"""Objective of training on Philly: mean completion time only, which HeliosArtifact published."""


def made_up(seed: int, budget_s: float, folder: Path) -> TrainingConfig:
    """Return the config of a training on generated sites of eight nodes, with random limits and loads."""
    later = [drawn(NODES, FIRST_SELECTED + APART * seed + number) for number in range(SELECT)]
    return TrainingConfig(lambda number: drawn(NODES, APART * seed + number), later, INCUMBENT, seed, budget_s,
                  folder / f"seed-{seed}", OBJECTIVE)


def philly(traces: Path, budget_s: float, folder: Path) -> TrainingConfig:
    """Return the config of a training on the virtual clusters of Philly without published results."""
    later = [other_clusters(traces, FIRST_SELECTED + number) for number in range(SELECT)]
    return TrainingConfig(partial(other_clusters, traces), later, INCUMBENT, 0, budget_s, folder / "philly", MEAN)

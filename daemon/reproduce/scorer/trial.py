"""Train scorers to be tried elsewhere: on made-up sites of eight nodes, on other virtual clusters of Philly."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ...agents.kinds import Objective, TrainingConfig
from .regimes import INCUMBENT, drawn
from .sites import other_clusters

NODES = 8
OBJECTIVE = Objective(jct_mean=0.95, slowdown_mean=0.0, wait_p99=0.05)
"""What the figure asks for: mean completion time, at a tail that is no worse."""
SELECT, FIRST_SELECTED = 48, 900_000
"""Windows that choose, and the number of the first."""
APART = 10_000
"""Between the windows of one seed and those of the next: trainings have nothing in common but the kind of site."""
MEAN = Objective(jct_mean=1.0, slowdown_mean=0.0, wait_p99=0.0)
"""What HeliosArtifact published for Philly, and nothing else."""


def made_up(seed: int, budget_s: float, folder: Path) -> TrainingConfig:
    """Return a config over any limits and any load, but eight nodes."""
    later = [drawn(NODES, FIRST_SELECTED + APART * seed + number) for number in range(SELECT)]
    return TrainingConfig(lambda number: drawn(NODES, APART * seed + number), later, INCUMBENT, seed, budget_s,
                  folder / f"seed-{seed}", OBJECTIVE)


def philly(traces: Path, budget_s: float, folder: Path) -> TrainingConfig:
    """Return a config over the virtual clusters that nothing is published of that could be replayed."""
    later = [other_clusters(traces, FIRST_SELECTED + number) for number in range(SELECT)]
    return TrainingConfig(partial(other_clusters, traces), later, INCUMBENT, 0, budget_s, folder / "philly", MEAN)

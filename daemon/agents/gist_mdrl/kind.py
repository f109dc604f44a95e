"""The GIST agents as a kind that a site can train and make active."""

from __future__ import annotations

from collections.abc import Iterator

from ..kinds import AgentKind, Objective, Progress, TrainingConfig, TrainingError, register
from .live import load

# Its rewards are utilisation; completion time decides between agents that have as much of it.


def _train(config: TrainingConfig) -> Iterator[Progress]:
    try:
        from .site_training import train  # torch, which only training needs
    except ImportError as error:
        raise TrainingError("gist_mdrl is trained with torch: pip install 'idlewatt[train]'") from error
    return train(config)


KIND = register(AgentKind("gist_mdrl", _train, load, torch=True, objective=Objective(
    jct_mean=0.1, slowdown_mean=0.0, wait_p99=0.0, utilization=0.9)))

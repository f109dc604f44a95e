"""DL2 as a kind that a site can train and make active."""

from __future__ import annotations

from collections.abc import Iterator

from ..kinds import AgentKind, Progress, TrainingConfig, register
from .agent import load


def _train(config: TrainingConfig) -> Iterator[Progress]:
    from .train import train  # scipy, which only training needs

    return train(config)


KIND = register(AgentKind("dl2", _train, load))

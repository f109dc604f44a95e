"""MAIFS as a kind that a site can train and make active."""

from __future__ import annotations

from collections.abc import Iterator

from ..kinds import AgentKind, Progress, TrainingConfig, TrainingError, register
from .agent import load


def _train(config: TrainingConfig) -> Iterator[Progress]:
    try:
        from .train import train  # torch, which only training needs
    except ImportError as error:
        raise TrainingError("maifs is trained with torch: pip install 'idlewatt[train]'") from error
    return train(config)


KIND = register(AgentKind("maifs", _train, load))

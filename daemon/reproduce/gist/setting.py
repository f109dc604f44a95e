"""How much of the GIST AI-X paper is trained and tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Of the first agent; the others have the next ones."""
    seeds: Annotated[int, Field(ge=1, le=1000)] = 10
    """Agents of each kind and partition."""
    apart: Annotated[int, Field(ge=0, le=1000)] = 3
    """Agents for each option that is measured apart; 0 leaves them out."""
    episodes: Annotated[int, Field(ge=1)] = 1000
    """Of training."""
    tests: Annotated[int, Field(ge=1)] = 100
    """Test episodes."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Agents trained at a time."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Where to train; auto is CUDA where there is one. Networks so small gain nothing from it."""
    tensorboard: bool = False
    """Whether the curves of each training are written for TensorBoard, too."""


FULL = Setting()
"""About five minutes on two cores."""
QUICK = Setting(seeds=2, apart=0, episodes=300)

"""Settings of ``idlewatt reproduce topdrl``: the amount of training and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=1, le=9000)] = 1
    """Seed of the first training. Seeds rise by 2, because each training selects on the episodes of its seed + 1."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 3
    """Number of trainings of the size-invariant agent."""
    rounds: Annotated[int, Field(ge=0, le=100_000)] = 160
    """Rounds of each of these trainings."""
    literal_rounds: Annotated[int, Field(ge=0, le=100_000)] = 60
    """Rounds of the published network's training."""
    episodes: Annotated[int, Field(ge=1, le=1000)] = 5
    """Held-out episodes for each of four sizes of cluster and two mixes of jobs."""


FULL = Setting()
"""The full run, which takes about ten minutes on two cores."""
QUICK = Setting(seeds=1, rounds=20, literal_rounds=0, episodes=1)

"""How much is trained and tried on TopDRL's bench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=1, le=9000)] = 1
    """Of the first training. Each further one has the seed after the next: it chooses by episodes of the next."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 3
    """Trainings of the size-free form."""
    rounds: Annotated[int, Field(ge=0, le=100_000)] = 160
    """Of each of them."""
    literal_rounds: Annotated[int, Field(ge=0, le=100_000)] = 60
    """Of the literal network's training."""
    episodes: Annotated[int, Field(ge=1, le=1000)] = 5
    """Held-out ones of each of four sizes of cluster and two mixes of jobs."""


FULL = Setting()
"""About ten minutes on two cores."""
QUICK = Setting(seeds=1, rounds=20, literal_rounds=0, episodes=1)

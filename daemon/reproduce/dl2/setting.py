"""Settings of ``idlewatt reproduce dl2``: the amount of training and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 1
    """Seed of the trainings of DL2's own agent."""
    most: tuple[Annotated[int, Field(ge=1, le=32)], ...] = (8, 16)
    """Limits of workers of a job; each limit is reported separately. Speeds beyond 10 are extrapolated."""
    plans: Annotated[int, Field(ge=0, le=100_000)] = 512
    """Number of plans that our rule tries in each slot."""
    updates: Annotated[int, Field(ge=0, le=1_000_000)] = 6000
    """Updates of each training of DL2's own agent, with the first limit of ``most``; 0 omits it and needs no torch."""
    speeds: Path | None = None
    """The authors' config_speed.txt, if you have it, instead of our fit."""


FULL = Setting()
QUICK = Setting(most=(8,), plans=16, updates=0)

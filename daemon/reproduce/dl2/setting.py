"""How much is trained and tried in DL2's simulation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 1
    """Of the trainings of DL2's own agent."""
    most: tuple[Annotated[int, Field(ge=1, le=32)], ...] = (8, 16)
    """Most workers of a job; several are reported apart. Speeds beyond 10 are extrapolated."""
    plans: Annotated[int, Field(ge=0, le=100_000)] = 512
    """That our rule tries in each slot."""
    updates: Annotated[int, Field(ge=0, le=1_000_000)] = 6000
    """Of each training of DL2's own agent, for the first of ``most``; 0 leaves it out, and needs no torch."""
    speeds: Path | None = None
    """The authors' config_speed.txt, where you have it, instead of our fit of it."""


FULL = Setting()
QUICK = Setting(most=(8,), plans=16, updates=0)

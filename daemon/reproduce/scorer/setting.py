"""Settings of ``idlewatt reproduce scorer``: the amount of training and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Seed of the first model; the others use the following seeds."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 5
    """Number of models to train."""
    budget_s: Annotated[float, Field(gt=0)] = 600.0
    """Largest training time of each model, s."""
    drawn: Annotated[int, Field(ge=1, le=1000)] = 4
    """Number of traces of each generated site of 128 nodes; sites with half the nodes get twice the traces."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Number of parallel replays."""


FULL = Setting()
"""The full run, which takes about an hour on two cores."""
QUICK = Setting(seeds=1, budget_s=60.0, drawn=1)

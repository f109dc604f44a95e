"""How much is trained and tried on made-up and real sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Of the first model; the others have the next ones."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 5
    """Models to train."""
    budget_s: Annotated[float, Field(gt=0)] = 600.0
    """Seconds to train each of them, at most."""
    drawn: Annotated[int, Field(ge=1, le=1000)] = 4
    """Traces of each made-up site of 128 nodes; half the nodes, twice the traces."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Traces replayed at a time."""


FULL = Setting()
"""About an hour on two cores."""
QUICK = Setting(seeds=1, budget_s=60.0, drawn=1)

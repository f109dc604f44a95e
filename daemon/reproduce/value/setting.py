"""Which traces are replayed, and what is tried on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is replayed, how often, and on what terms."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Of the first draw of whatever is random; the others have the next ones."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 3
    sites: Annotated[int, Field(ge=1, le=9)] = 9
    """How many of the traces, in the order of the report."""
    only: tuple[Annotated[int, Field(ge=1, le=9)], ...] = ()
    """These traces in this turn, by their places in the report; none: the first ``sites``."""
    policies: tuple[str, ...] = ()
    """Only these, with oracles of the same names, beside incumbent, chance and power; none: all, and the gate."""
    limit_factor: Annotated[float, Field(ge=1)] = 3.0
    """Time limits are so many times the run time, as no trace tells them."""
    budget_s: Annotated[float, Field(ge=0)] = 60.0
    """Seconds to train each agent; 0 leaves agents out."""
    power_down_s: Annotated[float, Field(ge=0)] = 1800.0
    """After so long Slurm powers an empty node down."""
    wake_s: Annotated[float, Field(ge=0)] = 300.0
    """How long a node takes to come up."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Replays at a time."""


FULL = Setting()
QUICK = Setting(seeds=1, sites=1, budget_s=0.0)

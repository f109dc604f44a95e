"""How much is trained and judged on each trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """Which agents are trained on which sites, how often and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Of the first training; the others have the next ones. A seed draws the applications of the jobs, too."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 3
    budget_s: Annotated[float, Field(gt=0)] = 120.0
    """Seconds to train each agent, at most."""
    kinds: str = "dl2,gist_mdrl,maifs,scorer,topdrl"
    sites: Annotated[int, Field(ge=0, le=3)] = 3
    """How many of the sites, in the order of the report; 0 leaves them out."""
    elsewhere_s: Annotated[float, Field(ge=0)] = 20.0
    """Seconds to train each scorer that is asked on sites it was not made for; 0 leaves these out."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Trainings at a time."""


FULL = Setting()
QUICK = Setting(seeds=1, budget_s=10.0, sites=1, elsewhere_s=0.0)

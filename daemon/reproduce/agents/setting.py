"""Settings of ``idlewatt reproduce agents``: the amount of training and evaluation on each trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """Agents, sites, number of trainings and training times."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Seed of the first training; the others use the following seeds. A seed also draws the jobs' applications."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 3
    budget_s: Annotated[float, Field(gt=0)] = 120.0
    """Seconds to train each agent, at most."""
    kinds: str = "dl2,gist_mdrl,maifs,scorer,topdrl"
    sites: Annotated[int, Field(ge=0, le=3)] = 3
    """Number of sites, in the order of the report; 0 omits them."""
    elsewhere_s: Annotated[float, Field(ge=0)] = 20.0
    """Seconds to train each scorer that is evaluated on other sites than its own; 0 omits these."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Number of parallel trainings."""


FULL = Setting()
QUICK = Setting(seeds=1, budget_s=10.0, sites=1, elsewhere_s=0.0)

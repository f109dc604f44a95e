"""Settings of ``idlewatt reproduce value``: the traces, the policies and their conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """The traces, policies, number of draws and conditions of the comparison."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Seed of the first draw of random policies; the others use the following seeds."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 3
    sites: Annotated[int, Field(ge=1, le=9)] = 9
    """Number of traces, in the order of the report."""
    only: tuple[Annotated[int, Field(ge=1, le=9)], ...] = ()
    """Numbers of the traces in this run, by their places in the report; if empty, the first ``sites`` traces."""
    policies: tuple[str, ...] = ()
    """Policies to replay, with their oracles, beside incumbent, random baseline and power; if empty, all and the
    gate."""
    limit_factor: Annotated[float, Field(ge=1)] = 3.0
    """Ratio of assumed time limits to run times, because no trace contains limits."""
    budget_s: Annotated[float, Field(ge=0)] = 60.0
    """Training time of each agent, s; 0 omits agents."""
    power_down_s: Annotated[float, Field(ge=0)] = 1800.0
    """Time after which Slurm powers an empty node down, s."""
    wake_s: Annotated[float, Field(ge=0)] = 300.0
    """Boot time of a node, s."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Number of parallel replays."""


FULL = Setting()
QUICK = Setting(seeds=1, sites=1, budget_s=0.0)

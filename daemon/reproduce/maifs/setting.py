"""Settings of ``idlewatt reproduce maifs``: the amount of training and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 1
    """Of training."""
    rounds: Annotated[int, Field(ge=0, le=100_000)] = 40
    """Of training."""
    windows: Annotated[int, Field(ge=1, le=100)] = 40
    """Largest number of held-out windows of each comparison."""
    ablations: bool = False
    """Whether agents without attention, graph, fungible allocation or joint decision are trained, too, each as long;
    else these parts are only taken away from the trained agent."""


FULL = Setting()
"""The full run: about a quarter of an hour, mostly training; with ``ablations`` an hour."""
QUICK = Setting(rounds=2, windows=2)

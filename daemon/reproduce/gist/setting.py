"""Settings of ``idlewatt reproduce gist``: the amount of training and tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from ...agents.gist_mdrl.agent import UNNAMED, Hyperparameters


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Seed of the first agent; the others use the following seeds."""
    seeds: Annotated[int, Field(ge=1, le=1000)] = 10
    """Number of agents of each kind and partition."""
    apart: Annotated[int, Field(ge=0, le=1000)] = 3
    """Number of agents for each option that is measured alone; 0 omits them."""
    episodes: Annotated[int, Field(ge=1)] = 1000
    """Number of training episodes."""
    tests: Annotated[int, Field(ge=1)] = 100
    """Number of test episodes."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Number of parallel trainings."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Device of training; auto is CUDA if present. Networks this small gain nothing from it."""
    table: str = ""
    """YAML file with another table of flavours, servers (N) and partitions (M); '' is the paper's table."""
    sensitivity: Annotated[int, Field(ge=0, le=1000)] = 0
    """Number of agents for each change of a hyper-parameter that the paper does not state; 0 omits the table."""
    discount: Annotated[float, Field(ge=0, le=1)] = UNNAMED.discount
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = UNNAMED.learning_rate[0]
    """Learning rate at the beginning; it falls to a fiftieth."""
    hidden: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1)] = UNNAMED.hidden
    """Number of neurons of each hidden layer, separated by commas."""
    tensorboard: bool = False
    """Whether the curves of each training are also written for TensorBoard."""


    @property
    def values(self) -> Hyperparameters:
        """Return the hyper-parameters."""
        return replace(UNNAMED, discount=self.discount, learning_rate=(self.learning_rate, self.learning_rate / 50),
                       hidden=self.hidden)


FULL = Setting()
"""The full run, which takes about five minutes on two cores."""
QUICK = Setting(seeds=2, apart=0, episodes=300)

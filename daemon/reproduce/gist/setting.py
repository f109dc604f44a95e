"""How much of the GIST AI-X paper is trained and tested."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from ...agents.gist_mdrl.agent import UNNAMED, Hyperparameters


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how long."""

    seed: Annotated[int, Field(ge=0, le=9000)] = 0
    """Of the first agent; the others have the next ones."""
    seeds: Annotated[int, Field(ge=1, le=1000)] = 10
    """Agents of each kind and partition."""
    apart: Annotated[int, Field(ge=0, le=1000)] = 3
    """Agents for each option that is measured apart; 0 leaves them out."""
    episodes: Annotated[int, Field(ge=1)] = 1000
    """Of training."""
    tests: Annotated[int, Field(ge=1)] = 100
    """Test episodes."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Agents trained at a time."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Where to train; auto is CUDA where there is one. Networks so small gain nothing from it."""
    table: str = ""
    """A YAML file with another table of flavours, other numbers of servers (N) and partitions (M); '' the paper's."""
    sensitivity: Annotated[int, Field(ge=0, le=1000)] = 0
    """Agents for each change of a hyper-parameter that the paper leaves out; 0 leaves the table out."""
    discount: Annotated[float, Field(ge=0, le=1)] = UNNAMED.discount
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = UNNAMED.learning_rate[0]
    """At first; it falls to a fiftieth."""
    hidden: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1)] = UNNAMED.hidden
    """Neurons of each layer, separated by commas."""
    tensorboard: bool = False
    """Whether the curves of each training are written for TensorBoard, too."""


    @property
    def values(self) -> Hyperparameters:
        """Return the hyper-parameters."""
        return replace(UNNAMED, discount=self.discount, learning_rate=(self.learning_rate, self.learning_rate / 50),
                       hidden=self.hidden)


FULL = Setting()
"""About five minutes on two cores."""
QUICK = Setting(seeds=2, apart=0, episodes=300)

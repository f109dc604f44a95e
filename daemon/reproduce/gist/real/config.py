"""On which Slurm the experiment runs, how much of it, and how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ....settings.values import Duration, StrictSettings
from ....strict_yaml import read_strictly, text_of

PolicyName = Literal["slurm", "random", "first_fit", "literal", "improved"]
POLICIES: tuple[PolicyName, ...] = ("slurm", "random", "first_fit", "literal", "improved")


class RealSettings(StrictSettings):
    """The whole file; every partition must be idle, of two servers with eight GPUs each, and nobody else's."""

    partitions: Annotated[tuple[str, ...], Field(min_length=1)]
    """Of Slurm, each plays one episode at a time."""
    slurm_conf: Path | None = None
    bin_dir: Path | None = None
    submit: tuple[str, ...] = ()
    """Further options of sbatch, such as ``--uid=nobody``."""
    user: str = "nobody"
    """The user that owns the jobs then."""
    scratch: Path
    """Folder that jobs on every server can write to: each notes there when it began and ended."""
    kind: Literal["A100", "V100"] = "A100"
    """The paper's partition that is played."""
    hour: Annotated[Duration, Field(gt=0)] = 1.0
    """How long an hour of the paper lasts."""
    sequences: Annotated[int, Field(ge=2, le=81)] = 20
    """Of the 81, evenly spread; the same for each policy."""
    policies: Annotated[tuple[PolicyName, ...], Field(min_length=1)] = POLICIES
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the agents and of random servers."""
    stagger: Duration = 3.0
    """Between the beginnings of two episodes: a start costs a moment of the machine."""

    @field_validator("submit")
    @classmethod
    def _options_only(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        for option in options:
            if not option.startswith("-"):
                raise ValueError(f"{option!r} is no option of sbatch")
        return options


def load(path: Path) -> RealSettings:
    """Read the file; raise ``ConfigError`` that lists every fault with its line."""
    return read_strictly(RealSettings, text_of(path), str(path), {})

"""Settings of the experiment on a real Slurm: partitions, number of sequences and speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ....settings.values import Duration, StrictSettings
from ....strict_yaml import read_strictly, text_of

PolicyName = Literal["slurm", "random", "first_fit", "literal", "improved"]
POLICIES: tuple[PolicyName, ...] = ("slurm", "random", "first_fit", "literal", "improved")


class RealSettings(StrictSettings):
    """The whole file; every partition must be idle, with two servers of eight GPUs each, and used by nobody else."""

    partitions: Annotated[tuple[str, ...], Field(min_length=1)]
    """Partitions of Slurm; each runs one episode at a time."""
    slurm_conf: Path | None = None
    bin_dir: Path | None = None
    submit: tuple[str, ...] = ()
    """Further options of sbatch, such as ``--uid=nobody``."""
    user: str = "nobody"
    """The user that owns the jobs with these options."""
    scratch: Path
    """Folder that jobs on every server can write to; each job records its beginning and its end there."""
    kind: Literal["A100", "V100"] = "A100"
    """The paper's partition that the experiment repeats."""
    hour: Annotated[Duration, Field(gt=0)] = 1.0
    """Length of an hour of the paper, s."""
    sequences: Annotated[int, Field(ge=2, le=81)] = 20
    """Number of the 81 sequences, evenly spread; the same for each policy."""
    policies: Annotated[tuple[PolicyName, ...], Field(min_length=1)] = POLICIES
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the agents and of random servers."""
    stagger: Duration = 3.0
    """Time between the beginnings of two episodes, s, because each beginning loads the machine."""

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

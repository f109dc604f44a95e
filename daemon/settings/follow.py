"""What ``idlewatt follow`` may do, where, for which users and how often; nothing until a site says so."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .values import Duration, StrictSettings, named

Action = Literal["required_nodes", "nice"]
Pattern = Annotated[str, Field(min_length=1, max_length=256)]
Positive = Annotated[Duration, Field(gt=0)]


class DaemonSettings(StrictSettings):
    """The daemon whose advice is followed."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] = "http://127.0.0.1:9723"
    ca_file: Path | None = None
    timeout: Positive = 5.0


class CommandSettings(StrictSettings):
    """Slurm's commands on this machine."""

    bin_dir: Path | None = None
    """Folder of squeue, sinfo and scontrol; else PATH."""
    slurm_conf: Path | None = None
    timeout: Positive = 10.0


class AllowSettings(StrictSettings):
    """What may be acted on: all three must allow it."""

    partitions: Annotated[tuple[Annotated[str, named("partition")], ...], Field(min_length=1)]
    """Names, no patterns: each must be one of Slurm's."""
    users: Annotated[tuple[Pattern, ...], Field(min_length=1)]
    """Patterns such as ``stud-*``."""
    actions: Annotated[tuple[Action, ...], Field(min_length=1)] = ("required_nodes",)


class LimitSettings(StrictSettings):
    """How much at a time."""

    at_once: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Pins that wait for their jobs' start."""
    per_minute: Annotated[int, Field(ge=1, le=10_000)] = 6
    """Changes made; taking back is never held up."""


class FollowSettings(StrictSettings):
    """The whole file of ``idlewatt follow``."""

    dry_run: bool = True
    """Only the ledger is written: look at it before anything is done."""
    daemon: DaemonSettings = DaemonSettings()
    slurm: CommandSettings = CommandSettings()
    ledger: Path = Path("/var/lib/idlewatt-follow/ledger.db")
    """An SQLite file on this machine's own disk: what is done must be noted even while a network is away."""
    kill_switch: Path = Path("/etc/idlewatt-follow/stop")
    """While there is such a file, every pin is taken back and none is made."""
    allow: AllowSettings
    policy: str = ""
    """Follow only this policy, or kind of agent; the active one where it is left out."""
    despite: tuple[Annotated[str, named("degradation")], ...] = ()
    """Causes of the degraded state with which advice is followed all the same, such as ``unmeasured``."""
    every: Annotated[Duration, Field(ge=0.1, le=60)] = 5.0
    advice_within: Positive = 60.0
    """Oldest reading of the scheduler on which advice may rest."""
    start_within: Annotated[Duration, Field(ge=1, le=3600)] = 120.0
    """Longest time that a job may wait under changes of ours, all of them together."""
    nice: Annotated[int, Field(ge=-10_000, le=10_000)] = -100
    """Added to a job's nice value by the action nice; less than nothing lets it go first, and needs an operator."""
    limits: LimitSettings = LimitSettings()

    @model_validator(mode="after")
    def _in_time(self) -> FollowSettings:
        if self.every * 2 > self.start_within:
            raise ValueError("start_within must be at least twice as long as every: a pin is looked at once in between")
        if "nice" in self.allow.actions and self.nice == 0:
            raise ValueError("the action nice changes nothing while nice is 0")
        return self

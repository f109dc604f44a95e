"""The configuration of ``idlewatt follow``, checked against what the daemon and Slurm know."""

from __future__ import annotations

from collections.abc import Collection
from importlib import resources
from pathlib import Path

from ...exporters.metrics.declared import DEGRADED
from ..settings.follow import FollowSettings
from ..strict_yaml import read_strictly, text_of


def load(path: Path, partitions: Collection[str] | None = None) -> FollowSettings:
    """Read the file; raise ``ConfigError`` that lists every fault, each unknown partition among them."""
    return parse(text_of(path), str(path), partitions)


def parse(text: str, where: str = "configuration", partitions: Collection[str] | None = None) -> FollowSettings:
    """Return the settings of a text; without ``partitions`` these are not checked, for Slurm has not been read."""
    def partition(name: str) -> None:
        if partitions is not None and name not in partitions:
            raise ValueError(f"Slurm has no partition {name!r}; it has {', '.join(sorted(partitions)) or 'none'}")

    return read_strictly(FollowSettings, text, where, {"partition": partition, "degradation": _degradation})


def _degradation(cause: str) -> None:
    if cause not in DEGRADED:
        raise ValueError(f"{cause!r} is no cause of the degraded state; there are {', '.join(DEGRADED)}")


def sample() -> str:
    """Return the documented sample: every key with its default."""
    return resources.files(__package__).joinpath("follow.sample.yml").read_text(encoding="utf-8")

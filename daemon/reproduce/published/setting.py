"""Settings of ``idlewatt reproduce published``: the replayed artifacts and the file for their table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Artifact = Literal["helios", "muri", "pollux", "fgd", "proximity"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The replayed artifacts; the seeds are those of the publications."""

    artifacts: tuple[Artifact, ...] = ("helios", "muri", "pollux", "fgd", "proximity")
    """Names of files in this folder, each with a function ``rows(traces)``."""
    into: Path | None = None
    """File in which the table also replaces the text between ``<!-- published -->`` and ``<!-- /published -->``."""


FULL = Setting()
"""The full run, which takes about a minute."""
QUICK = Setting(artifacts=("muri", "proximity"))

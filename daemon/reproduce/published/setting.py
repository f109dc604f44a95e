"""Which published results are replayed, and where their table goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Artifact = Literal["helios", "muri", "pollux", "fgd", "proximity"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is replayed; its seeds are those of the publications."""

    artifacts: tuple[Artifact, ...] = ("helios", "muri", "pollux", "fgd", "proximity")
    """Files of this folder, each with ``rows(traces)``."""
    into: Path | None = None
    """File whose text between ``<!-- published -->`` and ``<!-- /published -->`` the table replaces, too."""


FULL = Setting()
"""About a minute."""
QUICK = Setting(artifacts=("muri", "proximity"))

"""A published number beside ours, and the tables that both come from."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One published number, reproduced."""

    name: str
    """Artifact, policy and quantity with its unit."""
    setting: str
    published: float
    ours: float
    note: str = ""
    """Why they differ, where they do."""

    @property
    def difference(self) -> float:
        """Return ours relative to the published number, minus 1."""
        return self.ours / self.published - 1


def table(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, gzipped or not; lines that begin with # are comments."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(line for line in lines if not line.startswith("#"))

"""A published number with ours, and the reading of the tables that both come from."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One published number and its reproduction."""

    name: str
    """Name of the number: artifact, policy and quantity with its unit."""
    setting: str
    published: float
    ours: float
    note: str = ""
    """Reason for a difference; '' if there is none to give."""

    @property
    def difference(self) -> float:
        """Return the relative difference of our number to the published one."""
        return self.ours / self.published - 1


def table(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, gzipped or not; lines that begin with # are comments."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(line for line in lines if not line.startswith("#"))

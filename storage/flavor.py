"""What the GIST AI-X paper calls a flavour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flavor:
    """A named resource request with its time limit (GIST AI-X paper, Table 2)."""

    name: str
    gpus: int
    cpus: int
    memory_bytes: int
    limit_s: float
    rate: float
    """Share of the partition's GPUs, the paper's lambda."""

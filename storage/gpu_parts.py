"""Parts of GPUs that jobs hold: shards, MPS, time slices, fractions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A part of one GPU that a job holds, as its scheduler records it; other parts may be others' or nobody's."""

    kind: str
    """What divides the GPU: ``shard``, ``mps``, ``time_slicing``, ``fraction``."""
    index: int | None = None
    """Scheduler index of the GPU."""
    units: float = 1.0
    """In the scheduler's own count."""
    share: float | None = None
    """Of the GPU, 0..1; None where nobody tells."""
    uuid: str = ""
    """The vendor's id of the GPU, where that is what the scheduler tells."""

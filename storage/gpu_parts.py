"""Parts of GPUs that jobs hold: MIG instances, shards, MPS, time slices, fractions; and how they are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .values import number, whole, words

_MOST = 256
"""Parts of one job on one node that are recorded; no server has more."""
_WORDS = {"mig": "MIG instance {:g}", "fraction": "a fraction", "shared": "shared in turns", "mps": "MPS {:g}",
         "hami": "HAMi, {:g} MiB"}


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A part of one GPU that a job holds; other parts may be others' or nobody's."""

    kind: str
    """What divides the GPU: ``mig``, ``shard``, ``mps``, ``fraction`` (of KAI), ``hami``, ``shared`` (nothing
    more is known than that several hold it)."""
    index: int | None = None
    """Scheduler index of the GPU."""
    units: float = 1.0
    """In the scheduler's own count; of MIG the number that the instance has on its GPU, of HAMi MiB."""
    share: float | None = None
    """Of the GPU, 0..1; None where it is not known."""
    uuid: str = ""
    """The vendor's id of the GPU, where that is what is reported."""

    @property
    def words(self) -> str:
        """Return the part in words for people: ``25 % of GPU 7 (1 shard)``."""
        gpu = f"GPU {self.index}" if self.index is not None else f"GPU {self.uuid}" if self.uuid else "a GPU"
        size = "part" if self.share is None else f"{100 * self.share:.3g} %"
        return f"{size} of {gpu} ({self._kind})"

    @property
    def _kind(self) -> str:
        if self.kind in _WORDS:
            return _WORDS[self.kind].format(self.units)
        return f"{self.units:g} {self.kind}{'s' if self.kind == 'shard' and self.units != 1 else ''}"


def packed(parts: Sequence[GpuPart]) -> list[list[str | float | None]] | None:
    """Return parts as a list of lists, which a JSON column holds; None where there are none."""
    return [[words(part.kind), None if part.index is None else whole(part.index), number(part.units) or 0.0,
             number(part.share), words(part.uuid)] for part in parts[:_MOST]] or None


def unpacked(rows: Iterable[Sequence[Any]] | None) -> tuple[GpuPart, ...]:
    """Return the parts that were packed."""
    return tuple(GpuPart(*row) for row in rows or ())

"""How fast a job runs: by its number of GPUs, how far apart they are, what runs beside it, its CPUs and memory.

The speeds by the number of GPUs are measured tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS = ("island", "node", "leaf", "spine", "further")
"""How far apart the GPUs of a job are; an island is an NVSwitch or NUMA domain. Columns of ``SpeedTable.spread``."""


class SpeedError(ValueError):
    """Measurements that make no curve."""


ALONE = np.ones((1, 1))
"""Neighbours do not matter."""
ANY_GRANT = np.ones((1, 1, 1))
"""CPUs and memory do not matter."""


@dataclass(frozen=True)
class SpeedTable:
    """Relative speeds by application; row ``m`` serves jobs with ``application == m``. SpeedError for a wrong table."""

    size: Floats
    """[application, GPUs] throughput; the last column serves all larger sizes."""
    spread: Floats
    """[application, level] factor by ``LEVELS``."""
    company: Floats = field(default_factory=ALONE.copy)
    """[application, neighbour's] part of its speed that is left on a node shared with that neighbour; several multiply,
    and the slowest node counts. One that shares no node keeps it all."""
    grants: Floats = field(default_factory=ANY_GRANT.copy)
    """[application, CPUs per GPU, memory per GPU] speed, the last axis in steps of ``step``; between grid points it is
    interpolated, beyond the last it stays. It counts relative to what the job requested."""
    step: float = float(1 << 30)
    """Bytes."""

    def __post_init__(self) -> None:
        """Refuse what the engine could not go by."""
        if self.spread.ndim != 2 or self.spread.shape[1] != len(LEVELS):
            raise SpeedError(f"spread needs a column for each of {', '.join(LEVELS)}")
        if self.company.ndim != 2 or self.company.shape[0] != self.company.shape[1]:
            raise SpeedError("company needs a row and a column for each application")
        if self.grants.ndim != 3 or self.step <= 0:
            raise SpeedError("grants go by application, CPUs and memory, in positive steps of memory")
        for table in (self.spread, self.company):
            if not (np.isfinite(table) & (table > 0)).all():
                raise SpeedError("spread and company must be positive numbers: a job that stands still never ends")
        if not (np.isfinite(self.grants) & (self.grants >= 0)).all():
            raise SpeedError("grants must be numbers that are not negative")

    @property
    def coupled(self) -> bool:
        """Tell whether neighbours, CPUs or memory matter."""
        return self.company.size > 1 or self.grants.size > 1 or bool((self.company != 1).any())


FLAT = SpeedTable(np.ones((1, 1)), np.ones((1, len(LEVELS))))
"""Speed depends on nothing."""


def never_falling(speeds: Sequence[float]) -> Floats:
    """Return the speeds with each at least that of fewer GPUs: nobody must use all it was given."""
    return np.maximum.accumulate(np.asarray(speeds, np.float64))


def measured(tables: Sequence[Mapping[int, float]], most: int,
             spread: Sequence[Mapping[str, float]] | None = None, **others: Any) -> SpeedTable:
    """Return the table of measured throughputs by GPUs, one mapping per application, up to ``most`` GPUs.

    Between measured sizes the speed is interpolated, beyond the largest it stays (no extrapolation). ``spread`` gives
    factors by level where they were measured; a missing level is as fast as the one before it. ``others`` are further
    tables of :class:`SpeedTable`.
    """
    size = np.stack([_interpolated(table, most) for table in tables])
    rows = [_filled(levels) for levels in (spread or [{}] * len(tables))]
    if len(rows) != len(size):
        raise SpeedError("spread needs one mapping per application")
    return SpeedTable(size, np.stack(rows), **others)


def together(names: Sequence[str], left: Mapping[tuple[str, str], float]) -> Floats:
    """Return the ``company`` of applications by name, ``left[one, other]`` being what one keeps beside the other.

    A pair that nobody measured keeps everything; SpeedError for a name that is not among ``names``.
    """
    table, row = np.ones((len(names), len(names))), {name: index for index, name in enumerate(names)}
    for pair, ratio in left.items():
        if not set(pair) <= set(row):
            raise SpeedError(f"{pair}: known applications are {', '.join(names)}")
        table[row[pair[0]], row[pair[1]]] = ratio
    return table


def _interpolated(table: Mapping[int, float], most: int) -> Floats:
    if not table or min(table) < 1 or min(table.values()) <= 0:
        raise SpeedError("a speed table needs at least one size, and positive sizes and speeds")
    sizes = sorted(table)
    speeds = np.interp(np.arange(most + 1), [0, *sizes], [0.0, *(table[size] for size in sizes)])
    return np.asarray(never_falling(speeds.tolist()))


def _filled(levels: Mapping[str, float]) -> Floats:
    unknown = set(levels) - set(LEVELS)
    if unknown:
        raise SpeedError(f"unknown levels: {', '.join(sorted(unknown))}; known are {', '.join(LEVELS)}")
    row = np.ones(len(LEVELS))
    for index, level in enumerate(LEVELS):
        row[index] = levels.get(level, row[index - 1] if index else 1.0)
    return row

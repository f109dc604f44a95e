"""Why the GPUs of a run were underused: how long which cause was seen, with its evidence."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import Connection

from . import schema
from .database import upsert
from .values import TableRow, number, words

MOST_EVIDENCE = 12
"""Figures kept of one cause of one run."""


class Cause(StrEnum):
    """Why a GPU does less than it could; the order is that of the page."""

    WAITING_FOR_DATA = "waiting_for_data"
    CPU_BOUND = "cpu_bound"
    SMALL_BATCH = "small_batch"
    MEMORY_BOUND = "memory_bound"
    COMMUNICATION = "communication"
    ONE_OF_SEVERAL = "one_of_several"
    HEAT = "heat"
    POWER = "power"
    PRECISION = "precision"
    NONE = "none"
    """It was used well."""
    UNKNOWN = "unknown"
    """It was underused, or might have been, and nothing tells why."""

    @property
    def known(self) -> bool:
        """Tell whether it is a cause."""
        return self not in (Cause.NONE, Cause.UNKNOWN)


_CAUSES = {cause.value: cause for cause in Cause}


@dataclass(frozen=True, slots=True)
class CauseTally:
    """How long one cause was seen in one run."""

    job_id: str
    submit_s: float
    start_s: float
    cause: Cause
    updated_s: float
    gpu_seconds: float
    """Judged so, of all its GPUs together."""
    confidence: float
    """Mean of the windows, 0..1."""
    evidence: Mapping[str, float] = field(default_factory=dict)
    """Means over those windows, by what was measured."""

    @property
    def run(self) -> tuple[str, float, float]:
        """Return what identifies the run."""
        return self.job_id, self.submit_s, self.start_s


@dataclass(frozen=True, slots=True)
class Underuse:
    """Why the GPUs of a running job are underused, as far as that is known."""

    job_id: str
    submit_s: float
    partition: str
    user: str
    issued_s: float
    nodes: tuple[str, ...]
    gpus: int
    cause: Cause
    """The cause that was seen longest; ``unknown`` where none is known."""
    share_ratio: float
    """Of the judged time of its GPUs in which that was seen."""
    confidence: float | None
    evidence: tuple[str, ...]
    remedy: str
    judged_s: float
    """Time that could be judged, of one GPU."""
    activity: float | None
    """Mean over its GPUs and that time."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on."""


def store(connection: Connection, tallies: Iterable[CauseTally]) -> None:
    """Record tallies; the same run and cause again replaces. One that holds what is no number is left out."""
    rows = [row for tally in tallies if None not in (row := _row(tally)).values()]
    upsert(connection, schema.run_causes, rows, update=("updated_s", "gpu_seconds", "confidence", "evidence"))


def tally_of(row: TableRow) -> CauseTally:
    """Return the tally that a row holds; a cause that a later version wrote is unknown here."""
    cause = _CAUSES.get(row.cause, Cause.UNKNOWN)
    return CauseTally(row.job_id, row.submit_s, row.start_s, cause, row.updated_s, row.gpu_seconds, row.confidence,
                      dict(json.loads(row.evidence)))


def _row(tally: CauseTally) -> dict[str, object]:
    evidence = {words(name): round(value, 6) for name, value in list(tally.evidence.items())[:MOST_EVIDENCE]
                if math.isfinite(value)}
    numbers = {name: number(getattr(tally, name))
               for name in ("submit_s", "start_s", "updated_s", "gpu_seconds", "confidence")}
    return numbers | {"job_id": words(tally.job_id), "cause": tally.cause.value, "evidence": json.dumps(evidence)}

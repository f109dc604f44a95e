"""Records how fast runs were, by what they are called and how many GPUs they had: curves are fitted over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from sqlalchemy import Connection

from . import schema
from .database import upsert
from .values import TableRow, number, words


@dataclass(frozen=True, slots=True)
class JobRate:
    """How fast a job is just now."""

    job_id: str
    rate: float
    """Per second, in whatever the site counts: samples, tokens, steps."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one read of a throughput source gave."""

    time_s: float
    rates: tuple[JobRate, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSpeed:
    """How fast one run was on average, over what was seen of it."""

    job_id: str
    submit_s: float
    start_s: float
    user: str
    template: str
    """The job's name without what varies from run to run."""
    gpu_model: str
    """As the scheduler calls it; '' when it names none."""
    gpus: int
    nodes: int
    basis: str
    """``throughput`` as the site measures it, or ``activity``: the GPUs' mean activity times their number."""
    rate: float
    samples: int
    """Readings in the mean."""
    last_s: float


def store(connection: Connection, speeds: Iterable[RunSpeed]) -> None:
    """Record how fast runs were; the same run and basis again replaces."""
    rows = [_row(speed) for speed in speeds]
    known = [row for row in rows if None not in row.values()]
    upsert(connection, schema.speeds, known, update=("gpus", "nodes", "rate", "samples", "last_s"))


def speed_of(row: TableRow) -> RunSpeed:
    """Return the run that a row holds."""
    return RunSpeed(**{field.name: getattr(row, field.name) for field in fields(RunSpeed)})


def _row(speed: RunSpeed) -> dict[str, object]:
    return {name: words(value) if isinstance(value, str) else number(value) if isinstance(value, float) else value
            for name, value in asdict(speed).items()}

"""Records what policies would have taken in all closed windows together, so that a restart resets no counter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from sqlalchemy import Connection

from . import schema
from .database import upsert
from .values import TableRow, number, words


@dataclass(frozen=True, slots=True)
class Simulated:
    """A policy in replays of closed windows, from the first one to ``until_s``."""

    policy: str
    until_s: float
    joules: float
    wait_s: float
    """Waiting of all jobs."""
    error_ratio: float | None = None
    """(Simulated - measured) / measured energy of the incumbent in the window that ends there."""
    wait_error_ratio: float | None = None
    """Mean absolute error of the incumbent's simulated starts over the mean wait, of the jobs that waited."""
    incumbent: str = ""
    """Whom ``saved_joules`` is measured against; '' where nothing was compared."""
    saved_joules: float = 0.0
    """What it took less than the incumbent, over the windows in which both were replayed."""
    of_joules: float = 0.0
    """What the incumbent took in these windows."""


def store(connection: Connection, totals: Sequence[Simulated]) -> None:
    """Record totals in place of those before."""
    rows = [{name: words(value) if isinstance(value, str) else number(value) for name, value in asdict(total).items()}
            for total in totals]
    upsert(connection, schema.simulated, rows, update=tuple(field.name for field in fields(Simulated))[1:])


def simulated_of(row: TableRow) -> Simulated:
    """Return the totals that a row holds."""
    return Simulated(row.policy, row.until_s, row.joules, row.wait_s, row.error_ratio, row.wait_error_ratio,
                     row.incumbent, row.saved_joules, row.of_joules)

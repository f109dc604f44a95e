"""Records how much of what they held runs used of CPUs and memory: what the next job of their kind may need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from . import schema
from .database import upsert
from .values import TableRow, number, whole, words

ACCOUNTS = "accounts"
"""Source of what only accounting tells."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a run used of each of its nodes: of the one where it used most, where they differ."""

    job_id: str
    submit_s: float
    start_s: float
    user: str
    template: str
    """The job's name without what varies from run to run."""
    gpus: int
    """Held on each node, as are CPUs and memory."""
    cpus: int
    memory_bytes: int
    updated_s: float
    measured_s: float
    """Time within the run that was really observed."""
    source: str
    """``cgroup`` (of the job itself), ``node`` (all of a node that it had alone: no less than the job's) or
    ``accounts`` (of the scheduler, which keep a mean only)."""
    cpus_mean: float
    """CPUs in use."""
    cpus_p95: float
    """95th percentile within the busiest window; no more than that where the source is ``accounts``."""
    at_limit_ratio: float
    """Share of the measured time in which it used nearly all of its CPUs."""
    memory_peak_bytes: float | None = None
    """With its page cache."""
    activity: float | None = None
    """Mean share of time that its GPUs worked, 0..1."""

    @property
    def run(self) -> tuple[str, float, float]:
        """Return what identifies the run."""
        return self.job_id, self.submit_s, self.start_s


_MEASURED = ("updated_s", "measured_s", "source", "cpus_mean", "cpus_p95", "at_limit_ratio", "memory_peak_bytes",
             "activity")
_NEEDED = ("submit_s", "start_s", "updated_s", "measured_s", "cpus_mean", "cpus_p95", "at_limit_ratio")


def store(connection: Connection, uses: Iterable[Use]) -> None:
    """Record uses; the same run again replaces, but the accounts' nothing that was measured.

    One that holds what is no number is left out.
    """
    rows = {(use.source == ACCOUNTS, use.run): _row(use) for use in uses}
    good = {key: row for key, row in rows.items() if None not in [row[name] for name in _NEEDED]}
    upsert(connection, schema.uses, [row for (accounted, _), row in good.items() if not accounted], update=_MEASURED)
    upsert(connection, schema.uses, [row for (accounted, _), row in good.items() if accounted])


def use_of(row: TableRow) -> Use:
    """Return the use that a row holds."""
    return Use(row.job_id, row.submit_s, row.start_s, row.user, row.template, row.gpus, row.cpus, row.memory_bytes,
               row.updated_s, row.measured_s, row.source, row.cpus_mean, row.cpus_p95, row.at_limit_ratio,
               row.memory_peak_bytes, row.activity)


def _row(use: Use) -> dict[str, object]:
    numbers = {name: number(getattr(use, name)) for name in (*_NEEDED, "memory_peak_bytes", "activity")}
    return numbers | {"job_id": words(use.job_id), "user": words(use.user), "template": words(use.template),
                      "source": words(use.source), "gpus": whole(use.gpus), "cpus": whole(use.cpus),
                      "memory_bytes": whole(use.memory_bytes)}

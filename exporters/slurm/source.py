"""Slurm as a source: what slurmrestd or Slurm's commands tell, put together as one snapshot."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ...storage.records import Job, Node, Partition, SchedulerSnapshot
from ..source import Clock, Role, SourceError, TargetHealth
from .fields import BadRecord
from .parse_json import Parsed, Record, Reservation

log = logging.getLogger(__name__)


class Transport(Protocol):
    """A way to ask Slurm. Each call raises ``SourceError`` or ``BadRecord`` when nothing of its kind could be had."""

    def nodes(self) -> Parsed[Node]:
        """Return all nodes."""

    def jobs(self) -> Parsed[Job]:
        """Return pending, running and just finished jobs."""

    def partitions(self) -> Parsed[Partition]:
        """Return all partitions."""

    def reservations(self) -> Parsed[Reservation]:
        """Return all reservations."""

    def finished(self, since_s: float) -> Parsed[Job]:
        """Return what the accounts know since a time."""

    def close(self) -> None:
        """Release connections."""


class SlurmSource:
    """Reads Slurm over a transport.

    Nodes and jobs belong together: without either there is no snapshot, as half of one would look like a cluster whose
    jobs or nodes are gone. Partitions and reservations hardly change: where they cannot be read, the last ones stay.
    """

    role: Role = "scheduler"

    def __init__(self, name: str, transport: Transport, clock: Clock) -> None:
        self.name = name
        self._transport = transport
        self._clock = clock
        self._partitions: tuple[Partition, ...] = ()
        self._reservations: tuple[Reservation, ...] = ()
        self._health: dict[str, TargetHealth] = {}

    def read(self) -> SchedulerSnapshot:
        """Read nodes, jobs, partitions and reservations once."""
        now = self._clock()
        nodes = self._ask("nodes", self._transport.nodes)
        jobs = self._ask("jobs", self._transport.jobs)
        try:
            self._partitions = self._ask("partitions", self._transport.partitions)
            self._reservations = self._ask("reservations", self._transport.reservations)
        except SourceError as error:
            log.warning("%s: partitions and reservations stay as they were: %s", self.name, error)
        return SchedulerSnapshot(now, cover(nodes, self._reservations, now),
                                 self._partitions or partitions_of(nodes), jobs)

    def finished(self, since_s: float) -> tuple[Job, ...]:
        """Return the runs that ended since a time, each run of a requeued job on its own, from the accounts.

        Raises:
            SourceError: there are no accounts, or they cannot be read.
        """
        runs = self._ask("accounting", lambda: self._transport.finished(since_s))
        return tuple(job for job in runs if job.state.finished and job.end_s is not None and job.end_s >= since_s)

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each kind of fact fared when it was last asked for."""
        return tuple(self._health.values())

    def close(self) -> None:
        """Release connections."""
        self._transport.close()

    def _ask(self, target: str, read: Callable[[], Parsed[Record]]) -> tuple[Record, ...]:
        began = time.perf_counter()
        try:
            parsed = read()
        except (SourceError, BadRecord) as error:
            self._note(target, began, up=False, error=str(error))
            raise SourceError(f"Slurm's {target} cannot be read: {error}",
                              permanent=isinstance(error, SourceError) and error.permanent) from error
        skipped = parsed.skipped
        told = f"{len(skipped)} skipped, first {skipped[0]}" if skipped else ""
        self._note(target, began, up=True, error=told, skipped=len(skipped))
        return parsed.records

    def _note(self, target: str, began: float, *, up: bool, error: str, skipped: int = 0) -> None:
        """Keep how a question fared; records that were skipped are told in ``error`` of a target that is up."""
        before = self._health.get(target)
        last = self._clock() if up else before.last_success_s if before else None
        if skipped and (before is None or before.error != error):
            log.warning("%s: of %s, %s", self.name, target, error, extra={"source": self.name})
        self._health[target] = TargetHealth(target, up, time.perf_counter() - began, error, last, skipped=skipped)


def cover(nodes: tuple[Node, ...], reservations: tuple[Reservation, ...], now_s: float) -> tuple[Node, ...]:
    """Return the nodes with the name of the reservation that covers each now."""
    active = {node: reservation.name for reservation in reservations
              if reservation.start_s <= now_s < reservation.end_s for node in reservation.nodes}
    return tuple(replace(node, reservation=active[node.name]) if node.name in active else node for node in nodes)


def partitions_of(nodes: tuple[Node, ...]) -> tuple[Partition, ...]:
    """Return the partitions that the nodes themselves name, without limits."""
    names = sorted({name for node in nodes for name in node.partitions})
    return tuple(Partition(name, tuple(node.name for node in nodes if name in node.partitions)) for name in names)

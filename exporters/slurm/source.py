"""Slurm as a source: what slurmrestd or Slurm's commands tell, put together as one snapshot."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from ...storage.records import Job, Node, Partition, SchedulerSnapshot
from ...storage.rules import Association, CountedUsage, License, Qos, Reservation, SchedulerRules
from ...storage.topology import Fabric, TopologyError
from ..source import Clock, Role, SourceError, TargetHealth
from ..topology import parse_switches
from .ends import ended_by, without_ends_to_come
from .fields import BadRecord
from .gpu_parts import with_shares
from .gpu_types import with_types_in_doubt
from .parse_json import Parsed, Record
from .parse_settings import site_of
from .resized_runs import ResizedRuns
from .run_starts import RunStarts

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
SELDOM_S, SELDOM = 60.0, frozenset({"qos", "associations", "usage"})
"""How often settings and limits are read: they hardly change."""
LASTING, STAYS_S = ("partitions", "reservations"), 600.0
"""What decides about every start and hardly changes, and for how long it is believed where it cannot be read."""
FEW, SMALL_SHARE = 10, 0.1
"""So many records of a list, or this share of it, may not be understood; more is a fault of the list."""


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

    def licenses(self) -> Parsed[License]:
        """Return all licences."""

    def qos(self) -> Parsed[Qos]:
        """Return all qualities of service."""

    def associations(self) -> Parsed[Association]:
        """Return accounts and users with their limits."""

    def usage(self, now_s: float) -> Parsed[CountedUsage]:
        """Return what accounts, users and qualities of service have used until now."""

    def settings(self) -> Mapping[str, str]:
        """Return the controller's settings that decide about starts, as far as they are known."""

    def topology(self) -> str:
        """Return the switches as ``scontrol show topology`` prints them; '' where they are unknown."""

    def switches(self) -> Mapping[int, tuple[int, float | None]] | None:
        """Return by raw id of a waiting job how many switches it asks for and how long it waits; None when unknown."""

    def finished(self, since_s: float) -> Parsed[Job]:
        """Return what the accounts know since a time."""

    def close(self) -> None:
        """Release connections."""


class SlurmSource:
    """Reads Slurm over a transport.

    Nodes and jobs belong together: without either there is no snapshot, as half of one would look like a cluster whose
    jobs or nodes are gone. Partitions and reservations hardly change: where they cannot be read, the last ones stay for
    some minutes. After that, and where one of these records is not understood, no start is known to be possible.
    """

    role: Role = "scheduler"

    def __init__(self, name: str, transport: Transport, clock: Clock, settings: Mapping[str, str] | None = None,
                 ) -> None:
        self.name = name
        self._configured = dict(settings or {})
        self._rules, self._ruled_s = SchedulerRules(), float("-inf")
        self._missing = set[str]()
        self._fabric: Fabric | None = None
        self._transport = transport
        self._clock = clock
        self._last: dict[str, tuple[float, tuple[Any, ...]]] = {}
        """When what hardly changes was read last, and what it was."""
        self._health: dict[str, TargetHealth] = {}
        self._unswitched: dict[int, tuple[Job, Job]] = {}
        """Jobs of the last answer as they came and without switches, where there are none."""
        self._starts, self._resized = RunStarts(), ResizedRuns()

    def read(self) -> SchedulerSnapshot:
        """Read nodes, jobs, partitions and reservations once."""
        now = self._clock()
        nodes = self._understood("nodes", self._transport.nodes)
        jobs = self._starts.completed(self._understood("jobs", self._transport.jobs), now)
        jobs = tuple(ended_by(job, now) for job in jobs)
        partitions = self._lasting("partitions", self._transport.partitions, now)
        reservations = self._lasting("reservations", self._transport.reservations, now)
        rules = replace(self._enforced(now), reservations=reservations)
        unread = [f"Slurm's {name}" for name in LASTING if self._doubtful(name, now)] + _unreported_limits(rules)
        jobs = tuple(job.with_unknown(unread) for job in jobs) if unread else jobs
        jobs = with_types_in_doubt(with_shares(jobs, nodes), nodes, partitions)
        if self._fabric is not None:
            nodes = tuple(self._fabric.placed(nodes))
        return SchedulerSnapshot(now, cover(nodes, reservations, now), partitions or partitions_of(nodes),
                                 self._with_switches(jobs, rules), rules)

    def completed(self, since_s: float) -> tuple[Job, ...]:
        """Return the runs that ended since a time, from the accounts.

        Each run of a requeued job is one on its own; one that was resized is one.

        Raises:
            SourceError: there are no accounts, or they cannot be read.
        """
        runs = self._ask("accounting", lambda: without_ends_to_come(self._transport.finished(since_s), self._clock()))
        runs = self._resized.joined(runs)
        return tuple(job for job in runs if job.state.finished and job.end_s is not None and job.end_s >= since_s)

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each kind of fact fared when it was last read."""
        return tuple(self._health.values())

    def close(self) -> None:
        """Release connections."""
        self._transport.close()

    def _enforced(self, now: float) -> SchedulerRules:
        """Return what Slurm enforces beside free resources; settings and limits are read seldom."""
        if not 0 <= now - self._ruled_s < SELDOM_S:
            settings = self._maybe("settings", self._transport.settings) or {}
            qos = self._lately("qos", self._transport.qos, now)
            associations = self._lately("associations", self._transport.associations, now)
            ceilings = [record.ceilings for record in qos or ()] + [record.ceilings for record in associations or ()]
            needs_usage = any(ceiling.on_the_past for ceiling in ceilings)
            usage = self._records("usage", lambda: self._transport.usage(now)) if needs_usage else None
            self._rules = SchedulerRules(qos=qos, associations=associations, usage=usage,
                                         site=site_of({**settings, **self._configured}))
            self._fabric = self._maybe("topology", lambda: parse_switches(self._transport.topology())) \
                if self._rules.site.tree else None
            self._ruled_s = now
        return replace(self._rules, licenses=self._records("licenses", self._transport.licenses))

    def _lasting(self, target: str, read: Callable[[], Parsed[Record]], now: float) -> tuple[Record, ...]:
        """Return what hardly changes, as it was last read where it cannot be read now."""
        try:
            self._last[target] = now, self._ask(target, read)
        except SourceError as error:
            log.warning("%s: %s stay as they were: %s", self.name, target, error)
        return self._last.get(target, (now, ()))[1]

    def _lately(self, target: str, read: Callable[[], Parsed[Record]], now: float) -> tuple[Record, ...] | None:
        """Return limits as they were read last: a database that is restarted has not lost them. None after a while."""
        records = self._records(target, read)
        if records is not None:
            self._last[target] = now, records
        read_s, last = self._last.get(target, (now, None))
        return last if 0 <= now - read_s <= STAYS_S else None

    def _doubtful(self, target: str, now: float) -> bool:
        """Tell whether starts may depend on records of a kind that were not read, too long ago, or not understood."""
        read_s = self._last[target][0] if target in self._last else float("-inf")
        return not 0 <= now - read_s <= STAYS_S or self._health[target].skipped > 0

    def _with_switches(self, jobs: tuple[Job, ...], rules: SchedulerRules) -> tuple[Job, ...]:
        """Return the jobs with the switches that they ask for, where the list of jobs itself does not tell."""
        if rules.site.tree is False:
            return self._without_switches(jobs)
        if all(job.request.details.switches is not None for job in jobs):
            return jobs
        known = self._maybe("switches", self._transport.switches)
        return jobs if known is None else tuple(_switched(job, known) for job in jobs)

    def _without_switches(self, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        """Return the jobs where there are no switches; those that are reported as before stay the same objects."""
        before = self._unswitched
        pairs = [pair if (pair := before.get(id(job))) and pair[0] is job else (job, _switched(job, {}))
                 for job in jobs]
        self._unswitched = {id(job): (job, completed) for job, completed in pairs}
        return tuple(completed for _, completed in pairs)

    def _records(self, target: str, read: Callable[[], Parsed[Record]]) -> tuple[Record, ...] | None:
        return self._maybe(target, lambda: self._ask(target, read))

    def _maybe(self, target: str, read: Callable[[], Answer]) -> Answer | None:
        """Return what may be missing, as at a site without accounts; None where it is, which is logged once."""
        try:
            answer = read()
        except (SourceError, BadRecord, TopologyError) as error:
            if target not in self._missing:
                log.info("%s: %s are not known, nor is advice that depends on them: %s", self.name, target, error)
            self._missing.add(target)
            self._health.pop(target, None)
            return None
        self._missing.discard(target)
        return answer

    def _understood(self, target: str, read: Callable[[], Parsed[Record]]) -> tuple[Record, ...]:
        """Return the records of a list; SourceError where nothing of a long one can be understood."""
        records = self._ask(target, read)
        known = self._health[target]
        if not records and not known.up:
            raise SourceError(f"none of Slurm's {known.skipped} {target} can be understood: {known.error}")
        return records

    def _ask(self, target: str, read: Callable[[], Parsed[Record]]) -> tuple[Record, ...]:
        began = time.perf_counter()
        try:
            parsed = read()
        except (SourceError, BadRecord) as error:
            self._note(target, began, up=False, error=str(error))
            raise SourceError(f"Slurm's {target} cannot be read: {error}",
                              permanent=isinstance(error, SourceError) and error.permanent) from error
        skipped = parsed.skipped
        fault = f"{len(skipped)} skipped, first {skipped[0]}" if skipped else ""
        few = max(FEW, SMALL_SHARE * (len(parsed.records) + len(skipped)))
        self._note(target, began, up=len(skipped) <= few, error=fault, skipped=len(skipped))
        return parsed.records

    def _note(self, target: str, began: float, *, up: bool, error: str, skipped: int = 0) -> None:
        """Keep how a question fared; records that were skipped are counted in ``error`` of a target that is up."""
        before = self._health.get(target)
        last = self._clock() if up else before.last_success_s if before else None
        if skipped and (before is None or before.error != error):
            log.warning("%s: of %s, %s", self.name, target, error, extra={"source": self.name})
        self._health[target] = TargetHealth(target, up, time.perf_counter() - began, error, last, skipped=skipped,
                                            beat_s=SELDOM_S if target in SELDOM else 0.0)


def _unreported_limits(rules: SchedulerRules) -> list[str]:
    """Return whose limits are not known, where limits are enforced."""
    if not {"limits", "safe", "all"} & set(rules.site.enforced or ()):
        return []
    kinds = (("QOS", rules.qos), ("associations", rules.associations))
    return [f"the limits of Slurm's {kind}" for kind, records in kinds if records is None]


def _switched(job: Job, known: Mapping[int, tuple[int, float | None]]) -> Job:
    """Return a job with the switches that it asks for, if it does not say so itself."""
    details = job.request.details
    if details.switches is not None:
        return job
    switches, wait_s = known.get(job.raw_id or 0, (0, None))
    until_s = None if wait_s is None else job.submit_s + wait_s
    return replace(job, request=replace(job.request, details=replace(details, switches=switches,
                                                                      switches_until_s=until_s)))


def cover(nodes: tuple[Node, ...], reservations: tuple[Reservation, ...], now_s: float) -> tuple[Node, ...]:
    """Return the nodes with the name of the reservation that covers each now."""
    cpus = {node.name: node.cpus for node in nodes}
    active = {node: one.name for one in reservations
              if one.start_s <= now_s < one.end_s and one.keeps_all(cpus) for node in one.nodes}
    return tuple(replace(node, reservation=active[node.name]) if node.name in active else node for node in nodes)


def partitions_of(nodes: tuple[Node, ...]) -> tuple[Partition, ...]:
    """Return the partitions that the nodes themselves name, without limits."""
    names = sorted({name for node in nodes for name in node.partitions})
    return tuple(Partition(name, tuple(node.name for node in nodes if name in node.partitions)) for name in names)

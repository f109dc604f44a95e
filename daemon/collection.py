"""The sources, read side by side: each on a thread of its own, so that one that hangs costs only itself.

A cycle asks for roles and takes what has come in by then; what comes later is there for the next one. Each fact bears
the time at which it was asked for, and whoever uses it judges by that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..exporters.errand import Errand
from ..exporters.source import FAULTS, Accounting, Clock, Facts, Role, SourceError, Watched
from ..storage.records import Job, SchedulerSnapshot
from ..storage.telemetry import Telemetry

log = logging.getLogger(__name__)

WITH_JOBS: tuple[Role, ...] = ("scheduler", "topology", "grid")
"""Roles of the sources that are read when jobs are."""
_CLOSE_S = 0.3
"""How long closing is waited for: thousands of connections close by themselves when the process ends."""


class _Reader:
    """One source with its thread."""

    def __init__(self, watched: Watched, tell: Callable[[], None]) -> None:
        self.watched = watched
        self.ended = self.taken = 0
        """Reads that have ended, and how many of these somebody has been told of."""
        self.errand = Errand(f"read-{watched.name}", self._read, tell)

    def _read(self) -> None:
        self.watched.read()
        self.ended += 1


class Collection:
    """Reads sources for whoever asks, and waits for none of them longer than it is told."""

    def __init__(self, sources: Sequence[Watched], before: Collection | None = None) -> None:
        self.sources = list(sources)
        self._change = threading.Condition()
        self._readers: list[_Reader]
        reading: dict[Watched, _Reader] = {reader.watched: reader for reader in before._readers} if before else {}
        # A source that goes on keeps its thread, so that a read that never ends is not begun once more.
        self._readers = [reading.get(watched) or _Reader(watched, self._tell) for watched in self.sources]
        for reader in self._readers:
            reader.errand.then = self._tell
        self._closed = False

    def of(self, role: str) -> list[Watched]:
        """Return the sources of a role."""
        return [watched for watched in self.sources if watched.role == role]

    def read(self, *roles: Role, within_s: float) -> Iterator[list[Watched]]:
        """Ask the sources of these roles at once; yield those that have been read, as often as some have.

        It ends when all have been read, when ``within_s`` has passed, or at once when the collection is closed. A read
        that is still under way from before is waited for and not begun again.
        """
        deadline = time.monotonic() + within_s
        readers = [reader for reader in self._readers if reader.watched.role in roles]
        for reader in readers:
            if not self._closed:
                reader.errand.begin()
        while True:
            with self._change:
                self._change.wait_for(lambda: self._over(readers) or any(r.ended > r.taken for r in readers),
                                      max(0.0, deadline - time.monotonic()))
                over = self._over(readers) or time.monotonic() >= deadline
                news = [reader for reader in readers if reader.ended > reader.taken]
                for reader in news:
                    reader.taken = reader.ended
            if news:
                yield [reader.watched for reader in news]
            if over:
                return

    def facts(self, *roles: Role) -> list[Facts]:
        """Return what is known by now from the sources of these roles."""
        found = [watched.facts() for watched in self.sources if watched.role in roles]
        return [facts for facts in found if facts is not None]

    def telemetry(self) -> Telemetry:
        """Return every reading that is known by now, each with its own time."""
        found = [facts for facts in self.facts("telemetry") if isinstance(facts, Telemetry)]
        return Telemetry(tuple(gpu for facts in found for gpu in facts.gpus),
                         tuple(node for facts in found for node in facts.nodes),
                         tuple(job for facts in found for job in facts.jobs),
                         tuple(one for facts in found for one in facts.enclosures))

    def snapshot(self, now_s: float, max_age_s: float) -> SchedulerSnapshot | None:
        """Return what the schedulers say, as one; None before the first has answered."""
        found = [facts for facts in self.facts("scheduler") if isinstance(facts, SchedulerSnapshot)]
        return merged(found, now_s, max_age_s)

    def accounts(self, clock: Clock) -> list[Accounts]:
        """Return the accounts of the schedulers that keep some."""
        return [Accounts(watched.name, watched.source, clock) for watched in self.of("scheduler")
                if isinstance(watched.source, Accounting)]

    def let_go(self) -> None:
        """End all waiting at once, begin no more reads."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def leave(self, but: Sequence[Watched] = ()) -> None:
        """Close every source but those that somebody else goes on with; what takes long to close is not waited for."""
        self.let_go()
        closing = [Errand(f"close-{watched.name}", watched.close) for watched in self.sources if watched not in but]
        deadline = time.monotonic() + _CLOSE_S
        for errand in closing:
            errand.begin()
        for errand in closing:
            errand.wait(max(0.0, deadline - time.monotonic()))

    def _over(self, readers: Sequence[_Reader]) -> bool:
        return self._closed or not any(reader.errand.under_way for reader in readers)

    def _tell(self) -> None:
        with self._change:
            self._change.notify_all()


def merged(snapshots: Sequence[SchedulerSnapshot], now_s: float, max_age_s: float) -> SchedulerSnapshot | None:
    """Return one snapshot of several schedulers, as old as the oldest that can be believed.

    One that has not answered for longer than ``max_age_s`` is left out as long as another has: it costs only its own.
    """
    believed = [snapshot for snapshot in snapshots if now_s - snapshot.time_s <= max_age_s] or list(snapshots)
    if len(believed) <= 1:
        return believed[0] if believed else None
    return SchedulerSnapshot(
        min(snapshot.time_s for snapshot in believed),
        tuple(node for snapshot in believed for node in snapshot.nodes),
        tuple(partition for snapshot in believed for partition in snapshot.partitions),
        tuple(job for snapshot in believed for job in snapshot.jobs))


@dataclass(frozen=True, slots=True)
class Accounted:
    """What the accounts told of jobs that ended."""

    asked_s: float
    jobs: tuple[Job, ...]


class Accounts:
    """The accounts of one scheduler, asked on a thread of their own: they may take their time, or hang."""

    def __init__(self, name: str, source: Accounting, clock: Clock) -> None:
        self._name, self._source, self._clock = name, source, clock
        self._since_s = 0.0
        self._told: Accounted | None = None
        self._errand = Errand(f"accounts-{name}", self._ask)

    def finished(self, since_s: float, within_s: float) -> Accounted | None:
        """Return the jobs that ended since a time, None while the answer is awaited: it comes with a later call."""
        if not self._errand.under_way:
            self._since_s = since_s
            self._errand.begin()
        self._errand.wait(within_s)
        told, self._told = self._told, None
        return told

    def _ask(self) -> None:
        asked_s = self._clock()
        try:
            self._told = Accounted(asked_s, tuple(self._source.completed(self._since_s)))
        except SourceError as error:
            log.warning("accounting cannot be read", extra={"target": self._name, "error": str(error)})
        except FAULTS:
            log.exception("a fault in idlewatt itself while reading accounting", extra={"target": self._name})

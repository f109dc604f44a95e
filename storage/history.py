"""The door to what is known: one daemon records through it, anybody reads through it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, StatementError

from . import batches, database, flavours, jobs, retention, space
from .backlog import Backlog
from .batches import Batch
from .errors import StoreError, Superseded
from .notices import Notice
from .patience import Patience, bounded
from .presence import Presence
from .promotions import Abstention, Promotion, ShadowResult
from .reading import HistoryReader
from .recommendations import Recommendation
from .recorders import Claim
from .records import GpuRollup, IdleFloor, Job, SchedulerSnapshot, WasteReading
from .retention import Retention
from .run_energy import EnergyShare
from .seen import LastSeen
from .simulated import Simulated
from .speeds import RunSpeed
from .spool import Spool
from .underuse import CauseTally
from .uses import Use

log = logging.getLogger(__name__)

BACKLOG_BYTES = 2 << 30
"""Of the disk, for facts that cannot be written to the database yet: six days of 1,000 nodes with 8 GPUs each."""
CATCH_UP_S = 2.0
"""How long one call writes what waited; the rest is left to the next, so that no cycle stands still for it."""
SLOW_S = 1.0
"""A try that fails after longer than this is not repeated at once: a thread that records must not wait all the time."""
ANSWER_S = 30.0
"""Longest silence of a server within a statement; LAST_ANSWER_S of that when the daemon ends."""
LAST_ANSWER_S = 0.5
PAUSE = 4.0
"""How many times as long as it took until the next try."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Whether facts reach the database, and what waits."""

    possible: bool = True
    since_s: float | None = None
    """Time of the wall clock since which nothing can be written; None while it can."""
    reason: str = ""
    """Why, in words for a person."""
    backlog: int = 0
    """Facts that wait."""
    backlog_bytes: int = 0
    """Of the disk."""
    dropped: int = 0
    """Facts lost since the start, because the backlog was full or the database refused them for good."""


class History(HistoryReader):
    """A database that this process alone records into.

    Every ``record_*`` writes one transaction. When the database cannot be written, the facts are kept on disk and
    ``StoreUnavailable`` says why; later calls write them first. Safe to use from several threads.
    """

    def __init__(self, engine: Engine, lock: database.Lock, backlog: Backlog, patience: Patience) -> None:
        super().__init__(engine)
        self._lock = lock
        self._patience = patience
        self._presence = Presence(engine)
        with super()._reading() as connection:
            self._claim = Claim(connection)
        self._turn = threading.RLock()
        self._backlog = backlog
        self._seen = LastSeen()
        self._gpu_numbers: batches.GpuNumbers = {}
        self._file = 0
        self._closed = False
        self._stopped: tuple[float, StoreError] | None = None
        self._retry_at = float("-inf")
        self.dropped = 0
        """Facts lost because the backlog was full or the database refused them for good."""
        self.recording = self._state_of_recording()
        """Whether facts reach the database, since when not, and why: as it was when facts were recorded last."""

    @classmethod
    def open(cls, url: str, spool: Path | None = None, spool_bytes: int = BACKLOG_BYTES,
             report: database.ProgressCallback = lambda done, total: None) -> Self:
        """Open for recording: take the lock, bring the schema up to date.

        ``spool`` is where facts wait that cannot be written: beside an SQLite file by default, else in memory only.
        ``report`` gets how many of how many steps of the schema are done.
        Raises ``StoreLocked``, ``SchemaTooNew`` or ``StoreUnavailable``.
        """
        engine = database.connect(database.parse(url))
        patience = Patience()
        bounded(engine, patience)
        if spool is None and engine.dialect.name == "sqlite":
            spool = Path(f"{engine.url.database}.spool")
        with database.translated(engine.url):
            lock = database.lock(engine)
            try:
                database.upgrade(engine, report)
                # A migration may take its time, whatever comes after it may not.
                patience.seconds = ANSWER_S
                return cls(engine, lock, Backlog(None if spool is None else Spool(spool, spool_bytes)), patience)
            except (DBAPIError, StoreError):
                lock.release()
                engine.dispose()
                raise

    @property
    def backlog(self) -> int:
        """Return how many facts wait to be written."""
        return self._backlog.items

    def _state_of_recording(self) -> Recording:
        since_s, error = self._stopped or (None, "")
        return Recording(error == "", since_s, str(error), self._backlog.items, self._backlog.bytes,
                         self.dropped + self._backlog.damaged)

    def record_snapshot(self, snapshot: SchedulerSnapshot, now_s: float | None = None) -> None:
        """Record what changed: jobs, their states, runs and allocations, the nodes, and the scheduler's settings.

        What is recorded as later than the clock says, ``now_s``, was recorded by a clock that was ahead: it is set
        right. Without a clock every time is believed.
        """
        with self._turn:
            changes = self._seen.changes(snapshot, now_s)
            self._record("seen", changes, changes.facts)

    def record_finished(self, finished: Iterable[Job]) -> None:
        """Record jobs as accounting tells them: what was missed is completed, what is known is not doubled."""
        self._record_all("finished", (job for job in finished if jobs.recordable(job)))

    def record_rollups(self, rollups: Iterable[GpuRollup]) -> None:
        """Record rollups; the same GPU and window again replaces.

        A window that a restart cut short must keep its own start and length, or its other half would replace it.
        """
        self._record_all("rollups", rollups)

    def record_waste(self, readings: Iterable[WasteReading]) -> None:
        """Record energy by class; the same window again replaces."""
        self._record_all("waste", readings)

    def record_shares(self, shares: Iterable[EnergyShare]) -> None:
        """Add what runs took to their sums; a window that is there already changes nothing."""
        self._record_all("shares", shares)

    def save_floors(self, floors: Mapping[tuple[str, str], IdleFloor]) -> None:
        """Record idle floors by (UUID or model, ``bare`` or ``context``)."""
        self._record_all("floors", floors.items())

    def record_recommendations(self, recommendations: Iterable[Recommendation]) -> None:
        """Record advice where it changed; repeated advice extends ``last_issued_s``."""
        self._record_all("recommendations", recommendations)

    def decide(self, promotion: Promotion) -> None:
        """Record a decision on an agent."""
        self._record_all("decisions", (promotion,))

    def record_abstentions(self, abstentions: Iterable[Abstention]) -> None:
        """Record when agents did not answer; one that goes on with the same cause is the same row."""
        self._record_all("abstentions", abstentions)

    def record_standings(self, standings: Iterable[ShadowResult]) -> None:
        """Record how policies did in closed time; the same policy and beginning again replaces."""
        self._record_all("standings", standings)

    def save_simulated(self, totals: Iterable[Simulated]) -> None:
        """Record what policies would have taken since the first closed window, in place of the totals before."""
        self._record_all("simulated", totals)

    def record_speeds(self, runs: Iterable[RunSpeed]) -> None:
        """Record how fast runs were; the same run and basis again replaces."""
        self._record_all("speeds", runs)

    def record_causes(self, tallies: Iterable[CauseTally]) -> None:
        """Record why GPUs were underused; the same run and cause again replaces."""
        self._record_all("causes", tallies)

    def record_uses(self, runs: Iterable[Use]) -> None:
        """Record what runs used of what they held; the same run again replaces."""
        self._record_all("uses", runs)

    def record_notices(self, notices: Iterable[Notice]) -> None:
        """Record notices and their recipients; the same notice again changes its state."""
        self._record_all("notices", notices)

    def record_flavours(self, flavour_of: flavours.FlavourOf) -> int:
        """Record the flavours of some past jobs that have none recorded; return how many."""
        with self._reading() as connection:
            missing = flavours.missing(connection, flavour_of)
        if missing:
            with database.translated(self._engine.url), self._writing() as connection:
                flavours.store(connection, missing)
        return len(missing)

    def sources_of(self, job_ids: Collection[str]) -> dict[tuple[str, float], str]:
        """Return by id and submission the source of each job of some ids, after what waited is written if it can be."""
        with self._turn:
            with suppress(StoreError):
                self._flush()
            self.recording = self._state_of_recording()
        return super().sources_of(job_ids)

    def open_jobs(self) -> tuple[Job, ...]:
        """Return jobs that left the scheduler's view without being seen finished: accounting knows how they ended."""
        return tuple(job for job in self.unfinished_jobs() if job.key not in self._seen)

    def compact(self, now_s: float, keep: Retention | None = None) -> int:
        """Merge and drop what is old, in small transactions; return how many rows went."""
        with database.translated(self._engine.url):
            with self._engine.connect() as connection:
                todo = list(retention.steps(connection, now_s, keep or Retention()))
            removed = 0
            for step in todo:
                with self._writing() as connection:
                    removed += step(connection)
        return removed

    def vacuum(self, report: database.ProgressCallback = lambda done, total: None) -> None:
        """Give free space back to the file system; writers wait meanwhile, ``report`` gets how many bytes are done."""
        with self._turn, database.translated(self._engine.url):
            self._patience.seconds = math.inf
            connection = self._engine.raw_connection()
            try:
                driver: Any = connection.driver_connection
                if self._engine.dialect.name == "postgresql":
                    driver.autocommit = True
                    space.clear_postgresql(driver, report)
                else:
                    space.rewrite_sqlite(driver, report)
            finally:
                self._patience.seconds = ANSWER_S
                connection.invalidate()
                connection.close()

    def hurry(self) -> None:
        """Wait for no server any more, as the daemon ends: what it does not take at once waits on disk."""
        self._patience.seconds = LAST_ANSWER_S

    def close(self) -> None:
        """Write what still waits, if it can be written, and let the next daemon in."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            try:
                self._flush()
            except (StoreError, OSError) as error:
                log.error("closing with %d facts unwritten, of which %d are lost: %s", self.backlog,
                          self._backlog.in_memory, error)
            self.recording = self._state_of_recording()
            self._backlog.close()
            self._lock.release()
            self._presence.close()
            super().close()

    def _record_all(self, kind: str, facts: Iterable[object]) -> None:
        some = tuple(facts)
        self._record(kind, some, len(some))

    def _record(self, kind: str, facts: object, items: int) -> None:
        """Write facts after all that waits, or keep them behind it."""
        batch = Batch(kind, facts, items)
        with self._turn:
            try:
                if not self._flush():
                    self._keep(batch)
                elif items:
                    self._write_once(batch)
            except StoreError:
                self._keep(batch)
                raise
            finally:
                self.recording = self._state_of_recording()

    def _keep(self, batch: Batch) -> None:
        lost = self._backlog.add(replace(batch, after=self._claim.number)) if batch.items else 0
        if lost:
            self._drop(lost, "the backlog is full")

    def _flush(self) -> bool:
        """Write what waits, for a while; tell whether nothing does any more."""
        until = time.monotonic() + CATCH_UP_S
        waited = 0
        while (batch := self._backlog.first()) is not None:
            if waited and time.monotonic() > until:
                return False
            self._write_once(batch)
            self._backlog.done()
            waited += batch.items
        if waited:
            log.info("the database has all that waited", extra={"facts": waited})
        return True

    def _write_once(self, batch: Batch) -> None:
        """Write a batch, or give up what the database refuses for good: it must not stop all that comes after it."""
        if self._stopped is not None and time.monotonic() < self._retry_at:
            raise self._stopped[1]
        began = time.monotonic()
        try:
            self._write(batch)
        except StoreError as error:
            took = time.monotonic() - began
            self._retry_at = time.monotonic() + (PAUSE * took if took > SLOW_S else 0)
            self._note_stop(error)
            raise
        except (StatementError, OverflowError) as error:
            self._drop(batch.items, f"the database refused them: {error}")
        self._note_going()

    def _note_stop(self, error: StoreError) -> None:
        if self._stopped is None:
            log.error("nothing can be written to the database; facts are kept until it can", extra={
                "error": str(error)})
        self._stopped = (time.time() if self._stopped is None else self._stopped[0]), error
        if isinstance(error, Superseded):
            # The daemon that replaced it may be restarted at any time.
            self._lock.release()

    def _note_going(self) -> None:
        if self._stopped is not None:
            log.warning("the database is written again", extra={"facts": self.backlog})
        self._stopped = None

    def _write(self, batch: Batch) -> None:
        try:
            with database.translated(self._engine.url), self._writing() as connection:
                if batch.after is not None:
                    others_s = self._claim.others_since(connection, batch.after)
                    batch = batch if others_s is None else batches.ended_by(batch, others_s)
                batches.write(connection, batch, self._gpu_numbers)
        except BaseException:
            # Numbers given to GPUs in a transaction that did not come about.
            self._gpu_numbers.clear()
            raise

    def _drop(self, items: int, reason: str) -> None:
        self.dropped += items
        self._seen.forget()
        log.error("%d facts are not recorded: %s", items, reason)

    def _look(self) -> None:
        """Notice that the file is gone, or another one, of which nothing is known."""
        self._presence.check()
        if self._file != self._presence.replaced:
            self._file = self._presence.replaced
            self._gpu_numbers.clear()
            self._seen.forget()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        self._presence.check()
        if self._stopped is not None and time.monotonic() < self._retry_at:
            raise self._stopped[1]
        with super()._reading() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Yield a connection within a transaction; nobody else has recorded, and the file is still there."""
        with self._turn:
            if self._stopped and isinstance(self._stopped[1], Superseded):
                raise self._stopped[1]
            self._lock.check()
            self._look()
            with self._engine.connect().execution_options(writing=True) as connection, connection.begin():
                self._claim.hold(connection)
                yield connection
            self._claim.confirm()

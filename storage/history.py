"""The door to what is known: one daemon records through it, anybody reads through it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, StatementError

from . import advice, database, energy, following, jobs, nodes, promotions, retention, simulated, speeds, uses
from .errors import StoreError, StoreUnavailable
from .promotions import Abstention, Promotion, Standing
from .reading import HistoryReader
from .recommendations import Recommendation
from .records import GpuRollup, IdleFloor, Job, Node, SchedulerSnapshot, WasteReading
from .retention import Retention
from .simulated import Simulated
from .speeds import RunSpeed
from .uses import Use
from .windows import Board

log = logging.getLogger(__name__)
BACKLOG_ITEMS = 500_000
"""Facts kept while the database cannot be written: some hours of a large cluster, and bounded memory."""


@dataclass(frozen=True, slots=True)
class _Work:
    write: Callable[[Connection], None]
    items: int


class History(HistoryReader):
    """A database that this process alone records into.

    Every ``record_*`` writes one transaction. When the database cannot be written, the facts are kept and
    ``StoreUnavailable`` says why; the next call writes them first. Safe to use from several threads.
    """

    def __init__(self, engine: Engine, lock: database.Lock) -> None:
        super().__init__(engine)
        self._lock = lock
        self._turn = threading.RLock()
        self._backlog: deque[_Work] = deque()
        self._seen: dict[jobs.Key, Job] = {}
        self._seen_nodes: tuple[dict[str, Any], ...] = ()
        self._seen_s = float("-inf")
        self._boards: dict[Board, int] = {}
        self.dropped = 0
        """Facts lost because the backlog was full or the database refused them for good."""

    @classmethod
    def open(cls, url: str) -> Self:
        """Open for recording: take the lock, bring the schema up to date.

        Raises ``StoreLocked``, ``SchemaTooNew`` or ``StoreUnavailable``.
        """
        engine = database.connect(database.parse(url))
        with database.translated(engine.url):
            lock = database.lock(engine)
            try:
                database.upgrade(engine)
            except (DBAPIError, StoreError):
                lock.release()
                engine.dispose()
                raise
        return cls(engine, lock)

    @staticmethod
    def read_only(url: str) -> HistoryReader:
        """Open for reading beside a running daemon: no lock, no migration.

        Raises ``SchemaTooNew``, ``SchemaTooOld`` or ``StoreUnavailable``.
        """
        engine = database.connect(database.parse(url), read_only=True)
        with database.translated(engine.url):
            database.check_schema(engine)
        return HistoryReader(engine)

    @property
    def backlog(self) -> int:
        """Return how many facts wait to be written."""
        return sum(work.items for work in self._backlog)

    def record_snapshot(self, snapshot: SchedulerSnapshot) -> None:
        """Record what changed: jobs, their states, runs and allocations, and the nodes."""
        with self._turn:
            changed = self._changed_jobs(snapshot)
            changed_nodes: tuple[Node, ...] = ()
            if snapshot.time_s >= self._seen_s:
                inventory = tuple(map(nodes.facts, snapshot.nodes))
                changed_nodes = snapshot.nodes if inventory != self._seen_nodes else ()
                self._seen = {job.key: jobs.steady(job) for job in snapshot.jobs}
                self._seen_nodes, self._seen_s = inventory, snapshot.time_s
            self._record(lambda connection: _store_seen(connection, changed, changed_nodes, snapshot.time_s),
                         len(changed) + len(changed_nodes))

    def record_finished(self, finished: Iterable[Job]) -> None:
        """Record jobs as accounting tells them: what was missed is completed, what is known is not doubled."""
        known = tuple(job for job in finished if jobs.recordable(job))
        self._record(lambda connection: _store_finished(connection, known), len(known))

    def record_rollups(self, rollups: Iterable[GpuRollup]) -> None:
        """Record rollups; the same board and window again replaces.

        A window that a restart cut short must keep its own start and length, or its other half would replace it.
        """
        some = tuple(rollups)
        self._record(lambda connection: energy.store_rollups(connection, some, self._boards), len(some))

    def record_waste(self, readings: Iterable[WasteReading]) -> None:
        """Record energy by class; the same window again replaces."""
        some = tuple(readings)
        self._record(lambda connection: energy.store_waste(connection, some), len(some))

    def save_floors(self, floors: Mapping[tuple[str, str], IdleFloor]) -> None:
        """Record idle floors by (UUID or model, ``bare`` or ``context``)."""
        some = dict(floors)
        self._record(lambda connection: energy.store_floors(connection, some), len(some))

    def record_recommendations(self, recommendations: Iterable[Recommendation]) -> None:
        """Record advice where it changed; repeated advice extends ``last_issued_s``."""
        some = tuple(recommendations)
        self._record(lambda connection: advice.store(connection, some), len(some))

    def decide(self, promotion: Promotion) -> None:
        """Record a decision on an agent."""
        self._record(lambda connection: promotions.store(connection, promotion), 1)

    def record_abstentions(self, abstentions: Iterable[Abstention]) -> None:
        """Record when agents did not answer; one that goes on with the same cause is the same row."""
        some = tuple(abstentions)
        self._record(lambda connection: promotions.store_abstentions(connection, some), len(some))

    def record_standings(self, standings: Iterable[Standing]) -> None:
        """Record how policies did in closed time; the same policy and beginning again replaces."""
        some = tuple(standings)
        self._record(lambda connection: promotions.store_standings(connection, some), len(some))

    def save_simulated(self, totals: Iterable[Simulated]) -> None:
        """Record what policies would have taken since the first closed window, in place of the totals before."""
        some = tuple(totals)
        self._record(lambda connection: simulated.store(connection, some), len(some))

    def record_speeds(self, runs: Iterable[RunSpeed]) -> None:
        """Record how fast runs were; the same run and basis again replaces."""
        some = tuple(runs)
        self._record(lambda connection: speeds.store(connection, some), len(some))

    def record_uses(self, runs: Iterable[Use]) -> None:
        """Record what runs used of what they held; the same run again replaces."""
        some = tuple(runs)
        self._record(lambda connection: uses.store(connection, some), len(some))

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

    def vacuum(self) -> None:
        """Give free space back to the file system; writers wait meanwhile."""
        statements = {"sqlite": ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"), "postgresql": ("VACUUM (ANALYZE)",)}
        with self._turn, database.translated(self._engine.url):
            connection = self._engine.raw_connection()
            try:
                driver: Any = connection.driver_connection
                if self._engine.dialect.name == "postgresql":
                    driver.autocommit = True
                for statement in statements[self._engine.dialect.name]:
                    driver.execute(statement)
            finally:
                connection.invalidate()
                connection.close()

    def close(self) -> None:
        """Write what still waits, if it can be written, and let the next daemon in."""
        with self._turn:
            try:
                self._flush()
            except StoreUnavailable as error:
                log.error("closing with %d facts unwritten: %s", self.backlog, error)
            self._lock.release()
            super().close()

    def _changed_jobs(self, snapshot: SchedulerSnapshot) -> tuple[Job, ...]:
        # An older snapshot may still hold a run that nobody else saw; the recorder sorts it out.
        known = self._seen if snapshot.time_s >= self._seen_s else {}
        return tuple(job for job in snapshot.jobs
                     if jobs.recordable(job) and known.get(job.key) != jobs.steady(job))

    def _record(self, write: Callable[[Connection], None], items: int) -> None:
        with self._turn:
            if items:
                self._backlog.append(_Work(write, items))
            try:
                self._flush()
            except StoreError:
                while self.backlog > BACKLOG_ITEMS and len(self._backlog) > 1:
                    self._drop(self._backlog.popleft(), "the backlog is full")
                raise

    def _flush(self) -> None:
        while self._backlog:
            work = self._backlog[0]
            try:
                self._write(work)
            except (StatementError, OverflowError) as error:
                # Refused for good: it must not stop all that comes after it.
                self._drop(work, f"the database refused them: {error}")
            self._backlog.popleft()

    def _write(self, work: _Work) -> None:
        with database.translated(self._engine.url):
            self._lock.check()
            try:
                with self._writing() as connection:
                    work.write(connection)
            except BaseException:
                # Numbers given to boards in a transaction that did not come about.
                self._boards.clear()
                raise

    def _drop(self, work: _Work, reason: str) -> None:
        self.dropped += work.items
        # What was dropped must look new when it is seen again.
        self._seen, self._seen_nodes = {}, ()
        log.error("%d facts are not recorded: %s", work.items, reason)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._turn, self._engine.connect().execution_options(writing=True) as connection, connection.begin():
            yield connection


def _store_seen(connection: Connection, changed: Sequence[Job], inventory: Sequence[Node], time_s: float) -> None:
    nodes.store(connection, inventory, time_s)
    jobs.store_seen(connection, changed, time_s)
    following.judge(connection, changed)


def _store_finished(connection: Connection, finished: Sequence[Job]) -> None:
    jobs.store_finished(connection, finished)
    following.judge(connection, finished)



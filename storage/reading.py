"""Reads the history: windows of jobs, waste, advice, the inventory, and how much of it there is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, Engine, Table, func, or_, select, text

from . import (
    advice,
    charges,
    columns,
    database,
    energy,
    flavours,
    following,
    job_runs,
    nodes,
    placements,
    promotions,
    recorders,
    scheduler_configuration,
    schema,
    simulated,
    sources,
    space,
    speeds,
    uses,
    waste,
)
from .advice import AdviceChange, IssuedAdvice
from .charges import Charge
from .energy_reading import EnergyReader
from .errors import place
from .flavours import FlavourCount
from .following import Following
from .job_runs import JobRun
from .notice_reading import NoticeReader
from .owners import OwnerKind
from .promotions import Abstention, Promotion, ShadowResult
from .recommendations import Placed
from .records import Allocation, GpuRollup, IdleFloor, Job, JobState, Node, Request, WasteReading
from .scheduler_configuration import SchedulerConfiguration
from .simulated import Simulated
from .speeds import RunSpeed
from .uses import Use
from .values import Query, TableRow, words
from .waiting import WaitReason


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job was in this state from this moment on."""

    time_s: float
    state: JobState
    reason: WaitReason
    reason_text: str


@dataclass(frozen=True, slots=True)
class JobDetail:
    """A job with all that happened to it."""

    job: Job
    changes: tuple[JobChange, ...]
    runs: tuple[JobRun, ...]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node was like this from this moment on; ``present`` is false once the scheduler no longer lists it."""

    time_s: float
    present: bool
    node: Node


class HistoryReader(EnergyReader, NoticeReader):
    """The reading half of the history. Every method raises ``StoreUnavailable`` when the database cannot be read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @staticmethod
    def read_only(url: str) -> HistoryReader:
        """Open for reading beside a running daemon: no lock, no migration.

        Raises ``SchemaTooNew``, ``SchemaTooOld`` or ``StoreUnavailable``.
        """
        engine = database.connect(database.parse(url), read_only=True)
        with database.translated(engine.url):
            database.check_schema(engine)
        return HistoryReader(engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release connections."""
        self._engine.dispose()

    def identity(self) -> str:
        """Return what tells this history from every other one, a copy apart; '' while nobody has recorded into it."""
        with self._reading() as connection:
            return recorders.identity(connection)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with database.translated(self._engine.url), self._engine.connect() as connection:
            yield connection

    def jobs(self, since_s: float, until_s: float, *, overlap: bool = False, limit: int | None = None) \
            -> tuple[Job, ...]:
        """Return jobs submitted in [since, until), or with ``overlap`` those that ran within it, newest first."""
        table = schema.jobs.c
        window = ((table.start_s < until_s) & or_(table.end_s > since_s, table.end_s.is_(None) & table.open)
                  if overlap else (table.submit_s >= since_s) & (table.submit_s < until_s))
        query = select(schema.jobs).where(window).order_by(table.submit_s.desc(), table.id.desc()).limit(limit)
        return self._jobs(query)

    def sources_of(self, job_ids: Collection[str]) -> dict[tuple[str, float], str]:
        """Return by id and submission the source of each job of some ids that was recorded with one."""
        with self._reading() as connection:
            return sources.sources_of(connection, job_ids)

    def unfinished_jobs(self) -> tuple[Job, ...]:
        """Return jobs of which no end is known."""
        return self._jobs(select(schema.jobs).where(schema.jobs.c.open).order_by(schema.jobs.c.id))

    def job(self, job_id: str, submit_s: float | None = None) -> JobDetail | None:
        """Return a job with its changes and runs; the last submission of that id unless one is named."""
        table = schema.jobs
        query = select(table).where(table.c.job_id == job_id).order_by(table.c.submit_s.desc()).limit(1)
        if submit_s is not None:
            query = query.where(table.c.submit_s == submit_s)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            runs = job_runs.runs_of(connection, row.id)
            changes = connection.execute(select(schema.job_changes).where(
                schema.job_changes.c.job == row.id).order_by(schema.job_changes.c.time_s)).all()
        held = next((run.present for run in runs if run.start_s == row.start_s), ())
        return JobDetail(_job(row, held), tuple(JobChange(
            change.time_s, JobState(change.state), WaitReason(change.reason), change.reason_text)
            for change in changes), runs)

    def jobs_of(self, job_id: str, most: int = 100) -> tuple[Job, ...]:
        """Return every job of an id, the last submission first: schedulers number alike, or reuse an id."""
        table = schema.jobs.c
        return self._jobs(select(schema.jobs).where(table.job_id == words(job_id)).order_by(
            table.submit_s.desc(), table.id.desc()).limit(most))

    def flavours(self, since_s: float) -> Sequence[FlavourCount]:
        """Return jobs submitted since a moment by partition, flavour and time limit."""
        with self._reading() as connection:
            return flavours.counts(connection, since_s)

    def requeued(self, since_s: float, until_s: float) -> tuple[tuple[Job, tuple[JobRun, ...]], ...]:
        """Return jobs that were put back into the queue, with all their runs in order.

        They ran more than once and at some time within [since, until), or they ran and wait again now.
        """
        runs, jobs = schema.runs, schema.jobs
        within = select(runs.c.job).where(runs.c.start_s < until_s, or_(runs.c.end_s > since_s, runs.c.end_s.is_(None)))
        often = select(runs.c.job).group_by(runs.c.job).having(func.count() > 1)
        waits = (jobs.c.state == JobState.PENDING.value) & jobs.c.id.in_(select(runs.c.job))
        query = select(jobs).where(or_(jobs.c.id.in_(within) & jobs.c.id.in_(often), waits)).order_by(jobs.c.id)
        with self._reading() as connection:
            return tuple((_job(row, ()), job_runs.runs_of(connection, row.id))
                         for row in connection.execute(query).all())

    def recommendations(self, since_s: float, until_s: float, *, job_id: str | None = None) -> tuple[IssuedAdvice, ...]:
        """Return advice that stood at some moment of [since, until), oldest first.

        Of jobs that wait what is in force, of runs what was in force when they started.
        """
        with self._reading() as connection:
            issued = [item for part in (advice.in_force(connection, _stood(schema.recommendations, since_s, until_s)),
                                        following.frozen(connection, _stood(schema.verdicts, since_s, until_s)))
                      for item in part if job_id is None or item.recommendation.job_id == job_id]
        return tuple(sorted(issued, key=lambda item: item.recommendation.issued_s))

    def advice_changes(self, since_s: float, until_s: float, *, job_id: str | None = None) -> tuple[AdviceChange, ...]:
        """Return when the advice of policies on jobs changed in [since, until): the action, or the reason for it."""
        with self._reading() as connection:
            return advice.changes(connection, since_s, until_s, job_id)

    def following(self) -> tuple[Following, ...]:
        """Return how many runs followed each policy's advice, since recording began."""
        with self._reading() as connection:
            return following.totals(connection)

    def placed(self) -> tuple[Placed, ...]:
        """Return jobs of several GPUs that run now and were advised to start: where they run, and where advised."""
        with self._reading() as connection:
            return following.placed(connection)

    def decisions(self, since_s: float = float("-inf")) -> tuple[Promotion, ...]:
        """Return the decisions on trained agents since a moment, in the order in which they were recorded."""
        table = schema.promotions
        return tuple(map(promotions.promotion_of, self._all(
            select(table).where(table.c.time_s >= since_s).order_by(table.c.id))))

    def last_decision(self) -> int:
        """Return the number of the last decision: whether it has changed is read often, and the answer short."""
        with self._reading() as connection:
            return connection.execute(select(func.max(schema.promotions.c.id))).scalar_one() or 0

    def abstentions(self, since_s: float = float("-inf")) -> tuple[Abstention, ...]:
        """Return when agents did not answer, as far as it lasted until a moment or longer, oldest first."""
        table = schema.abstentions
        return tuple(map(promotions.abstention_of, self._all(
            select(table).where(table.c.last_s >= since_s).order_by(table.c.first_s, table.c.id))))

    def abstained(self) -> dict[tuple[str, str], int]:
        """Return rounds without an answer by (agent, cause), since recording began."""
        with self._reading() as connection:
            return promotions.abstained(connection)

    def standings(self, since_s: float = float("-inf")) -> tuple[ShadowResult, ...]:
        """Return how policies did in closed windows that begin at a moment or later, oldest first."""
        table = schema.standings
        return tuple(map(promotions.standing_of, self._all(
            select(table).where(table.c.since_s >= since_s).order_by(table.c.since_s, table.c.policy))))

    def load_simulated(self) -> tuple[Simulated, ...]:
        """Return what policies would have taken in all windows that have closed."""
        table = schema.simulated
        return tuple(map(simulated.simulated_of, self._all(select(table).order_by(table.c.policy))))

    def speeds(self, last: int) -> tuple[RunSpeed, ...]:
        """Return how fast the ``last`` runs were of which that was seen, the oldest first."""
        table = schema.speeds
        rows = self._all(select(table).order_by(table.c.last_s.desc(), table.c.id.desc()).limit(last))
        return tuple(speeds.speed_of(row) for row in reversed(rows))

    def uses(self, since_s: float = float("-inf"), last: int | None = None) -> tuple[Use, ...]:
        """Return what runs used, the ``last`` or all of which more was known since a moment; the oldest first."""
        table = schema.uses
        rows = self._all(select(table).where(table.c.updated_s >= since_s).order_by(
            table.c.updated_s.desc(), table.c.id.desc()).limit(last))
        return tuple(uses.use_of(row) for row in reversed(rows))

    def waste(self, since_s: float, until_s: float, *, per_node: bool = False) -> tuple[WasteReading, ...]:
        """Return the energy by class of windows that start in [since, until): of partitions, or of their nodes."""
        with self._reading() as connection:
            return waste.load(connection, since_s, until_s, per_node=per_node)

    def rollups(self, since_s: float, until_s: float, *, node: str | None = None) -> tuple[GpuRollup, ...]:
        """Return rollups of windows that start in [since, until)."""
        with self._reading() as connection:
            return energy.load_rollups(connection, since_s, until_s, node)

    def load_floors(self) -> dict[tuple[str, str], IdleFloor]:
        """Return idle floors by (UUID or model, ``bare`` or ``context``)."""
        with self._reading() as connection:
            return energy.load_floors(connection)

    def nodes(self, at_s: float | None = None) -> tuple[Node, ...]:
        """Return the inventory as of a moment, now by default."""
        with self._reading() as connection:
            return tuple(nodes.node_of(row) for row in nodes.latest(connection, at_s) if row.present)

    def node_changes(self, since_s: float, until_s: float) -> tuple[NodeChange, ...]:
        """Return what changed of the inventory in [since, until)."""
        table = schema.node_changes
        query = select(table).where(table.c.time_s >= since_s, table.c.time_s < until_s).order_by(table.c.time_s)
        return tuple(NodeChange(row.time_s, row.present, nodes.node_of(row)) for row in self._all(query))

    def nodes_since(self) -> float | None:
        """Return since when the inventory is known; None when it is not."""
        with self._reading() as connection:
            since_s: float | None = connection.execute(select(func.min(schema.node_changes.c.time_s))).scalar_one()
        return since_s

    def scheduler_configuration(self, at_s: float | None = None) -> SchedulerConfiguration | None:
        """Return what the scheduler went by at a moment, now by default; None where no source ever reported it."""
        with self._reading() as connection:
            return scheduler_configuration.load(connection, at_s)

    def scheduler_changes(self, since_s: float, until_s: float) -> list[tuple[float, SchedulerConfiguration]]:
        """Return what the scheduler was configured to in [since, until), each with when; oldest first."""
        with self._reading() as connection:
            return scheduler_configuration.changes(connection, since_s, until_s)

    def charges(self, since_s: float, until_s: float) -> list[Charge]:
        """Return the runs that overlap [since, until), with the account, the user and the CPUs of each."""
        with self._reading() as connection:
            return charges.charges(connection, since_s, until_s)

    def load_columns(self, since_s: float | None = None, until_s: float | None = None, *,
                     last: int | None = None, report: database.ProgressCallback | None = None) -> columns.JobColumns:
        """Return the jobs submitted in [since, until), or the ``last`` of them, as arrays; ``report`` gets how many."""
        with database.translated(self._engine.url):
            return columns.load(self._engine, since_s, until_s, last, report)

    def load_placements(self, since_s: float, until_s: float) -> placements.PlacementColumns:
        """Return what runs held that ran at some time within [since, until), as arrays."""
        with database.translated(self._engine.url):
            return placements.load(self._engine, since_s, until_s)

    def stats(self, report: database.ProgressCallback = lambda done, total: None) -> tuple[space.TableStats, ...]:
        """Return rows, bytes and age of every table; ``report`` gets how many of how many tables are counted."""
        statistics: list[space.TableStats] = []
        with self._reading() as connection:
            for name, clock in schema.CLOCKS.items():
                statistics.append(space.table_stats(connection, schema.metadata.tables[name], clock))
                report(len(statistics), len(schema.CLOCKS))
        return tuple(statistics)

    def newest_s(self) -> float | None:
        """Return when the daemon last recorded nodes or energy by its own clock; None where it never did."""
        clocks = (schema.node_changes.c.time_s, schema.waste_windows.c.start_s, schema.gpu_windows.c.start_s)
        with self._reading() as connection:
            newest = [connection.scalar(select(func.max(clock))) for clock in clocks]
        return max((time_s for time_s in newest if time_s is not None), default=None)

    def size_bytes(self) -> int:
        """Return the size of the whole database."""
        if self._engine.dialect.name == "sqlite":
            path = place(self._engine.url)
            return sum(file.stat().st_size for file in (Path(path), Path(f"{path}-wal")) if file.exists())
        with self._reading() as connection:
            return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())

    def _all(self, query: Query) -> Sequence[TableRow]:
        with self._reading() as connection:
            return connection.execute(query).all()

    def _jobs(self, query: Query) -> tuple[Job, ...]:
        with self._reading() as connection:
            rows = connection.execute(query).all()
            held = job_runs.held(connection, [row.id for row in rows])
        return tuple(_job(row, tuple(held.get((row.id, row.start_s), ()))) for row in rows)


def _stood(table: Table, since_s: float, until_s: float) -> ColumnElement[bool]:
    return (table.c.last_issued_s >= since_s) & (table.c.issued_s < until_s)


def _job(row: TableRow, allocations: tuple[Allocation, ...]) -> Job:
    wishes: dict[str, Any] = {name: tuple(wish) if isinstance(wish, list) else wish
                              for name, wish in row.request.items()}
    request = Request(gpus=row.gpus, nodes=row.nodes, cpus=row.cpus, memory_bytes=row.memory_bytes, **wishes)
    return Job(job_id=row.job_id, submit_s=row.submit_s, state=JobState(row.state), partition=row.partition,
               request=request, user=row.user, account=row.account, name=row.name, qos=row.qos,
               reason=WaitReason(row.reason), reason_text=row.reason_text, eligible_s=row.eligible_s,
               start_s=row.start_s, end_s=row.end_s, limit_s=row.limit_s,
               priority=row.priority, nice=row.nice, dependency=row.dependency, restarts=row.restarts,
               exit_code=row.exit_code, tasks=row.tasks, raw_id=row.raw_id, allocations=allocations, array=row.array,
               owner_kind=OwnerKind(row.owner_kind), owner=row.owner, flavour=row.flavour,
               image=row.image, framework=row.framework, cuda=row.cuda, source=row.source or "")

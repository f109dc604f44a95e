"""Asks what runs, users, accounts, partitions, nodes and days took: one place for page, API and command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, func, literal, or_, select, true, tuple_

from . import schema, sources
from .energy_schema import CLASS_COLUMNS, COST_COLUMNS, SUMS
from .power_classes import WASTED, PowerClass
from .records import JobState
from .run_energy import DAY_S
from .values import Query, TableRow, words

if TYPE_CHECKING:
    from sqlalchemy import FromClause, Table

MOST_COUNTED = 100_000
"""Runs up to which a list is counted: a page does not wait for a count of millions."""
FEW = 10_000
"""Runs that a search may find so that each is looked up; where more do, those of the requested time are walked."""

Order = Literal["ended", "energy", "wasted", "gpu_hours"]
ORDERS: tuple[Order, ...] = ("ended", "wasted", "energy", "gpu_hours")
Dimension = Literal["user", "account", "partition", "node", "day", "job", "class", "flavour"]
DIMENSIONS: tuple[Dimension, ...] = ("user", "account", "partition", "node", "day", "job", "class", "flavour")


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are selected; '' and None select all."""

    since_s: float = 0.0
    """Those of which something was recorded after this moment."""
    until_s: float | None = None
    """Those of which nothing was recorded after this moment; of sums, days that begin before it."""
    user: str = ""
    account: str = ""
    partition: str = ""
    state: str = ""
    text: str = ""
    """Part of the id, the user or the name."""
    software: str = ""
    """Part of the image, the framework or the version of CUDA."""
    least_joules: float = 0.0
    wasted: tuple[PowerClass, ...] = WASTED
    """Classes that count as wasted."""
    begun_before_s: float | None = None
    """Those of which something was recorded before this moment."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a job, and what it took."""

    job_id: str
    submit_s: float
    start_s: float
    end_s: float | None
    """None while it runs."""
    state: JobState
    user: str
    account: str
    partition: str
    name: str
    gpus: float
    gpu_model: str
    first_s: float
    last_s: float
    seen_s: float
    """How long it was looked at."""
    shared_s: float
    """GPU-seconds on GPUs that others held too."""
    power_max_watts: float | None
    memory_max_bytes: float | None
    idle: tuple[str, ...] | None
    """GPUs that were never seen at work; None where that is not known."""
    sums: Mapping[str, int]
    number: int
    """Of the row."""


def runs(connection: Connection, wanted: RunFilter, order: Order, limit: int, offset: int = 0) \
        -> tuple[tuple[RunRow, ...], int]:
    """Return runs in an order, the most first, and how many there are; beyond ``MOST_COUNTED`` one more than that."""
    table, jobs = schema.run_energy, schema.jobs
    joined = table.outerjoin(jobs, and_(jobs.c.job_id == table.c.job_id, jobs.c.submit_s == table.c.submit_s))
    few = _few(connection, wanted)
    within = and_(_within(wanted), true() if few is None else table.c.id.in_(few))
    keys = {"ended": table.c.last_s, "energy": table.c.energy_mj, "wasted": _wasted(table.c, wanted.wasted),
            "gpu_hours": table.c.gpu_ms}
    needs_jobs = bool(wanted.state or wanted.text or wanted.software)
    base = select(table.c.id).select_from(joined if needs_jobs else table).where(within)
    total = connection.execute(select(func.count()).select_from(base.limit(MOST_COUNTED + 1).subquery())).scalar_one()
    # The few that are shown first, and only then what belongs to them.
    some = base.order_by(keys[order].desc(), table.c.id.desc()).limit(limit).offset(offset)
    numbers = connection.execute(some).scalars().all() if total else []
    rows = {row.id: row for row in connection.execute(_full(joined).where(table.c.id.in_(numbers)))}
    return tuple(_run(rows[number]) for number in numbers), total


def _few(connection: Connection, wanted: RunFilter) -> list[int] | None:
    """Return the runs among which all are whose id, user, name or state is looked for; None where those are many.

    Of a million runs each index is read once, where a join would look a million jobs up.
    """
    if not (wanted.text or wanted.state):
        return None
    table, jobs = schema.run_energy.c, schema.jobs.c
    text = words(wanted.text)
    named = [jobs.name.contains(text, autoescape=True)] if text else [jobs.state == words(wanted.state)]
    of_jobs = select(jobs.job_id, jobs.submit_s).where(*named).limit(FEW + 1)
    keys = connection.execute(of_jobs).all()
    if len(keys) > FEW:
        return None
    pieces: list[ColumnElement[bool]] = [tuple_(table.job_id, table.submit_s).in_(of_jobs)] if keys else []
    if text:
        pieces += [table.job_id.contains(text, autoescape=True), table.user.contains(text, autoescape=True)]
    ids: set[int] = set()
    for piece in pieces:
        ids.update(connection.execute(select(table.id).where(piece).limit(FEW + 1)).scalars())
        if len(ids) > FEW:
            return None
    return sorted(ids)


def runs_of(connection: Connection, job_id: str, most: int = 100) -> tuple[RunRow, ...]:
    """Return the runs of a job, or of the tasks of an array, the newest first."""
    table, jobs = schema.run_energy, schema.jobs
    joined = table.outerjoin(jobs, and_(jobs.c.job_id == table.c.job_id, jobs.c.submit_s == table.c.submit_s))
    mine = words(job_id)
    tasks = select(jobs.c.job_id).where(jobs.c.job_id >= f"{mine}_", jobs.c.job_id < f"{mine}`", jobs.c.array == mine)
    query = _full(joined).where(or_(table.c.job_id == mine, table.c.job_id.in_(tasks))).order_by(
        table.c.start_s.desc(), table.c.id.desc()).limit(most)
    return tuple(map(_run, connection.execute(query)))


def sums_by(connection: Connection, by: Dimension, wanted: RunFilter, limit: int | None = None) \
        -> tuple[tuple[str, dict[str, int]], ...]:
    """Return the sums of whole days (UTC) by a dimension, the most wasteful first.

    Energy that nobody held is in the sum of the user and account ''. Jobs and flavours come from their whole runs. Each
    cluster that has a job of an id has a row of that id, as in ``sums_by_job``.
    """
    if by == "job":
        return tuple((job_id, sums) for job_id, _, sums in sums_by_job(connection, wanted, limit))
    if by == "class":
        partitions = dict(sums_by(connection, "partition", wanted))
        sums_of = {name: _only(partitions, name) for name in PowerClass}
        return tuple((name.value, sums) for name, sums in sums_of.items() if sums["energy_mj"])
    if by == "flavour":
        return _by_flavour(connection, wanted, limit)
    table = schema.node_days if by == "node" else schema.energy_days
    name = table.c["day_s" if by == "day" else by]
    sums = [func.sum(table.c[column]).label(column) for column in SUMS]
    most = func.sum(_wasted(table.c, wanted.wasted)).desc()
    query = select(name.label("name"), *sums).where(*_days(table, wanted)).group_by(name).order_by(
        name if by == "day" else most, name).limit(limit)
    return tuple((str(row.name), _sums(row)) for row in connection.execute(query))


def sums_by_job(connection: Connection, wanted: RunFilter, limit: int | None = None) \
        -> tuple[tuple[str, str, dict[str, int]], ...]:
    """Return id, partition and sums over whole runs of each job, the most wasteful first.

    One of another partition, user or source is another cluster's.
    """
    table, jobs = schema.run_energy, schema.jobs
    key: tuple[ColumnElement[Any], ...] = table.c.job_id, table.c.partition, table.c.user
    held: FromClause = table
    if sources.any_recorded(connection):  # to look a million jobs up takes seconds
        held = table.outerjoin(jobs, and_(jobs.c.job_id == table.c.job_id, jobs.c.submit_s == table.c.submit_s))
        key += (func.coalesce(jobs.c.source, "").label("source"),)
    sums = [func.sum(table.c[column]).label(column) for column in SUMS]
    where, most = _within(wanted), func.sum(_wasted(table.c, wanted.wasted)).desc()
    shown = None
    if limit is not None:
        # A million sums of one column, and of all columns only those that are shown.
        rows = connection.execute(select(*key).select_from(held).where(where).group_by(*key).order_by(
            most, *key).limit(limit))
        shown = {tuple(row) for row in rows}
        where = and_(where, table.c.job_id.in_({job_id for job_id, *_ in shown}))
    query = select(*key, *sums).select_from(held).where(where).group_by(*key).order_by(most, *key)
    return tuple((row.job_id, row.partition, _sums(row)) for row in connection.execute(query)
                 if shown is None or tuple(row)[:len(key)] in shown)


def _sums(row: TableRow) -> dict[str, int]:
    return {column: int(getattr(row, column) or 0) for column in SUMS}


def _by_flavour(connection: Connection, wanted: RunFilter, limit: int | None) \
        -> tuple[tuple[str, dict[str, int]], ...]:
    """Return the sums of whole runs by the flavour of their jobs; '' is of none, or of a job not known any more."""
    table, jobs = schema.run_energy, schema.jobs
    joined = table.outerjoin(jobs, and_(jobs.c.job_id == table.c.job_id, jobs.c.submit_s == table.c.submit_s))
    name = func.coalesce(jobs.c.flavour, "").label("name")
    sums = [func.sum(table.c[column]).label(column) for column in SUMS]
    query = select(name, *sums).select_from(joined).where(_within(wanted)).group_by(name).order_by(
        func.sum(_wasted(table.c, wanted.wasted)).desc(), name).limit(limit)
    return tuple((row.name, _sums(row)) for row in connection.execute(query))


def of_runs(connection: Connection, keys: set[tuple[str, float, float]]) -> dict[tuple[str, float, float], RunRow]:
    """Return the rows of some runs; those of which nothing was recorded are missing."""
    table, jobs = schema.run_energy, schema.jobs
    joined = table.outerjoin(jobs, and_(jobs.c.job_id == table.c.job_id, jobs.c.submit_s == table.c.submit_s))
    rows = connection.execute(_full(joined).where(table.c.job_id.in_(sorted({words(key[0]) for key in keys}))))
    return {key: _run(row) for row in rows if (key := (row.job_id, row.submit_s, row.start_s)) in keys}


def _only(partitions: Mapping[str, Mapping[str, int]], name: PowerClass) -> dict[str, int]:
    """Return the energy of one class over all partitions, and its cost.

    The share with a price is that of all classes: only what they cost is booked by class.
    """
    energy, cost, whole, priced = (sum(sums[column] for sums in partitions.values()) for column in (
        CLASS_COLUMNS[name], COST_COLUMNS[name], "energy_mj", "priced_mj"))
    wasted = name in WASTED
    return dict.fromkeys(SUMS, 0) | {
        "energy_mj": energy, CLASS_COLUMNS[name]: energy, "wasted_mj": energy if wasted else 0,
        "cost_micro": cost, COST_COLUMNS[name]: cost, "wasted_cost_micro": cost if wasted else 0,
        "priced_mj": round(energy * (priced / whole)) if whole else 0}


def _full(joined: FromClause) -> Query:
    table, jobs = schema.run_energy, schema.jobs
    return select(table, jobs.c.name, jobs.c.state, jobs.c.end_s, jobs.c.start_s.label("last_start_s"), jobs.c.open) \
        .select_from(joined)


def _wasted(columns: Any, classes: tuple[PowerClass, ...]) -> ColumnElement[int]:
    if classes == WASTED:
        wasted: ColumnElement[int] = columns.wasted_mj
        return wasted
    return sum((func.coalesce(columns[CLASS_COLUMNS[power_class]], 0) for power_class in classes), start=literal(0))


def _within(wanted: RunFilter) -> ColumnElement[bool]:
    table, jobs = schema.run_energy.c, schema.jobs.c
    tests: list[ColumnElement[bool]] = [table.last_s > wanted.since_s]
    if wanted.until_s is not None:
        tests.append(table.last_s <= wanted.until_s)
    if wanted.begun_before_s is not None:
        tests.append(table.first_s < wanted.begun_before_s)
    for column, value in ((table.user, wanted.user), (table.account, wanted.account),
                          (table.partition, wanted.partition), (jobs.state, wanted.state)):
        if value:
            tests.append(column == words(value))
    if wanted.least_joules:
        tests.append(table.energy_mj >= round(wanted.least_joules * 1000))
    if wanted.software:
        wanted_words = words(wanted.software)
        tests.append(or_(*(column.contains(wanted_words, autoescape=True) for column in (jobs.image, jobs.framework,
                                                                                 jobs.cuda))))
    if wanted.text:
        text = words(wanted.text)
        tests.append(or_(table.job_id.contains(text, autoescape=True), table.user.contains(text, autoescape=True),
                         jobs.name.contains(text, autoescape=True)))
    return and_(*tests)


def _days(table: Table, wanted: RunFilter) -> list[ColumnElement[bool]]:
    tests: list[ColumnElement[bool]] = [table.c.day_s >= wanted.since_s // DAY_S * DAY_S]
    if wanted.until_s is not None:
        tests.append(table.c.day_s < wanted.until_s)
    for name in ("user", "account", "partition"):
        value = getattr(wanted, name)
        if value and name in table.c:
            tests.append(table.c[name] == words(value))
    return tests


def _run(row: TableRow) -> RunRow:
    last = row.state is not None and row.last_start_s == row.start_s
    state = JobState(row.state) if last else JobState.UNKNOWN
    end_s = (row.end_s if last else row.last_s) if not (last and row.open and state.active) else None
    return RunRow(
        row.job_id, row.submit_s, row.start_s, end_s, state, row.user, row.account, row.partition, row.name or "",
        row.gpus, row.gpu_model, row.first_s, row.last_s, row.seen_ms / 1000, (row.shared_ms or 0) / 1000,
        None if row.power_max_mw is None else row.power_max_mw / 1000,
        None if row.memory_max_bytes is None else float(row.memory_max_bytes),
        None if row.idle is None else tuple(map(str, row.idle)),
        {name: getattr(row, name) or 0 for name in SUMS}, row.id)

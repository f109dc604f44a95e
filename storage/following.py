"""Tells whether the scheduler's next start followed the advice that was in force, and keeps that advice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from . import phrases, schema
from .advice import IssuedAdvice
from .database import upsert
from .recommendations import Placed, Placement, Recommendation
from .records import Job
from .values import TableRow, chunks

Verdict = Literal["followed", "elsewhere", "earlier", "later", "not advised"]
WITHIN_S = 600.0
"""A start so near the advised moment is at that moment: people and schedulers take some minutes."""
IN_FORCE_S = 3600.0
"""So long after it was last repeated advice counts as in force."""
_RUNS, _VERDICTS = schema.runs, schema.verdicts


@dataclass(frozen=True, slots=True)
class Following:
    """How the starts of jobs compare with one policy's advice to start or to hold them; '' is 'nobody advised'."""

    policy: str
    shadow: bool
    action: str
    verdict: Verdict
    runs: int


class Stood(NamedTuple):
    """Advice that stood for a while."""

    issued_s: float
    last_issued_s: float
    action: str
    reason: str
    nodes: list[str] | None
    gpus: list[int] | None
    expected_start_s: float | None


@dataclass(frozen=True, slots=True)
class _Run:
    id: int
    job: int
    job_id: str
    array: str
    submit_s: float
    start_s: float
    held: dict[str, int]
    """GPUs by node."""

    @property
    def names(self) -> set[str]:
        """Return the ids under which advice may have been given: while it waits, a task goes by its array's."""
        return {self.job_id, self.array or self.job_id}


def judge(connection: Connection, jobs: Sequence[Job]) -> None:
    """Decide for every run of these jobs, once its nodes are known, whether it followed the advice in force."""
    runs = _unjudged(connection, jobs)
    advice = _advice_on(connection, runs)
    before = _starts_before(connection, [run for run in runs if run.names & advice.keys()])
    judged: list[tuple[_Run, TableRow | None, Stood | None]] = []
    for run in runs:
        rows = [row for name in sorted(run.names) for row in advice.get(name, ()) if row.submit_s == run.submit_s]
        stood = {row.policy: (run, row, version) for row in rows
                 if (version := _in_force_at(row, run.start_s, before.get(run.id))) is not None}
        judged += stood.values() or [(run, None, None)]
    _keep(connection, judged)
    gone = {row.id for run, row, _ in judged if row is not None and row.job_id == run.job_id}
    for some in chunks(gone):
        connection.execute(delete(schema.recommendations).where(schema.recommendations.c.id.in_(some)))


def verdict_on(advice: Stood, held: Mapping[str, int], start_s: float) -> Verdict:
    """Compare a start with the advice in force: its nodes, the GPUs on each, and the moment.

    Advice to start means the moment at which it was first given, advice to hold the expected start. Advice that names
    no place (not eligible, can never run) or no moment advises nothing: no start could be said to follow it, so none
    is said to have passed it over.
    """
    moment = advice.issued_s if advice.action == "start" else advice.expected_start_s
    if advice.nodes is None or moment is None:
        return "not advised"
    if dict(zip(advice.nodes, advice.gpus or (), strict=False)) != held:
        return "elsewhere"
    if abs(start_s - moment) <= WITHIN_S:
        return "followed"
    return "earlier" if start_s < moment else "later"


def totals(connection: Connection) -> tuple[Following, ...]:
    """Return how many runs followed which policy, since recording began."""
    table = schema.adherence
    rows = connection.execute(select(table).order_by(table.c.policy, table.c.shadow, table.c.action, table.c.verdict))
    return tuple(Following(row.policy, row.shadow, row.action, row.verdict, row.runs) for row in rows)


def placed(connection: Connection) -> tuple[Placed, ...]:
    """Return jobs of several GPUs that run now, and that the active policy would have started."""
    jobs, parts = schema.jobs, schema.allocations
    going = select(_RUNS.c.id).where(_RUNS.c.job.in_(select(jobs.c.id).where(jobs.c.open, jobs.c.gpus > 1)),
                                     _RUNS.c.end_s.is_(None))
    rows = connection.execute(
        select(_RUNS.c.id, jobs.c.partition, _VERDICTS.c.nodes, _VERDICTS.c.gpus, parts.c.node,
               parts.c.gpus.label("held"))
        .join(_VERDICTS, _VERDICTS.c.run == _RUNS.c.id)
        .join(jobs, jobs.c.id == _RUNS.c.job).join(parts, parts.c.run == _RUNS.c.id)
        .where(_VERDICTS.c.run.in_(going), _VERDICTS.c.action == "start", _VERDICTS.c.shadow.is_(False),
               parts.c.gpus > 0, parts.c.until_s.is_(None))
        .order_by(_RUNS.c.id, parts.c.node))
    rows_by_run: dict[int, list[TableRow]] = {}
    for row in rows:
        rows_by_run.setdefault(row.id, []).append(row)
    return tuple(Placed(held[0].partition, Placement(tuple(row.node for row in held), tuple(row.held for row in held)),
                        Placement(tuple(held[0].nodes), tuple(held[0].gpus)))
                 for held in rows_by_run.values())


def frozen(connection: Connection, within: ColumnElement[bool]) -> Iterator[IssuedAdvice]:
    """Yield advice as it was when its job started: placement and reason, without what else was weighed."""
    jobs, policy, objective, reason = schema.jobs, *(schema.phrases.alias() for _ in range(3))
    rows = connection.execute(
        select(_VERDICTS, jobs.c.job_id, jobs.c.submit_s, jobs.c.partition, policy.c.text.label("policy_text"),
               objective.c.text.label("objective_text"), reason.c.text.label("reason_text"))
        .join(_RUNS, _RUNS.c.id == _VERDICTS.c.run).join(jobs, jobs.c.id == _RUNS.c.job)
        .join(policy, policy.c.id == _VERDICTS.c.policy).join(objective, objective.c.id == _VERDICTS.c.objective)
        .join(reason, reason.c.id == _VERDICTS.c.reason).where(within))
    for row in rows:
        placement = None if row.nodes is None else Placement(tuple(row.nodes), tuple(row.gpus))
        yield IssuedAdvice(Recommendation(
            row.job_id, row.submit_s, row.partition, row.issued_s, row.policy_text, row.objective_text, row.action,
            phrases.put_together(row.reason_text, row.figures), placement, row.expected_start_s, shadow=row.shadow),
            row.last_issued_s)


def verdicts_on(connection: Connection, job: int) -> dict[int, dict[str, str]]:
    """Return the verdicts on a job's runs by policy."""
    verdicts: dict[int, dict[str, str]] = {}
    rows = connection.execute(
        select(_VERDICTS.c.run, schema.phrases.c.text, _VERDICTS.c.verdict)
        .join(schema.phrases, schema.phrases.c.id == _VERDICTS.c.policy)
        .join(_RUNS, _RUNS.c.id == _VERDICTS.c.run).where(_RUNS.c.job == job))
    for run, policy, verdict in rows:
        verdicts.setdefault(run, {})[policy] = verdict
    return verdicts


def _unjudged(connection: Connection, jobs: Sequence[Job]) -> list[_Run]:
    table, parts = schema.jobs, schema.allocations
    keys = {job.key for job in jobs if job.start_s is not None}
    held: dict[tuple[int, int, str, str, float, float], dict[str, int]] = {}
    for ids in chunks({job_id for job_id, _ in keys}):
        rows = connection.execute(
            select(_RUNS.c.id, _RUNS.c.job, table.c.job_id, table.c.array, table.c.submit_s, _RUNS.c.start_s,
                   parts.c.node, parts.c.gpus)
            .join(table, table.c.id == _RUNS.c.job).join(parts, parts.c.run == _RUNS.c.id)
            .outerjoin(_VERDICTS, _VERDICTS.c.run == _RUNS.c.id)
            .where(table.c.job_id.in_(ids), _VERDICTS.c.run.is_(None)))
        for run, job, job_id, array, submit_s, start_s, node, gpus in rows:
            held.setdefault((run, job, job_id, array, submit_s, start_s), {})[node] = gpus
    return [_Run(*run, held=some) for run, some in held.items() if (run[2], run[4]) in keys]


def _advice_on(connection: Connection, runs: Iterable[_Run]) -> dict[str, list[TableRow]]:
    """Return the advice in force by the job's id."""
    table, rows_by_job = schema.recommendations, dict[str, list[TableRow]]()
    for ids in chunks({name for run in runs for name in run.names}):
        for row in connection.execute(select(table).where(table.c.job_id.in_(ids)).order_by(table.c.id)):
            rows_by_job.setdefault(row.job_id, []).append(row)
    return rows_by_job


def _starts_before(connection: Connection, runs: Sequence[_Run]) -> dict[int, float]:
    """Return when each run's job had started before, where it had."""
    earlier = _RUNS.alias()
    starts: dict[int, float] = {}
    for some in chunks([run.id for run in runs]):
        starts |= {run: start_s for run, start_s in connection.execute(
            select(_RUNS.c.id, func.max(earlier.c.start_s)).join(
                earlier, (earlier.c.job == _RUNS.c.job) & (earlier.c.start_s < _RUNS.c.start_s))
            .where(_RUNS.c.id.in_(some)).group_by(_RUNS.c.id))}
    return starts


def _in_force_at(row: TableRow, start_s: float, previous_s: float | None) -> Stood | None:
    """Return the last advice of a policy before a start, since the previous one; None when that is not known."""
    versions = [*(Stood(*fields) for fields in row.before), Stood(*(getattr(row, name) for name in Stood._fields))]
    # Schedulers cut the start down to its second: advice of that second may be what the operator did.
    second = math.floor(start_s) + 1
    last = next((version for version in reversed(versions) if version.issued_s < second), None)
    if last is None or last.last_issued_s < start_s - IN_FORCE_S:
        return None
    return None if previous_s is not None and last.last_issued_s <= previous_s else last


def _keep(connection: Connection, judged: Sequence[tuple[_Run, TableRow | None, Stood | None]]) -> None:
    """Write verdicts with the advice that they are about, and count them."""
    reasons = {stood.reason: phrases.taken_apart(stood.reason) for _, _, stood in judged if stood is not None}
    texts = {phrase for phrase, _ in reasons.values()}
    texts |= {text for _, row, _ in judged for text in (("",) if row is None else (row.policy, row.objective))}
    numbers = phrases.numbers(connection, texts)
    rows, counts = [], dict[tuple[str, bool, str, Verdict], int]()
    for run, row, stood in judged:
        verdict: Verdict = "not advised" if stood is None else verdict_on(stood, run.held, run.start_s)
        columns: dict[str, object] = dict.fromkeys(("action", "objective", "reason", "figures", "nodes", "gpus",
                                                    "expected_start_s", "issued_s", "last_issued_s"))
        if row is not None and stood is not None:
            phrase, figures = reasons[stood.reason]
            columns = stood._asdict() | {"reason": numbers[phrase], "figures": figures,
                                         "objective": numbers[row.objective]}
        policy, shadow = ("", False) if row is None else (row.policy, row.shadow)
        rows.append({"run": run.id, "policy": numbers[policy], "shadow": shadow, "verdict": verdict, **columns})
        key = policy, shadow, stood.action if stood else "", verdict
        counts[key] = counts.get(key, 0) + 1
    upsert(connection, _VERDICTS, rows)
    _count(connection, counts)


def _count(connection: Connection, counts: Mapping[tuple[str, bool, str, Verdict], int]) -> None:
    if not counts:
        return
    insert = (postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert)(schema.adherence)
    connection.execute(insert.on_conflict_do_update(
        index_elements=["policy", "shadow", "action", "verdict"],
        set_={"runs": schema.adherence.c.runs + insert.excluded.runs}),
        [dict(zip(("policy", "shadow", "action", "verdict"), key, strict=True), runs=runs)
         for key, runs in counts.items()])

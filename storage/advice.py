"""Records recommendations as they change, and whether the scheduler's next start followed them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, func, select, update

from . import schema
from .database import upsert
from .recommendations import Alternative, Instead, Placed, Placement, Recommendation
from .records import Job
from .values import chunks, number, words

Verdict = Literal["followed", "not_followed", "no_advice"]
Advised = tuple[str, float, str]
"""(job id, submit time, policy)."""
_TABLE = schema.recommendations


@dataclass(frozen=True, slots=True)
class IssuedAdvice:
    """A recommendation and until when it was repeated unchanged."""

    recommendation: Recommendation
    last_issued_s: float


@dataclass(frozen=True, slots=True)
class Following:
    """How the starts of jobs compare with one policy's last word on them; '' is 'nobody advised'."""

    policy: str
    shadow: bool
    verdict: Verdict
    runs: int


def store(connection: Connection, recommendations: Iterable[Recommendation]) -> None:
    """Record advice that changed; the same advice again only extends ``last_issued_s``."""
    for batch in _batches(recommendations):
        last = _last_words(connection, batch)
        new, repeated = [], []
        for item in batch:
            known, row = last.get(_advised(item)), _row(item)
            if known is None or (item.issued_s > known.last_issued_s and not _same(known, row)):
                new.append(row)
            elif item.issued_s > known.last_issued_s:
                repeated.append({"known": known.id, "now": item.issued_s})
        upsert(connection, _TABLE, new)
        if repeated:
            connection.execute(update(_TABLE).where(_TABLE.c.id == bindparam("known"))
                               .values(last_issued_s=bindparam("now")), repeated)


def judge(connection: Connection, jobs: Sequence[Job]) -> None:
    """Decide for every run of these jobs, once its nodes are known, whether it followed the last advice before it."""
    verdicts = []
    for run in _unjudged(connection, jobs):
        advice = _advice_before(connection, run)
        verdicts += [{"run": run.id, "policy": row.policy, "shadow": row.shadow, "verdict": _verdict(row, run.nodes),
                      "start_s": run.start_s, "recommendation": row.id} for row in advice]
        if not advice:
            verdicts.append({"run": run.id, "policy": "", "shadow": False, "verdict": "no_advice",
                             "start_s": run.start_s, "recommendation": None})
    upsert(connection, schema.verdicts, verdicts)


def totals(connection: Connection) -> tuple[Following, ...]:
    """Return how many runs followed which policy."""
    table = schema.verdicts
    columns = (table.c.policy, table.c.shadow, table.c.verdict)
    rows = connection.execute(select(*columns, func.count()).group_by(*columns).order_by(*columns))
    return tuple(Following(*row) for row in rows)


def placed(connection: Connection) -> tuple[Placed, ...]:
    """Return jobs of several GPUs that run now, and that the policy in charge would have started."""
    jobs, runs, parts, verdicts = schema.jobs, schema.runs, schema.allocations, schema.verdicts
    going = select(runs.c.id).where(runs.c.job.in_(select(jobs.c.id).where(jobs.c.open, jobs.c.gpus > 1)),
                                    runs.c.end_s.is_(None))
    rows = connection.execute(
        select(runs.c.id, jobs.c.partition, _TABLE.c.nodes, _TABLE.c.gpus, parts.c.node, parts.c.gpus.label("held"))
        .join(verdicts, verdicts.c.run == runs.c.id).join(_TABLE, _TABLE.c.id == verdicts.c.recommendation)
        .join(jobs, jobs.c.id == runs.c.job).join(parts, parts.c.run == runs.c.id)
        .where(verdicts.c.run.in_(going), _TABLE.c.action == "start", verdicts.c.shadow.is_(False), parts.c.gpus > 0)
        .order_by(runs.c.id, parts.c.node))
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(row.id, []).append(row)
    return tuple(Placed(held[0].partition, Placement(tuple(row.node for row in held), tuple(row.held for row in held)),
                        Placement(tuple(held[0].nodes), tuple(held[0].gpus)))
                 for held in found.values())


def issued_of(row: Row[Any]) -> IssuedAdvice:
    """Return the recommendation that a row holds."""
    placement = None if row.nodes is None else Placement(tuple(row.nodes), tuple(row.gpus))
    alternatives = tuple(Alternative(Placement(tuple(nodes), tuple(gpus)), reason, *cost_and_speed)
                         for nodes, gpus, reason, *cost_and_speed in row.alternatives)
    return IssuedAdvice(Recommendation(
        job_id=row.job_id, submit_s=row.submit_s, partition=row.partition, issued_s=row.issued_s, policy=row.policy,
        objective=row.objective, action=row.action, reason=row.reason, placement=placement,
        expected_start_s=row.expected_start_s, alternatives=alternatives, shadow=row.shadow,
        interval_s=None if row.interval_s is None else (row.interval_s[0], row.interval_s[1]),
        wait_change_s=row.wait_change_s, reasons=tuple(row.reasons), instead=_instead_of(row.instead),
        communication_cost=row.communication_cost, gpu_indexes=tuple(map(tuple, row.gpu_indexes or ()))),
        row.last_issued_s)


def _instead_of(told: list[Any] | None) -> Instead | None:
    if told is None:
        return None
    policy, action, nodes, gpus, expected_start_s = told
    return Instead(policy, action, None if nodes is None else Placement(tuple(nodes), tuple(gpus)), expected_start_s)


def _instead_row(other: Instead | None) -> list[Any] | None:
    if other is None:
        return None
    placement = other.placement
    return [words(other.policy), words(other.action), None if placement is None else list(map(words, placement.nodes)),
            None if placement is None else list(placement.gpus), number(other.expected_start_s)]


def _advised(item: Recommendation) -> Advised:
    return words(item.job_id), item.submit_s, words(item.policy)


def _batches(items: Iterable[Recommendation]) -> Iterator[list[Recommendation]]:
    batch: dict[Advised, Recommendation] = {}
    for item in items:
        if number(item.submit_s) is None or number(item.issued_s) is None:
            continue
        if _advised(item) in batch:
            yield list(batch.values())
            batch = {}
        batch[_advised(item)] = item
    yield list(batch.values())


def _last_words(connection: Connection, batch: Sequence[Recommendation]) -> dict[Advised, Row[Any]]:
    last: dict[Advised, Row[Any]] = {}
    for ids in chunks({words(item.job_id) for item in batch}):
        for row in connection.execute(select(_TABLE).where(_TABLE.c.job_id.in_(ids)).order_by(_TABLE.c.issued_s)):
            last[row.job_id, row.submit_s, row.policy] = row
    return last


def _row(item: Recommendation) -> dict[str, Any]:
    placement = item.placement
    interval = None if item.interval_s is None else [number(bound) for bound in item.interval_s]
    return {"job_id": words(item.job_id), "submit_s": item.submit_s, "partition": words(item.partition),
            "policy": words(item.policy), "shadow": item.shadow, "objective": words(item.objective),
            "action": item.action, "reason": words(item.reason),
            "nodes": None if placement is None else list(map(words, placement.nodes)),
            "gpus": None if placement is None else list(placement.gpus),
            "expected_start_s": number(item.expected_start_s),
            "alternatives": [[list(map(words, other.placement.nodes)), list(other.placement.gpus), words(other.reason),
                              number(other.communication_cost), number(other.relative_speed)]
                             for other in item.alternatives],
            "interval_s": None if interval is None or None in interval else interval,
            "wait_change_s": number(item.wait_change_s), "reasons": list(map(words, item.reasons)),
            "instead": _instead_row(item.instead), "communication_cost": number(item.communication_cost),
            "gpu_indexes": list(map(list, item.gpu_indexes)) or None,
            "issued_s": item.issued_s, "last_issued_s": item.issued_s}


def _same(known: Row[Any], row: dict[str, Any]) -> bool:
    return all(getattr(known, name) == row[name] for name in ("action", "nodes", "gpus", "shadow"))


@dataclass(frozen=True, slots=True)
class _Run:
    id: int
    job: int
    job_id: str
    submit_s: float
    start_s: float
    nodes: frozenset[str]


def _unjudged(connection: Connection, jobs: Sequence[Job]) -> list[_Run]:
    table, runs, parts, verdicts = schema.jobs, schema.runs, schema.allocations, schema.verdicts
    keys = {job.key for job in jobs if job.start_s is not None}
    held: dict[tuple[int, int, str, float, float], set[str]] = {}
    for ids in chunks({job_id for job_id, _ in keys}):
        rows = connection.execute(
            select(runs.c.id, runs.c.job, table.c.job_id, table.c.submit_s, runs.c.start_s, parts.c.node)
            .join(table, table.c.id == runs.c.job).join(parts, parts.c.run == runs.c.id)
            .outerjoin(verdicts, verdicts.c.run == runs.c.id)
            .where(table.c.job_id.in_(ids), verdicts.c.run.is_(None)))
        for run, job, job_id, submit_s, start_s, node in rows:
            held.setdefault((run, job, job_id, submit_s, start_s), set()).add(node)
    return [_Run(*run, nodes=frozenset(nodes)) for run, nodes in held.items() if run[2:4] in keys]


def _advice_before(connection: Connection, run: _Run) -> list[Row[Any]]:
    """Return each policy's last advice between the end of the previous run's wait and this start."""
    runs = schema.runs
    previous = connection.execute(select(func.max(runs.c.start_s)).where(
        runs.c.job == run.job, runs.c.start_s < run.start_s)).scalar_one()
    # While it waits, an array task goes by its array's id.
    names = {run.job_id, run.job_id.partition("_")[0]}
    # Schedulers cut the start down to its second: advice of that second may be what the operator did.
    query = select(_TABLE).where(_TABLE.c.job_id.in_(names), _TABLE.c.submit_s == run.submit_s,
                                 _TABLE.c.issued_s < math.floor(run.start_s) + 1).order_by(_TABLE.c.issued_s)
    if previous is not None:
        query = query.where(_TABLE.c.last_issued_s > previous)
    return list({row.policy: row for row in connection.execute(query)}.values())


def _verdict(advice: Row[Any], nodes: frozenset[str]) -> Verdict:
    followed = advice.action == "start" and advice.nodes is not None and frozenset(advice.nodes) == nodes
    return "followed" if followed else "not_followed"

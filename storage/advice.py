"""Records the advice in force, one row for each waiting job and policy, and when its action or its reason changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, select, update

from . import phrases, schema
from .database import upsert
from .recommendations import Alternative, Instead, Placement, Recommendation
from .values import TableRow, chunks, number, words

Advised = tuple[str, float, str]
"""(job id, submit time, policy)."""
REASON_EVERY_S = 600.0
"""A reason that flaps is noted no more often; an action always is."""
TRAIL_S = 300.0
"""So long what stood before is kept: a start may be seen some rounds of advice after it happened."""
MOST_BEFORE = 6
_TABLE = schema.recommendations
_KNOWN = ("id", "job_id", "submit_s", "policy", "shadow", "action", "reason", "nodes", "gpus", "expected_start_s",
          "wait_change_s", "issued_s", "last_issued_s", "before", "noted", "noted_s")
_PLACED = ("action", "nodes", "gpus", "shadow")
"""What makes it other advice when it changes."""


@dataclass(frozen=True, slots=True)
class IssuedAdvice:
    """A recommendation and until when it was repeated; it stands since ``issued_s`` with this action and placement."""

    recommendation: Recommendation
    last_issued_s: float


@dataclass(frozen=True, slots=True)
class AdviceChange:
    """From this moment on a policy advised this for a job."""

    time_s: float
    job_id: str
    submit_s: float
    policy: str
    action: str
    reason: str


def store(connection: Connection, recommendations: Iterable[Recommendation]) -> None:
    """Put advice in force in place of earlier advice of the same policy on the same job."""
    for batch in _batches(recommendations):
        known = _in_force(connection, batch)
        rows, repeated = list[dict[str, Any]](), list[dict[str, Any]]()
        for item in batch:
            before = known.get(_advised(item))
            if before is None:
                rows.append(_row(item) | {"before": []})
            elif before.last_issued_s < item.issued_s and _same(before, item):
                repeated.append({"known": before.id, "now": item.issued_s})
            elif before.last_issued_s < item.issued_s:
                row = _row(item)
                rows.append(row | _since(before, row))
        worded = _put_in_words(connection, rows)
        noted = [_noted(known.get((row["job_id"], row["submit_s"], row["policy"])), row, text["reason"])
                 for row, text in zip(rows, worded, strict=True)]
        upsert(connection, _TABLE, [row | note for row, note in zip(rows, noted, strict=True)], update=_ALL)
        upsert(connection, schema.advice_changes,
               [text for text, note in zip(worded, noted, strict=True) if note["noted_s"] == text["time_s"]])
        _extend(connection, repeated)


def _put_in_words(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of advice as they are noted: policy and reason by number, the reason's figures apart."""
    apart = [phrases.taken_apart(row["reason"]) for row in rows]
    numbers = phrases.numbers(connection, {phrase for phrase, _ in apart} | {row["policy"] for row in rows})
    return [{"time_s": row["last_issued_s"], "job_id": row["job_id"], "submit_s": row["submit_s"],
             "policy": numbers[row["policy"]], "action": row["action"], "reason": numbers[phrase], "figures": figures}
            for row, (phrase, figures) in zip(rows, apart, strict=True)]


def _extend(connection: Connection, repeated: Sequence[Mapping[str, object]]) -> None:
    if repeated:
        connection.execute(update(_TABLE).where(_TABLE.c.id == bindparam("known"))
                           .values(last_issued_s=bindparam("now")), repeated)


def in_force(connection: Connection, within: ColumnElement[bool]) -> list[IssuedAdvice]:
    """Return advice of jobs that have not started."""
    return [issued_of(row) for row in connection.execute(select(_TABLE).where(within))]


def changes(connection: Connection, since_s: float, until_s: float, job_id: str | None) -> tuple[AdviceChange, ...]:
    """Return when actions and reasons changed in [since, until), in the order of time."""
    table, policy, reason = schema.advice_changes, schema.phrases.alias(), schema.phrases.alias()
    query = (select(table, policy.c.text.label("policy_text"), reason.c.text.label("reason_text"))
             .join(policy, policy.c.id == table.c.policy).join(reason, reason.c.id == table.c.reason)
             .where(table.c.time_s >= since_s, table.c.time_s < until_s)
             .order_by(table.c.time_s, table.c.job_id, table.c.policy))
    if job_id is not None:
        query = query.where(table.c.job_id == job_id)
    return tuple(AdviceChange(row.time_s, row.job_id, row.submit_s, row.policy_text, row.action,
                              phrases.put_together(row.reason_text, row.figures)) for row in connection.execute(query))


def issued_of(row: TableRow) -> IssuedAdvice:
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


def _instead_of(row: list[Any] | None) -> Instead | None:
    if row is None:
        return None
    policy, action, nodes, gpus, expected_start_s = row
    return Instead(policy, action, None if nodes is None else Placement(tuple(nodes), tuple(gpus)), expected_start_s)


def _instead_row(other: Instead | None) -> list[object] | None:
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


def _in_force(connection: Connection, batch: Sequence[Recommendation]) -> dict[Advised, TableRow]:
    rows: dict[Advised, TableRow] = {}
    columns = [_TABLE.c[name] for name in _KNOWN]
    for ids in chunks({words(item.job_id) for item in batch}):
        for row in connection.execute(select(*columns).where(_TABLE.c.job_id.in_(ids))):
            rows[row.job_id, row.submit_s, row.policy] = row
    return rows


def _places(placement: Placement | None) -> tuple[list[str] | None, list[int] | None]:
    """Return nodes and GPUs as they are recorded."""
    return (None, None) if placement is None else (list(map(words, placement.nodes)), list(placement.gpus))


def _row(item: Recommendation) -> dict[str, object]:
    nodes, gpus = _places(item.placement)
    interval = None if item.interval_s is None else [number(bound) for bound in item.interval_s]
    return {"job_id": words(item.job_id), "submit_s": item.submit_s, "partition": words(item.partition),
            "policy": words(item.policy), "shadow": item.shadow, "objective": words(item.objective),
            "action": item.action, "reason": words(item.reason),
            "nodes": nodes, "gpus": gpus, "expected_start_s": number(item.expected_start_s),
            "alternatives": [[list(map(words, other.placement.nodes)), list(other.placement.gpus), words(other.reason),
                              number(other.communication_cost), number(other.relative_speed)]
                             for other in item.alternatives],
            "interval_s": None if interval is None or None in interval else interval,
            "wait_change_s": number(item.wait_change_s), "reasons": list(map(words, item.reasons)),
            "instead": _instead_row(item.instead), "communication_cost": number(item.communication_cost),
            "gpu_indexes": list(map(list, item.gpu_indexes)) or None,
            "issued_s": item.issued_s, "last_issued_s": item.issued_s}


def _same(known: TableRow, item: Recommendation) -> bool:
    """Tell whether nothing but the time differs; advice to start is weighed against others, which may differ."""
    nodes, gpus = _places(item.placement)
    return item.action != "start" and (known.action, known.shadow, known.reason, known.expected_start_s,
                                       known.wait_change_s, known.nodes, known.gpus) == (
        item.action, item.shadow, words(item.reason), number(item.expected_start_s), number(item.wait_change_s),
        nodes, gpus)


def _since(known: TableRow, row: Mapping[str, Any]) -> dict[str, object]:
    """Return since when advice stands, and what stood in the minutes before."""
    recent = [version for version in known.before if version[1] >= row["issued_s"] - TRAIL_S]
    if all(getattr(known, name) == row[name] for name in _PLACED):
        return {"issued_s": known.issued_s, "before": recent}
    last = [known.issued_s, known.last_issued_s, known.action, known.reason, known.nodes, known.gpus,
            known.expected_start_s]
    return {"before": [*recent, last][-MOST_BEFORE:]}


def _noted(known: TableRow | None, row: Mapping[str, object], phrase: int) -> dict[str, object]:
    """Return the reason and the time that are noted as a change, which may be those before."""
    changed = known is None or known.action != row["action"] or known.noted is None or (
        known.noted != phrase and row["last_issued_s"] >= known.noted_s + REASON_EVERY_S)
    if known is None or changed:
        return {"noted": phrase, "noted_s": row["last_issued_s"]}
    return {"noted": known.noted, "noted_s": known.noted_s}


_ALL = tuple(column.name for column in _TABLE.columns if column.name not in ("id", "job_id", "submit_s", "policy"))

"""Records what was decided on trained agents, when they would not answer, and how they did in closed time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, func, select, update

from . import schema
from .database import upsert
from .values import TableRow, finite, number, words


class Decision(StrEnum):
    """What was decided on a trained agent."""

    PROMOTE = "promote"
    """It is active from now on, in the place of the one that was."""
    SHADOW = "shadow"
    """It is called and recorded, and not shown as advice."""
    DEMOTE = "demote"
    """It is believed no more and goes on in shadow, until it has done well there for some time."""
    REFUSE = "refuse"
    """It is not called: it fails, or cannot be judged."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """One decision on one agent, and what it rests on."""

    time_s: float
    model: str
    """``kind@version``."""
    decision: Decision
    by: str
    """``nightly``, ``operator``, or ``daemon`` where rolling regret decided."""
    reason: str
    """Sentences for a person."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """As ``daemon.learning.promotion.Verdict.figures`` gives them; empty when nothing was measured."""


CAUSES = ("doubt", "later", "stale", "damaged", "unknown", "failed")
"""Why an agent abstains: it doubts itself, waiting jobs are expected to end later under it, the snapshot is old, its
files cannot be used, it meets a partition or GPU type it never saw, or what it answered cannot be done."""


@dataclass(frozen=True, slots=True)
class Abstention:
    """An agent was called and abstained; rounds in a row with the same cause are one."""

    model: str
    cause: str
    """One of ``CAUSES``."""
    words: str
    first_s: float
    last_s: float
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """How a policy did in a closed stretch of time, replayed beside the incumbent from the same recorded moment."""

    policy: str
    since_s: float
    until_s: float
    system_s: float
    """Seconds in which jobs waited or ran, summed over jobs; by Little's law in proportion to the mean JCT."""
    incumbent_system_s: float
    wait_s: float
    incumbent_wait_s: float
    incumbent: str = ""
    """Which policy that was; '' where nobody recorded it."""


def states(decisions: Iterable[Promotion]) -> dict[str, Promotion]:
    """Return the decision in force on each agent, given all of them in order: a replaced one goes into shadow."""
    in_force: dict[str, Promotion] = {}
    for decision in decisions:
        if decision.decision is Decision.PROMOTE:
            for model, before in in_force.items():
                if before.decision is Decision.PROMOTE and model != decision.model:
                    in_force[model] = Promotion(decision.time_s, model, Decision.SHADOW, decision.by,
                                                f"replaced by {decision.model}", before.figures)
        in_force[decision.model] = decision
    return in_force


def active_model(in_force: Mapping[str, Promotion]) -> str | None:
    """Return the agent that is active; None when it is the heuristic."""
    return next((model for model, last in in_force.items() if last.decision is Decision.PROMOTE), None)


def store(connection: Connection, promotion: Promotion) -> None:
    """Record a decision; the very same one again is no other."""
    row = {"time_s": promotion.time_s, "model": words(promotion.model), "decision": promotion.decision.value,
           "by": words(promotion.by), "reason": words(promotion.reason)}
    table = schema.promotions
    known = select(table.c.id).where(*(table.c[name] == value for name, value in row.items())).limit(1)
    if connection.execute(known).scalar_one_or_none() is None:
        connection.execute(table.insert(), [row | {"figures": finite(dict(promotion.figures))}])


def promotion_of(row: TableRow) -> Promotion:
    """Return the decision that a row holds; a word that this version does not know refuses the model and says so."""
    if row.decision in tuple(Decision):
        return Promotion(row.time_s, row.model, Decision(row.decision), row.by, row.reason, row.figures)
    why = (f"the decision {row.decision!r} is not known to this version of idlewatt (a newer version recorded it?), so "
           f"the model is not asked; upgrade, or decide anew by `idlewatt promote` or `idlewatt demote`: {row.reason}")
    return Promotion(row.time_s, row.model, Decision.REFUSE, row.by, why, row.figures)


def store_abstentions(connection: Connection, abstentions: Sequence[Abstention]) -> None:
    """Record rounds without an answer; a silence that began with the same cause at the same time lasts longer."""
    table = schema.abstentions
    for item in abstentions:
        known = connection.execute(select(table).where(
            table.c.model == words(item.model), table.c.first_s == item.first_s, table.c.cause == item.cause)
            .limit(1)).one_or_none()
        if known is not None:
            if item.last_s >= known.last_s:
                connection.execute(update(table).where(table.c.id == known.id).values(
                    last_s=item.last_s, rounds=item.rounds, words=words(item.words)))
        else:
            connection.execute(table.insert(), [
                {"model": words(item.model), "cause": item.cause, "words": words(item.words),
                 "first_s": item.first_s, "last_s": item.last_s, "rounds": item.rounds}])


def abstention_of(row: TableRow) -> Abstention:
    """Return the abstention that a row holds."""
    return Abstention(row.model, row.cause, row.words, row.first_s, row.last_s, row.rounds)


def abstained(connection: Connection) -> dict[tuple[str, str], int]:
    """Return rounds without an answer by (agent, cause), since recording began."""
    table = schema.abstentions.c
    rows = connection.execute(select(table.model, table.cause, func.sum(table.rounds)).group_by(
        table.model, table.cause))
    return {(model, cause): int(rounds) for model, cause, rounds in rows}


def store_standings(connection: Connection, standings: Sequence[ShadowResult]) -> None:
    """Record how policies did; the same policy and beginning again replaces."""
    seconds = ("system_s", "incumbent_system_s", "wait_s", "incumbent_wait_s")
    upsert(connection, schema.standings, [
        {"policy": words(item.policy), "since_s": item.since_s, "until_s": item.until_s,
         "incumbent": words(item.incumbent)}
        | {name: getattr(item, name) for name in seconds}
        for item in standings if all(number(getattr(item, name)) is not None for name in seconds)],
        update=("until_s", "incumbent", *seconds))


def standing_of(row: TableRow) -> ShadowResult:
    """Return the standing that a row holds."""
    return ShadowResult(row.policy, row.since_s, row.until_s, row.system_s, row.incumbent_system_s, row.wait_s,
                    row.incumbent_wait_s, row.incumbent)

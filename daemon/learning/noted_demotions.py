"""Demotions, noted beside the models: a database that is restored from a backup would make a policy active again.

The daemon notes the demotions that it finds in the database. What the note has and the database has not is decided
there once more, before the policy advises again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from ...storage.promotions import Decision, Promotion, states
from ...storage.whole_files import write
from ..agents.checkpoint import FURTHEST_S
from .begun_trials import read_note

DEMOTED = ".training/demotions.json"
MOST_REASON = 300
"""The most characters of a reason that are noted."""


@dataclass(frozen=True, slots=True)
class NotedDemotion:
    """A demotion as it stands beside the models."""

    time_s: Annotated[float, Field(gt=-FURTHEST_S, lt=FURTHEST_S)]
    model: str
    database: str
    """Identity of the database that has it: others may share the folder of models."""
    by: str
    reason: str


_DEMOTED = TypeAdapter(tuple[NotedDemotion, ...])


def noted(models: Path) -> tuple[NotedDemotion, ...]:
    """Return the demotions that are noted beside the models; ModelError where the note is damaged."""
    return read_note(models / DEMOTED, _DEMOTED, "which policies were demoted")


def recall(decide: Callable[[Promotion], object], decisions: Sequence[Promotion], models: Path,
           database: str) -> tuple[str, ...]:
    """Decide once more the demotions that the database has forgotten, and note those that it has; return their models.

    ``database`` is its identity, which its backups share. What an operator made active after its demotion stays.
    ModelError where the note is damaged, OSError where it cannot be written.
    """
    known = {(decision.model, decision.time_s) for decision in decisions if decision.decision is Decision.DEMOTE}
    all_noted, in_force = noted(models), states(decisions)
    before = [demotion for demotion in all_noted if demotion.database == database]
    forgotten = [demotion for demotion in before
                 if (demotion.model, demotion.time_s) not in known and _active_since(in_force, demotion)]
    for demotion in forgotten:
        reason = f"{demotion.reason} (decided once more: the database had forgotten it, restored from a backup?)"
        decide(Promotion(demotion.time_s, demotion.model, Decision.DEMOTE, demotion.by, reason))
    kept = (*(demotion for demotion in all_noted if demotion.database != database), *_kept(before, in_force, database))
    if kept != all_noted:
        (models / DEMOTED).parent.mkdir(parents=True, exist_ok=True)
        write(models / DEMOTED, _DEMOTED.dump_json(kept))
    return tuple(demotion.model for demotion in forgotten)


def _active_since(in_force: dict[str, Promotion], demotion: NotedDemotion) -> bool:
    """Tell whether a policy is active by a decision that is older than its demotion."""
    last = in_force.get(demotion.model)
    return last is not None and last.decision is Decision.PROMOTE and last.time_s < demotion.time_s


def _kept(before: Sequence[NotedDemotion], in_force: dict[str, Promotion], database: str) -> Iterator[NotedDemotion]:
    """Yield the last demotion of each policy, but for those that were made active afterwards."""
    now = {name: NotedDemotion(last.time_s, name, database, last.by, last.reason[:MOST_REASON])
           for name, last in in_force.items() if last.decision is Decision.DEMOTE}
    promoted = {name: last.time_s for name, last in in_force.items() if last.decision is Decision.PROMOTE}
    kept = {demotion.model: demotion for demotion in before
            if promoted.get(demotion.model, float("-inf")) < demotion.time_s}
    yield from (kept | now).values()

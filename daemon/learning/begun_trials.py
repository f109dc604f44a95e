"""The trials that nights began, noted beside the models: a database that is restored from a backup forgets some.

A night notes a trial before it records its first look in the database. What the note has and the database has not is
recorded there anew as over: a chance that was taken is never taken again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from ...storage.ledger import Ledger
from ...storage.promotions import Decision, Promotion, states
from ..agents.checkpoint import write
from .models import ModelError
from .trials import TRIED, YEAR_S, trials

BEGUN = ".training/trials.json"
"""Beside the models: (name, beginning) of each trial of a year."""
_BEGUN = TypeAdapter(tuple[tuple[str, FiniteFloat], ...])
FORGOTTEN = ("its trial was begun before the database was restored from a backup or replaced, which forgot it: it is "
             "over and counts among the trials of its year")


def noted(models: Path) -> tuple[tuple[str, float], ...]:
    """Return the trials that are noted beside the models; ModelError where the note is damaged."""
    try:
        return _BEGUN.validate_json((models / BEGUN).read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError) as error:
        raise ModelError(f"{models / BEGUN}: which trials have begun cannot be read ({type(error).__name__}); restore "
                         "the file, or remove it where the database was never restored from a backup") from error


def note(models: Path, begun: Iterable[tuple[str, float]], now_s: float) -> None:
    """Add trials to those that are noted beside the models, and drop those that are older than a year."""
    before = noted(models)
    kept = tuple(one for one in dict.fromkeys((*before, *begun)) if one[1] >= now_s - YEAR_S)
    if kept != before:
        (models / BEGUN).parent.mkdir(parents=True, exist_ok=True)
        write(models / BEGUN, _BEGUN.dump_json(kept))


def recall(ledger: Ledger, models: Path, now_s: float) -> str:
    """Record the trials that the database has forgotten as over, note those that it has; return what was forgotten.

    A policy that is active stays active. ModelError where the note is damaged.
    """
    decisions = ledger.decisions()
    known = {(one.name, one.since_s) for one in trials(decisions, now_s)}
    forgotten = [one for one in noted(models) if one not in known and one[1] >= now_s - YEAR_S]
    in_force = states(decisions)
    for name, since_s in forgotten:
        last = in_force.get(name)
        active = last is not None and last.decision is Decision.PROMOTE
        what = Decision.PROMOTE if active else Decision.REFUSE
        ledger.decide(Promotion(now_s, name, what, "nightly", FORGOTTEN, {TRIED: since_s}))
    note(models, known, now_s)
    if not forgotten:
        return ""
    count = "1 trial" if len(forgotten) == 1 else f"{len(forgotten)} trials"
    return f"the database had forgotten {count} (restored from a backup?), which counts as over"

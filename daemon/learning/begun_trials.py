"""The trials that nights began, noted beside the models: a database that is restored from a backup forgets some.

A trial is noted before its first look is recorded in the database. What the note has and the database has not is
recorded there anew as over: a chance that was taken is never taken again. A shortlist is recorded first, noted next and
looked at last: the next night begins it, or goes on with it, whatever a killed night left of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from ...storage.errors import StoreError
from ...storage.ledger import Ledger
from ...storage.promotions import Decision, Promotion, states
from ...storage.whole_files import write
from ..agents.checkpoint import FURTHEST_S, CheckpointError, plain_content
from .models import ModelError
from .trials import TRIED, YEAR_S, trials

BEGUN = ".training/trials.json"
"""Beside the models: (name, beginning) of each trial of a year."""
LARGEST_BYTES = 1 << 20
"""A year has some fifty trials, of a hundred bytes each."""
T = TypeVar("T")
_Moment = Annotated[float, Field(gt=-FURTHEST_S, lt=FURTHEST_S)]
_BEGUN = TypeAdapter(tuple[tuple[str, _Moment], ...])


def noted(models: Path) -> tuple[tuple[str, float], ...]:
    """Return the trials that are noted beside the models; ModelError where the note is damaged."""
    return read_note(models / BEGUN, _BEGUN, "which trials have begun")


def read_note(path: Path, kind: TypeAdapter[tuple[T, ...]], subject: str,
              otherwise: str = "remove it where the database was never restored from a backup") -> tuple[T, ...]:
    """Return what a note beside the models lists, nothing where there is none; ModelError where it is damaged.

    ``otherwise`` says what to do with a damaged one that cannot be restored.
    """
    try:
        return kind.validate_json(plain_content(path, LARGEST_BYTES))
    except FileNotFoundError:
        return ()
    except (CheckpointError, ValidationError) as error:
        why = str(error).removeprefix(f"{path}: ") if isinstance(error, CheckpointError) else type(error).__name__
        raise ModelError(f"{path}: {subject} cannot be read ({why}); restore the file, or {otherwise}") from error


def note(models: Path, begun: Iterable[tuple[str, float]], now_s: float) -> None:
    """Add trials to those that are noted beside the models, and drop those that are older than a year.

    A clock that is years ahead for one night drops none: the year ends with the newest trial at the latest.
    """
    before = noted(models)
    known = dict.fromkeys((*before, *begun))
    horizon_s = min([now_s, max((since_s for _, since_s in known), default=now_s)]) - YEAR_S
    kept = tuple(trial for trial in known if trial[1] >= horizon_s)
    if kept != before:
        (models / BEGUN).parent.mkdir(parents=True, exist_ok=True)
        _write(models, kept)


@contextmanager
def noted_as_begun(models: Path, begun: Collection[tuple[str, float]], now_s: float) -> Iterator[None]:
    """Note trials before what is recorded of them within; where the database refuses a first look, none was taken.

    Should the database have it all the same, the next night notes it again.
    """
    before = noted(models)
    note(models, begun, now_s)
    try:
        yield
    except StoreError:
        if not set(begun) <= set(before):
            with suppress(OSError):
                _write(models, before)
        raise


def recall(ledger: Ledger, models: Path, now_s: float) -> str:
    """Record the trials that the database has forgotten as over, note those that it has; return what was forgotten.

    A policy that is active stays active, with what it has shown. ModelError where the note is damaged.
    """
    decisions = ledger.decisions()
    known = {(trial.name, trial.since_s) for trial in trials(decisions, now_s)}
    forgotten = [trial for trial in noted(models) if trial not in known and trial[1] >= now_s - YEAR_S]
    in_force = states(decisions)
    for name, since_s in forgotten:
        last, why = in_force.get(name), _forgotten(since_s)
        if last is not None and last.decision is Decision.PROMOTE:
            ledger.decide(replace(last, reason=f"{last.reason} ({why})", figures={**last.figures, TRIED: since_s}))
        else:
            ledger.decide(Promotion(now_s, name, Decision.REFUSE, "nightly", why, {TRIED: since_s}))
    note(models, known, now_s)
    if not forgotten:
        return ""
    count = "1 trial" if len(forgotten) == 1 else f"{len(forgotten)} trials"
    return f"the database had forgotten {count} (restored from a backup?), which counts as over"


def _forgotten(since_s: float) -> str:
    """Return why a trial is over; its beginning keeps two trials of one name apart."""
    began = datetime.fromtimestamp(since_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (f"its trial that began on {began} UTC is over and counts among those of its year: it is noted beside the "
            "models and missing in the database (a backup was restored, or a night ended before it was recorded)")


def _write(models: Path, begun: tuple[tuple[str, float], ...]) -> None:
    write(models / BEGUN, _BEGUN.dump_json(begun))

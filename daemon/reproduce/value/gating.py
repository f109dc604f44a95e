"""Which policies the gate promotes and demotes while a trace goes by, night after night, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ...learning.promotion_criteria import ASSUMED, SHORTLIST, TRIALS
from ...learning.trials import error_of_each
from ...replay.arrays import Floats
from ...replay.workload import Workload
from .deciding import Promoted
from .outcomes import ReplayOutcome, compare, compare_tails

NIGHT_S = 86400.0


def promotions(work: Workload, outcomes: Mapping[str, ReplayOutcome], incumbent: str) -> Iterator[Promoted]:
    """Yield which policy decides from when on, in order of time; nothing while none has earned it.

    A fortnight's shortlist is on trial on what comes after it, each with its share of the error, as in the daemon.
    """
    submit, first = work.submit, float(work.submit[0])
    theirs, deciding = outcomes[incumbent], incumbent
    began = first + ASSUMED.days * NIGHT_S
    listed = _shortlist(submit, outcomes, incumbent, began)
    error = error_of_each(TRIALS) / max(1, len(listed))
    for night in np.arange(began + ASSUMED.days * NIGHT_S, float(submit[-1]), NIGHT_S).tolist():
        earned = [name for name in listed if _earned(submit, outcomes[name], theirs, began, night, error)]
        lost = deciding in listed and compare(*_since(submit, outcomes[deciding], theirs, began), night).above(error)
        wanted = deciding if deciding in listed and not lost else next(iter(earned), incumbent)
        if wanted != deciding:
            deciding = wanted
            yield Promoted(night, wanted)


def _shortlist(submit: Floats, outcomes: Mapping[str, ReplayOutcome], incumbent: str, until_s: float) -> list[str]:
    """Return the policies that did better than the incumbent on the first days, the best first."""
    early = submit < until_s
    jct = {name: float(np.mean((one.end - submit)[early])) for name, one in outcomes.items()}
    better = [name for name in jct if name != incumbent and jct[name] < 0.99 * jct[incumbent]]
    return sorted(better, key=lambda name: jct[name])[:SHORTLIST]


def _since(submit: Floats, ours: ReplayOutcome, theirs: ReplayOutcome, since_s: float) \
        -> tuple[Floats, ReplayOutcome, ReplayOutcome]:
    rows = submit >= since_s
    return submit[rows], _of(ours, rows), _of(theirs, rows)


def _of(one: ReplayOutcome, rows: np.ndarray) -> ReplayOutcome:
    return ReplayOutcome(one.start[rows], one.end[rows], one.wait[rows], one.slowdown[rows], one.joules, one.marks,
                         one.woken)


def _earned(submit: Floats, ours: ReplayOutcome, theirs: ReplayOutcome, since_s: float, until_s: float,
            error: float) -> bool:
    """Tell whether a candidate is surely better by a night, and its longest waits are surely not much longer."""
    seen = _since(submit, ours, theirs, since_s)
    return compare(*seen, until_s).below(error) and compare_tails(*seen, until_s).bounded(error)

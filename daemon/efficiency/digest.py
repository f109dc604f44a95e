"""What a week took and wasted, what changed, the best and the worst of it, and what advice would have saved."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ...storage.energy_queries import RunFilter
from ...storage.run_energy import DAY_S
from ..amounts import total
from ..counterfactual import Counterfactual
from ..pricing import Cost
from .book import EnergyBook
from .rows import EnergyRow, JobRow

MOST_JOBS, MOST_NAMES = 10, 20
LEAST_JOULES = 3.6e6
"""Of a job that is named as a good one: a kilowatt-hour."""
LOOKED_AT = 500
"""Jobs among which the best are looked for, those that took most."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What following a policy's advice would have saved, by replay of the same jobs in the same windows."""

    policy: str
    incumbent: str
    joules: float
    """Negative where it would have cost more."""
    of_joules: float
    """What the incumbent takes in these windows."""
    error_ratio: float | None
    """How far the replay is from what was measured; None where that is not known."""

    @classmethod
    def of(cls, replayed: Counterfactual, incumbent: str, policy: str) -> Saved | None:
        """Return what a policy saved beside the incumbent; None where no window was replayed under both."""
        paired = replayed.paired.get(policy)
        if paired is None or paired.incumbent != incumbent:
            return None
        return cls(policy, incumbent, paired.saved_joules, paired.of_joules, replayed.error_ratio)

    @property
    def certain(self) -> bool:
        """Tell whether it is more than the replay's own error."""
        return self.error_ratio is not None and abs(self.joules) > abs(self.error_ratio) * self.of_joules


@dataclass(frozen=True, slots=True)
class Digest:
    """A span of whole days beside the one before."""

    since_s: float
    until_s: float
    account: str
    """'' is the whole cluster."""
    total: EnergyRow
    before: EnergyRow | None
    """None where nothing was recorded then."""
    classes: tuple[EnergyRow, ...]
    names: tuple[EnergyRow, ...]
    """Accounts of the cluster, or users of an account, the most wasteful first."""
    worst: tuple[JobRow, ...]
    """Of the runs of which a part lies in the span, as are the best; their figures are of whole runs."""
    best: tuple[JobRow, ...]
    """Large jobs that wasted the smallest share."""
    saved: Saved | None
    saved_certain: bool


def digest(book: EnergyBook, since_s: float, until_s: float, account: str = "", saved: Saved | None = None) -> Digest:
    """Return the digest of whole days (UTC), one at least; StoreError when the history cannot be read."""
    since_s = since_s // DAY_S * DAY_S
    until_s = max(until_s // DAY_S * DAY_S, since_s + DAY_S)
    wanted = RunFilter(since_s=since_s, until_s=until_s, account=account)
    before = RunFilter(since_s=since_s - (until_s - since_s), until_s=since_s, account=account)
    names = tuple(row for row in book.by("user" if account else "account", wanted, MOST_NAMES + 1) if row.name)
    overlapping = RunFilter(since_s=since_s, begun_before_s=until_s, account=account)
    worst, _ = book.runs(overlapping, "wasted", MOST_JOBS)
    largest, _ = book.runs(overlapping, "energy", LOOKED_AT)
    good = sorted((row for row in largest if row.energy_joules >= LEAST_JOULES and (row.measured_share or 0.0) >= 0.9),
                  key=lambda row: row.wasted_joules / row.energy_joules)
    return Digest(since_s, until_s, account, _total(book, wanted) or EnergyRow("", 0, 0, {}, 0, None, None, None),
                  _total(book, before), book.by("class", wanted), names[:MOST_NAMES],
                  tuple(row for row in worst if row.wasted_joules > 0), tuple(good[:5]),
                  saved, saved is not None and saved.certain)


def _total(book: EnergyBook, wanted: RunFilter) -> EnergyRow | None:
    """Return the sum over all partitions: every joule is in exactly one."""
    rows = book.by("partition", wanted)
    if not rows:
        return None
    held = sum(row.gpu_seconds for row in rows)
    classes = {name: sum(row.classes.get(name, 0.0) for row in rows) for row in rows for name in row.classes}
    summed = total([asdict(row) for row in rows])
    measured = [(row.activity, row.gpu_seconds * (row.measured_share or 0.0)) for row in rows]
    known = sum(weight for activity, weight in measured if activity is not None)
    activity = sum((activity or 0.0) * weight for activity, weight in measured if activity is not None)
    return EnergyRow("", sum(row.energy_joules for row in rows), sum(row.wasted_joules for row in rows), classes, held,
                     activity / known if known else None, known / held if held else None,
                     None if summed is None else Cost(**summed))

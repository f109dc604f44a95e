"""How the site's own scheduler ordered and backfilled at moments of the past, as far as it is recorded."""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..storage.charges import Charge
from ..storage.reading import HistoryReader
from ..storage.scheduler_configuration import SchedulerConfiguration
from .replay.cluster import ClusterError
from .replay.priority.billing import charged_of_runs
from .replay.priority.site import Scheduling
from .settings.sections import Sections

log = logging.getLogger(__name__)

Configured = TypeVar("Configured", bound=Sections)

HALF_LIVES = 10
"""The half-lives for which usage is looked back at: a thousandth of what is older still counts."""


def with_recorded_scheduler(settings: Configured, history: HistoryReader) -> Configured:
    """Return settings with the scheduler's last recorded incumbent and power-down, where none is configured."""
    last = history.scheduler_configuration()
    if last is None:
        return settings
    return settings.with_scheduler_lines(dict(last.rules.site.priority), last.rules.site.power_down_s)


def recorded_scheduling(history: HistoryReader, at_s: float | None = None) -> Scheduling:
    """Return the recorded weights, backfill and shares as of a moment, now by default, and what users had used by then.

    Where nothing is recorded it is the default of :class:`Scheduling`. ClusterError names a setting that is
    no number.
    """
    then = history.scheduler_configuration(at_s)
    if then is None:
        return Scheduling()
    scheduling = _scheduling_of(then)
    if at_s is None or not scheduling.priority.fair_share:
        return scheduling
    usage = used(history.charges(_looks_back_to(scheduling, at_s), at_s), at_s, scheduling)
    return replace(scheduling, usage=usage, used_until_s=at_s)


def _scheduling_of(configuration: SchedulerConfiguration) -> Scheduling:
    try:
        return Scheduling.of(configuration.rules, configuration.partitions)
    except ValueError as error:
        raise ClusterError(f"the recorded settings of the scheduler: {error}") from error


def _looks_back_to(scheduling: Scheduling, at_s: float) -> float:
    half_life_s = scheduling.priority.half_life_s
    return max(0.0, at_s - HALF_LIVES * half_life_s) if half_life_s > 0 else 0.0


@dataclass(frozen=True)
class SchedulingHistory:
    """What ``recorded_scheduling`` returns for any moment of a part of the past, read once."""

    since_s: tuple[float, ...]
    """From when on each of ``configured`` held, ascending."""
    configured: tuple[Scheduling, ...]
    runs: ChargedRuns

    @classmethod
    def of(cls, history: HistoryReader, since_s: float, until_s: float) -> SchedulingHistory:
        """Return how a scheduler decided in [since, until); a later setting that is no number changes nothing.

        ClusterError names such a setting as of ``since_s``.
        """
        first = history.scheduler_configuration(since_s)
        configured = [(since_s, Scheduling() if first is None else _scheduling_of(first))]
        for time_s, changed in history.scheduler_changes(since_s, until_s):
            try:
                configured.append((time_s, _scheduling_of(changed)))
            except ClusterError as error:
                log.warning("a recorded configuration of the scheduler is not used",
                            extra={"time_s": time_s, "error": str(error)})
        sharing = [scheduling for _, scheduling in configured if scheduling.priority.fair_share]
        charges = history.charges(min(_looks_back_to(scheduling, since_s) for scheduling in sharing),
                                  until_s) if sharing else []
        times_s, schedulings = zip(*configured, strict=True)
        return cls(times_s, schedulings, ChargedRuns.of(charges))

    def at(self, at_s: float) -> Scheduling:
        """Return how the scheduler was configured at a moment, and what users had used by then."""
        scheduling = self.configured[max(0, bisect_right(self.since_s, at_s) - 1)]
        if not scheduling.priority.fair_share:
            return scheduling
        runs = self.runs.within(_looks_back_to(scheduling, at_s), at_s)
        return replace(scheduling, usage=runs.used(at_s, scheduling), used_until_s=at_s)


@dataclass(frozen=True)
class ChargedRuns:
    """Runs as arrays: months of them take little memory, for what many held alike is there once."""

    kinds: tuple[Charge, ...]
    """Who held what, without times."""
    kind: NDArray[np.int64]
    """[run] row of ``kinds``."""
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    """Infinite while it runs."""

    @classmethod
    def of(cls, charges: Sequence[Charge]) -> ChargedRuns:
        """Return the runs of these charges."""
        rows = dict[Charge, int]()
        kind = [rows.setdefault(charge._replace(start_s=0.0, end_s=None), len(rows)) for charge in charges]
        ends = [math.inf if charge.end_s is None else charge.end_s for charge in charges]
        return cls(tuple(rows), np.array(kind, np.int64), np.array([charge.start_s for charge in charges], np.float64),
                   np.array(ends, np.float64))

    def within(self, since_s: float, until_s: float) -> ChargedRuns:
        """Return the runs that overlap [since, until)."""
        rows = np.flatnonzero((self.start_s < until_s) & (self.end_s > since_s))
        return replace(self, kind=self.kind[rows], start_s=self.start_s[rows], end_s=self.end_s[rows])

    def used(self, at_s: float, scheduling: Scheduling) -> dict[tuple[str, str], float]:
        """Return decayed seconds of what was charged, by account and user; a half-life of 0 is no decay."""
        half_life_s = scheduling.priority.half_life_s
        rate = math.log(2) / half_life_s if half_life_s > 0 else 0.0
        older, younger = at_s - self.start_s, np.maximum(0.0, at_s - self.end_s)
        seconds = (np.exp(-rate * younger) - np.exp(-rate * older)) / rate if rate else older - younger
        counted = older > younger
        sums = np.bincount(self.kind[counted], seconds[counted], len(self.kinds))
        total: dict[tuple[str, str], float] = defaultdict(float)
        held = charged_of_runs(scheduling, self.kinds)
        for row in np.unique(self.kind[counted]).tolist():
            kind = self.kinds[row]
            total[kind.account, kind.user] += held[row] * scheduling.usage_factor.get(kind.qos, 1.0) * sums[row]
        return {key: float(amount) for key, amount in total.items()}


def used(charges: Sequence[Charge], at_s: float, scheduling: Scheduling) -> dict[tuple[str, str], float]:
    """Return decayed seconds of what was charged, by account and user; a half-life of 0 is usage that never decays."""
    return ChargedRuns.of(charges).used(at_s, scheduling)

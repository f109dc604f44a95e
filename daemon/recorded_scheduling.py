"""How the site's own scheduler ordered and backfilled at a moment of the past, as far as it is recorded."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from ..storage.charges import Charge
from ..storage.reading import HistoryReader
from .replay.cluster import ClusterError
from .replay.priority.billing import charged_of_runs
from .replay.priority.site import Scheduling
from .settings.sections import Sections

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
    try:
        scheduling = Scheduling.of(then.rules, then.partitions)
    except ValueError as error:
        raise ClusterError(f"the recorded settings of the scheduler: {error}") from error
    half_life_s = scheduling.priority.half_life_s
    if at_s is None or not scheduling.priority.fair_share:
        return scheduling
    since_s = max(0.0, at_s - HALF_LIVES * half_life_s) if half_life_s > 0 else 0.0
    return replace(scheduling, usage=used(history.charges(since_s, at_s), at_s, scheduling), used_until_s=at_s)


def used(charges: Sequence[Charge], at_s: float, scheduling: Scheduling) -> dict[tuple[str, str], float]:
    """Return decayed seconds of what was charged, by account and user; a half-life of 0 is usage that never decays."""
    total: dict[tuple[str, str], float] = defaultdict(float)
    half_life_s = scheduling.priority.half_life_s
    rate = math.log(2) / half_life_s if half_life_s > 0 else 0.0
    for charge, held in zip(charges, charged_of_runs(scheduling, charges).tolist(), strict=True):
        older, younger = at_s - charge.start_s, max(0.0, at_s - (at_s if charge.end_s is None else charge.end_s))
        if older <= younger:
            continue
        seconds = (math.exp(-rate * younger) - math.exp(-rate * older)) / rate if rate else older - younger
        total[charge.account, charge.user] += held * scheduling.usage_factor.get(charge.qos, 1.0) * seconds
    return dict(total)

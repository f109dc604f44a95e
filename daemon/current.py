"""What of all that is known may still be acted upon: advice on an old view is withdrawn; and why there is none.

Code that shows advice, as metrics, rows or words, asks here at that moment; so advice is also withdrawn when the cycle
that would renew it hangs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..storage.records import SchedulerSnapshot
from .advice.advisor import Advice
from .advice.recommender import Recommendations
from .config import Settings
from .cycles import CycleHealth
from .degraded import HealthFacts, believed, unread
from .facts import Known

ROUNDS = 3.0
"""Advice that was due so many times and never came is old, however fresh the scheduler's answer is."""


@dataclass(frozen=True, slots=True)
class Ages:
    """How old what advice rests on may be, in seconds."""

    scheduler_s: float = float("inf")
    advice_s: float = 0.0
    """Time between two rounds of advice,"""
    recommended_s: Mapping[str, float] = field(default_factory=dict)
    """and of each subject beyond starts."""

    def most(self, every_s: float) -> float:
        """Return the greatest age of data that a statement at this distance may rest on."""
        return max(self.scheduler_s, ROUNDS * every_s)


def ages(settings: Settings, speed: float, beats: Mapping[str, CycleHealth]) -> Ages:
    """Return how old what advice rests on may be, on a clock that runs ``speed`` times as fast as ours."""
    periods = {name: cycle.period_s * speed for name, cycle in beats.items()}
    return Ages(settings.waste.scheduler_max_age, periods["advise"], periods)


def may_advise(snapshot: SchedulerSnapshot, now_s: float, settings: Settings) -> bool:
    """Tell whether there may be advice on what was seen of the cluster."""
    return believed(snapshot.time_s, now_s, settings.waste.scheduler_max_age)


def unadvised(seen: HealthFacts, advice: Advice | None, *, compiling: bool) -> str:
    """Return why there is no advice, in words; '' when there is."""
    if advice is not None and not advice.withdrawn:
        return ""  # of two schedulers the other may be silent: that is degraded, and costs only its own
    silent = unread(seen)
    if silent:
        return "no advice: " + "; ".join(silence.words for silence in silent)
    if compiling:
        return "no advice yet: policies are being compiled"
    return "no advice yet: the first round has not ended" if advice is None else "no advice: the last is too old"


def current(known: Known, now_s: float, ages: Ages) -> Known:
    """Return what is known without advice on what is too old to act upon."""
    snapshot_s = known.snapshot.time_s if known.snapshot else None
    seen = believed(snapshot_s, now_s, ages.scheduler_s)

    def stands(statement: Advice | Recommendations, every_s: float) -> bool:
        rests_s = statement.snapshot_s if statement.snapshot_s is not None else snapshot_s
        return seen and believed(rests_s, now_s, ages.most(every_s))

    advice = known.advice
    if advice is not None and not stands(advice, ages.advice_s):
        advice = replace(advice, recommendations=(), power_down={}, withdrawn=True)
    recommended = {name: recommendation if stands(recommendation, ages.recommended_s.get(name, 0.0))
                   else replace(recommendation, rows=(), metrics={}, withdrawn=True)
                   for name, recommendation in known.recommended.items()}
    return replace(known, advice=advice, recommended=recommended, old=not seen)

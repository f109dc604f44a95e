"""How policies did against the incumbent, day by day, in replays of closed windows; and when an agent loses its place.

A day's regret is the time that jobs spent in the system under the policy over that under the incumbent, less one: by
Little's law that is the change in mean completion time. An agent is demoted by evidence of the same kind as it was
promoted by (``evidence.py``), that it has become worse on some day and stayed so: the bet is spread over all the days
of a year on which that may have begun. Half of the bet is that days lie above those of the incumbent, whatever their
spread; such a bet can at best double in a day. The other half knows how the agent's own days were before, on trial and
as the active one, and bets that it has lost what it was better by: that takes a third of the days, and holds as far as
days to come spread like those that were. One that is still better is demoted with a probability of ``ERROR`` in a year
at most; one that is just as good is demoted more often (docs/promotion.md says how often), which costs nobody anything.
A row of bad days is shown, and decides nothing: chance brings three of them every few weeks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ...storage.promotions import Decision, Promotion, ShadowResult
from .evidence import Floats, log_evidence_since
from .promotion_criteria import ERROR

DAY_S = 86400.0
WORSE = 0.02
"""Regret from which a day is bad; one of 0 or less is good, and what lies between is neither."""
DAYS_A_YEAR = 365
LEAST_DAYS, GAP_DAYS = 14, 7
"""An agent's own days are known from so many on; the last week is not among them, since it may be worse already."""
KEPT, ENOUGH = 0.8, -0.08
"""An agent that keeps this share of what it was better by has not become worse, nor has one still 8 % better."""
BET, FARTHEST = 2.0, 3.0
"""A change by so many standard deviations is bet on; what a day says is cut off beyond."""
WATCHED = 0.5
"""Share of a day that must have been replayed before it is judged."""


@dataclass(frozen=True, slots=True)
class Regret:
    """How a policy did on the days that have closed."""

    day_s: float
    """Beginning of the last judged day, UTC."""
    ratio: float
    """Its regret: positive is worse than the incumbent."""
    streak: int
    """Bad days in a row, up to that one."""
    evidence: float = 0.0
    """Logarithm of the evidence that it has become worse than the incumbent, all judged days considered."""


def regrets(standings: Iterable[ShadowResult], now_s: float, since_s: float = float("-inf")) -> dict[str, Regret]:
    """Return how each policy stands; days that have not closed, or were hardly watched, are left out.

    Only days from ``since_s`` on are evidence; those before tell what to expect of them.
    """
    days: dict[tuple[str, float], list[ShadowResult]] = {}
    for standing in standings:
        days.setdefault((standing.policy, standing.since_s // DAY_S * DAY_S), []).append(standing)
    by_policy: dict[str, Regret] = {}
    ratios: dict[str, list[float]] = {}
    before: Counter[str] = Counter()
    for (policy, day_s), windows in sorted(days.items()):
        ratio = _ratio(windows)
        if ratio is not None and day_s + DAY_S <= now_s:
            streak = by_policy[policy].streak if policy in by_policy else 0
            ratios.setdefault(policy, []).append(ratio)
            before[policy] += day_s < since_s
            streak = streak + 1 if ratio > WORSE else 0 if ratio <= 0 else streak
            by_policy[policy] = Regret(day_s, ratio, streak, become_worse(ratios[policy], before[policy]))
    return by_policy


def measured_against(incumbent: str, standings: Iterable[ShadowResult]) -> tuple[ShadowResult, ...]:
    """Return the standings against one incumbent: those against another are no evidence for or against anybody."""
    return tuple(standing for standing in standings if standing.incumbent == incumbent)


def become_worse(ratios: Iterable[float], before: int = 0) -> float:
    """Return the logarithm of the evidence that regrets of days, in order, are worse from some day on.

    The first ``before`` regrets are no evidence.
    """
    logs = np.log(np.maximum(1e-6, 1.0 + np.fromiter(ratios, np.float64)))
    if len(logs) <= before:
        return 0.0
    since = np.append(log_evidence_since(-logs[before:]), _lost(logs, before))
    return float(np.logaddexp.reduce(since) - np.log(2 * DAYS_A_YEAR))


def _lost(logs: Floats, before: int) -> Floats:
    """Return the logarithm of the evidence, from each day on, that it has lost what it was better by.

    A day is measured by the mean and the spread of all that lie a week and more before it. One that has lost much,
    and is no worse than the incumbent since then, keeps its place.
    """
    days = np.arange(max(before, GAP_DAYS + LEAST_DAYS), len(logs))
    known = days - GAP_DAYS
    mean, square = np.cumsum(logs)[known - 1] / known, np.cumsum(logs**2)[known - 1] / known
    spread = np.sqrt(np.maximum(0.0, square - mean**2) * (known + 1) / (known - 1))
    far = np.clip((logs[days] - np.maximum(ENOUGH, KEPT * mean)) / np.maximum(spread, WORSE), -FARTHEST, FARTHEST)
    won, lost = (np.cumsum(daily[::-1])[::-1] for daily in (BET * far - BET**2 / 2, logs[days]))
    return np.asarray(np.where(lost > 0, won, -np.inf), np.float64)


def _ratio(windows: Iterable[ShadowResult]) -> float | None:
    """Return the regret of one day; None when too little of it was replayed, or nobody was there."""
    windows = list(windows)
    incumbent_s = sum(window.incumbent_system_s for window in windows)
    if incumbent_s <= 0 or sum(window.until_s - window.since_s for window in windows) < WATCHED * DAY_S:
        return None
    return sum(window.system_s for window in windows) / incumbent_s - 1


def demotion(model: str, by_policy: Mapping[str, Regret], now_s: float) -> Promotion | None:
    """Return the decision that ends an agent's time as the active one; None while it keeps its place."""
    regret = by_policy.get(model)
    if regret is None or regret.evidence < -np.log(ERROR):
        return None
    figures = {"regret_ratio": regret.ratio, "streak": regret.streak, "evidence": regret.evidence}
    return Promotion(now_s, model, Decision.DEMOTE, "daemon",
                     f"it has become worse than the scheduler's own policy (evidence {np.exp(regret.evidence):.3g}, "
                     f"{1 / ERROR:.0f} needed): on the last day jobs spent {abs(regret.ratio):.1%} "
                     f"{'more' if regret.ratio > 0 else 'less'} time in the system", figures)

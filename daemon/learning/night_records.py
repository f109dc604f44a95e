"""What a night may record: what others decided since it began stands, and soon after a demotion nothing is promoted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...storage.ledger import Ledger
from ...storage.promotions import Decision, Promotion, active_model, states
from .training_scheduler import TrainingTask
from .trials import TRIED

DAY_S = 86400.0
COOLING_S = 7 * DAY_S
"""The time after a demotion in which only an operator promotes: the next agent learned from the same days."""


def recheck_active(ledger: Ledger, task: TrainingTask) -> str:
    """Move an active policy to the shadow that beat another incumbent than the site runs now; return what came of it.

    What an operator made active stays, and is not reported.
    """
    in_force = states(ledger.decisions())
    last = in_force.get(active_model(in_force) or "")
    beaten, now = last and last.figures.get("incumbent"), task.incumbent
    if last is None or last.by != "nightly" or not beaten:
        return ""
    if beaten == now:
        return f"{last.model} was shown to be better than {now}, which the site still runs"
    why = f"it was shown to be better than {beaten}, and the site runs {now} now"
    taken = record_decision(ledger, Promotion(task.now_s, last.model, Decision.SHADOW, "nightly", why))
    return f"{last.model} is active no more: {why}" if taken.by == "nightly" else ""


def record_decision(ledger: Ledger, taken: Promotion) -> Promotion:
    """Record a night's decision and return the one in force: what others decided since the night began stands."""
    last = states(ledger.decisions()).get(taken.model)
    if last is not None and last.by != "nightly" and last.time_s > taken.time_s:
        if TRIED in taken.figures and taken.figures[TRIED] != last.figures.get(TRIED):  # a chance all the same
            ledger.decide(replace(last, reason=f"{last.reason} (a night judged it meanwhile, and its trial counts)",
                                  figures={**last.figures, TRIED: taken.figures[TRIED]}))
        return last
    ledger.decide(taken)
    return taken


def record_together(ledger: Ledger, taken: Iterable[Promotion]) -> None:
    """Record a night's decisions, all or none, except on policies that others decided on since the night began."""
    in_force = states(ledger.decisions())
    ledger.decide(*(decision for decision in taken if (last := in_force.get(decision.model)) is None
                    or last.by == "nightly" or last.time_s <= decision.time_s))


def too_soon(decisions: Iterable[Promotion], now_s: float) -> str:
    """Return why nothing should be promoted by itself now; '' when nothing speaks against it."""
    last = max((decision.time_s for decision in decisions
                if decision.decision is Decision.DEMOTE and decision.by == "daemon"), default=float("-inf"))
    if abs(now_s - last) < COOLING_S:  # a night is as old as its beginning, and the demotion may have come since
        return (f"an agent was demoted {max(0.0, now_s - last) / DAY_S:.1f} days ago; {COOLING_S / DAY_S:.0f} must "
                "pass")
    return ""

"""Policies that may come to advise, agents and heuristics together: what each is now, how good it was, and why.

Read from the record of decisions alone, so that the command line, the page and the metrics say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...storage.promotions import Decision, Promotion, states
from .trials import COMBINATIONS, LISTED, trials

ACTIVE, ON_TRIAL, CANDIDATE, DEMOTED, UNFIT = "active", "on trial", "candidate", "demoted", "not a candidate"
STATES = (ACTIVE, ON_TRIAL, CANDIDATE, DEMOTED, UNFIT)
MOST_AGENTS = 20
"""Agents that are shown, those decided on last, beside the active one and those on trial."""
NEVER = "not tried yet: heuristics are tried on the nights on which an agent is trained"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent or a combination of heuristics, and what it is to us."""

    name: str
    state: str
    """One of ``STATES``."""
    reason: str
    decided_s: float | None = None
    """None where nothing was decided on it."""
    by: str = ""
    estimate: float | None = None
    """Mean JCT over the incumbent's on held-out history when it was judged last; None where it never was."""
    low: float | None = None
    """Bounds of the 95 % interval; None where there is none yet."""
    high: float | None = None

    @property
    def learned(self) -> bool:
        """Tell whether it is an agent."""
        return "@" in self.name


def candidates(decisions: Sequence[Promotion], now_s: float) -> tuple[Candidate, ...]:
    """Return all candidates, given all decisions in order of time: the active one first, then by state and name."""
    in_force = states(decisions)
    running = {one.name for one in trials(decisions, now_s) if not one.over}
    last = next((one for one in reversed(decisions) if isinstance(one.figures.get(LISTED), Mapping)), None)
    found = {name: _of(decision, name in running) for name, decision in in_force.items()}
    for name in COMBINATIONS:
        found[name] = _as_listed(found.get(name) or Candidate(name, CANDIDATE, NEVER), last)
    judged = {one.model: one for one in decisions if one.figures.get("against")}
    kept = (replace(one, **_estimate(judged[one.name])) if one.name in judged else one
            for one in _few(found.values()))
    return tuple(sorted(kept, key=lambda one: (STATES.index(one.state), one.name)))


def _of(decision: Promotion, running: bool) -> Candidate:
    """Return what the decision in force makes of one."""
    state = {Decision.PROMOTE: ACTIVE, Decision.DEMOTE: DEMOTED, Decision.REFUSE: UNFIT}.get(
        decision.decision, ON_TRIAL if running else CANDIDATE)
    return Candidate(decision.model, state, decision.reason, decision.time_s, decision.by)


def _as_listed(one: Candidate, last: Promotion | None) -> Candidate:
    """Return a heuristic as the last night found it, where nothing that was decided since or is in force says more."""
    found = {} if last is None else last.figures[LISTED].get(one.name)
    if last is None or not isinstance(found, Mapping) or one.state in (ACTIVE, ON_TRIAL):
        return one
    listed_later = one.decided_s is None or one.decided_s < last.time_s
    if not found.get("fit", True):
        return replace(one, state=UNFIT, reason=str(found.get("why", "")))
    if listed_later and one.state in (CANDIDATE, UNFIT):
        return replace(one, state=CANDIDATE, reason=str(found.get("why") or one.reason))
    return one


def _estimate(decision: Promotion) -> dict[str, Any]:
    """Return the mean JCT over the incumbent's with its interval, as far as a decision tells it."""
    against = decision.figures["against"].get(decision.figures.get("incumbent", "")) or {}
    numbers = {name: against.get(name) for name in ("estimate", "low", "high")}
    return {name: float(value) if isinstance(value, int | float) else None for name, value in numbers.items()}


def _few(found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield all heuristics, the agents that matter, and of the others those decided on last."""
    rest = []
    for one in found:
        if one.learned and one.state not in (ACTIVE, ON_TRIAL):
            rest.append(one)
        else:
            yield one
    yield from sorted(rest, key=lambda one: -(one.decided_s or 0.0))[:MOST_AGENTS]

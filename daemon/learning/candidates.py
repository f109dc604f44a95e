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
        """Tell whether the candidate is an agent."""
        return "@" in self.name


def candidates(decisions: Sequence[Promotion], now_s: float) -> tuple[Candidate, ...]:
    """Return all candidates, given all decisions in order of time: the active one first, then by state and name."""
    in_force = states(decisions)
    running = {trial.name for trial in trials(decisions, now_s) if not trial.over}
    last = next((decision for decision in reversed(decisions)
                 if isinstance(decision.figures.get(LISTED), Mapping)), None)
    by_name = {name: _of(decision, name in running) for name, decision in in_force.items()}
    for name in COMBINATIONS:
        by_name[name] = _as_listed(by_name.get(name) or Candidate(name, CANDIDATE, NEVER), last)
    judged = {decision.model: decision for decision in decisions if decision.figures.get("against")}
    kept = (replace(candidate, **_estimate(judged[candidate.name])) if candidate.name in judged else candidate
            for candidate in _few(by_name.values()))
    return tuple(sorted(kept, key=lambda candidate: (STATES.index(candidate.state), candidate.name)))


def _of(decision: Promotion, running: bool) -> Candidate:
    """Return the candidate that the decision in force makes of a policy."""
    state = {Decision.PROMOTE: ACTIVE, Decision.DEMOTE: DEMOTED, Decision.REFUSE: UNFIT}.get(
        decision.decision, ON_TRIAL if running else CANDIDATE)
    return Candidate(decision.model, state, decision.reason, decision.time_s, decision.by)


def _as_listed(candidate: Candidate, last: Promotion | None) -> Candidate:
    """Return a heuristic as the last night found it, where nothing that was decided since or is in force says more."""
    entry = {} if last is None else last.figures[LISTED].get(candidate.name)
    if last is None or not isinstance(entry, Mapping) or candidate.state in (ACTIVE, ON_TRIAL):
        return candidate
    listed_later = candidate.decided_s is None or candidate.decided_s < last.time_s
    if not entry.get("fit", True):
        return replace(candidate, state=UNFIT, reason=str(entry.get("why", "")))
    if listed_later and candidate.state in (CANDIDATE, UNFIT):
        return replace(candidate, state=CANDIDATE, reason=str(entry.get("why") or candidate.reason))
    return candidate


def _estimate(decision: Promotion) -> dict[str, Any]:
    """Return the mean JCT over the incumbent's with its interval, as far as a decision tells it."""
    against = decision.figures["against"].get(decision.figures.get("incumbent", "")) or {}
    numbers = {name: against.get(name) for name in ("estimate", "low", "high")}
    return {name: float(value) if isinstance(value, int | float) else None for name, value in numbers.items()}


def _few(all_candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield all heuristics, the agents that are active or on trial, and the other agents that were decided on last."""
    other_agents = []
    for candidate in all_candidates:
        if candidate.learned and candidate.state not in (ACTIVE, ON_TRIAL):
            other_agents.append(candidate)
        else:
            yield candidate
    yield from sorted(other_agents, key=lambda candidate: -(candidate.decided_s or 0.0))[:MOST_AGENTS]

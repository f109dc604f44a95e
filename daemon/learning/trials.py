"""Policies on trial: at most one agent of a kind and one shortlist of heuristics at a time, a few of each in a year.

Every trial is a chance to be wrong. A new agent each night would be 365 of them; so one is tried for weeks, while those
that are trained meanwhile wait, and the error that a year is allowed is shared out among the trials that it can hold.

A policy that orders by time limits is no candidate where these tell nothing, or too much: ``unfit`` says why, for
the code that lists candidates, tries them, or holds agents to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...storage.promotions import Decision, Promotion, states
from ..agents.kinds import FAILURES, TraceWindow
from ..policies import named
from ..policies.limits import unfit
from ..replay.outcome import times
from ..settings.training import TRIAL_S, WARM_UP_S
from .pairs import Exam
from .promotion_criteria import ERROR, SHORTLIST, TRIALS


def error_of_each(trials: int, error: float = ERROR) -> float:
    """Return the error of each of so many trials that half of a year's is spent on.

    One half is for learned agents, the other for heuristics; by Bonferroni their sum is never more than ``error``.
    """
    return error / (2 * max(1, trials))


YEAR_S = 365 * 86400.0
ORDERS = ("sjf-prediction", "sjf-limit", "qssf", "wfp3", "limit-aged", "fifo")
PLACEMENTS = ("best-fit+easy", "first-fit+easy")
COMBINATIONS = tuple(f"{order}+{placement}" for order in ORDERS for placement in PLACEMENTS)
"""What is looked at on earlier history, to choose which are tried."""
PROMISING = 0.99
"""A heuristic is tried where its mean JCT on earlier history is below so much of the incumbent's."""
LISTED = "candidates"
"""Figure of a decision: what was found that night of each combination of heuristics."""
TRIED = "tried_since_s"
"""Figure of a decision: from when on the evidence of its trial counts."""
WEIGHTS = "weights"
"""Figure of a decision: the digest of the weights that were judged."""
JUDGED = "judged_by_hand"
"""Figure of a decision: out of how many agents of trainings by hand one became active for what it has shown."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial, as the record of decisions tells it."""

    name: str
    since_s: float
    """The time from which evidence counts."""
    over: bool
    """The trial was promoted, refused, has taken as long as a trial may, or begins ahead by a wrong clock."""


def trials(decisions: Iterable[Promotion], now_s: float) -> tuple[Tried, ...]:
    """Return the trials that began within a year, the first one first; of one name all but the last are over."""
    decisions = tuple(decisions)
    in_force, tried = states(decisions), ((decision.model, decision.figures.get(TRIED)) for decision in decisions)
    begun = tuple(dict.fromkeys((name, float(since_s)) for name, since_s in tried
                                if isinstance(since_s, float | int) and since_s >= now_s - YEAR_S))
    last = dict(begun)
    return tuple(Tried(name, since_s, last[name] != since_s or in_force[name].decision is not Decision.SHADOW
                       or abs(now_s - since_s) > TRIAL_S) for name, since_s in begun)


def agent_on_trial(tried: Iterable[Tried], kind: str) -> Tried | None:
    """Return the agent of a kind that is on trial; None when none is."""
    return next((trial for trial in tried if trial.name.startswith(f"{kind}@") and not trial.over), None)


def heuristics_on_trial(tried: Iterable[Tried]) -> tuple[Tried, ...]:
    """Return the heuristics that are on trial."""
    return tuple(trial for trial in tried if "@" not in trial.name and not trial.over)


def needed_since(tried: Sequence[Tried], agent: str, since_s: float) -> float:
    """Return from when on the history is needed: evidence of a trial is never dropped because it is old."""
    running = [*heuristics_on_trial(tried), *filter(None, [agent_on_trial(tried, agent)])]
    return min([since_s, *(trial.since_s - WARM_UP_S for trial in running)])


def begun_together(tried: Iterable[Tried], since_s: float) -> int:
    """Return how many heuristics one shortlist had: those that left it take their share of the error with them."""
    return sum("@" not in trial.name and trial.since_s == since_s for trial in tried)


def shortlists_left(tried: Iterable[Tried]) -> int:
    """Return how many shortlists of heuristics may yet begin."""
    return max(0, TRIALS - len({trial.since_s for trial in tried if "@" not in trial.name}))


def uncounted(decisions: Iterable[Promotion], model: str) -> bool:
    """Tell whether no decision tells what a model has shown, so that its judgement would not count as a chance.

    An operator who made it active all the same has chosen; that decision stays as it is.
    """
    decisions = tuple(decisions)
    last = states(decisions).get(model)
    return (not any(decision.model == model and decision.figures.get("against") for decision in decisions)
            and (last is None or last.decision is not Decision.PROMOTE))


def judged_by_hand(decisions: Iterable[Promotion], now_s: float, cards: Iterable[str] = ()) -> frozenset[str]:
    """Return the agents of trainings by hand that were judged within a year, by decisions and by their ``cards``."""
    decisions = tuple(decisions)
    by_operator = {decision.model for decision in decisions if "@" in decision.model and decision.by == "operator"
                   and decision.figures.get("against") and decision.time_s >= now_s - YEAR_S}
    return frozenset({*by_operator, *cards} - {decision.model for decision in decisions if decision.by == "nightly"})


def spent_by_hand(decisions: Iterable[Promotion], now_s: float) -> int:
    """Return how many of a year's trials trainings by hand took: all out of which one became active by its figures."""
    counts = (decision.figures.get(JUDGED) for decision in decisions if decision.time_s >= now_s - YEAR_S)
    return max((count for count in counts if isinstance(count, int)), default=0)


def exchanged(decisions: Iterable[Promotion], model: str, digest: str) -> str:
    """Return why a trial cannot go on with weights of this digest; '' where they are those that it began with."""
    digests = (decision.figures.get(WEIGHTS) for decision in decisions
               if decision.model == model and TRIED in decision.figures)
    if next(filter(None, digests), digest) == digest:
        return ""
    return "its weights are others than those that its trial began with: each is a chance to be wrong"


def changed(decisions: Iterable[Promotion], trial: tuple[str, float], terms: Mapping[str, object],
            incumbent: str) -> str:
    """Return why the ``trial`` of a name since a time cannot go on by these ``terms``; '' where they are its own.

    The error is left out: a night computes it, and nobody sets it.
    """
    first = next((decision.figures for decision in decisions
                  if (decision.model, decision.figures.get(TRIED)) == trial), {})
    known = first.get("terms")
    before = dict(known) if isinstance(known, Mapping) else {}
    before |= {"incumbent": first["incumbent"]} if first.get("incumbent") else {}
    now = {**terms, "incumbent": incumbent}
    differences = [f"{name} was {value} and is {now[name]}" for name, value in before.items()
                   if name != "error" and name in now and value != now[name]]
    if not differences:
        return ""
    return (f"its trial ends, since the terms of promotion were changed after it began ({', '.join(differences)}): "
            "to look by other terms is another chance to be wrong")


def never_tried(decisions: Iterable[Promotion], model: str) -> str:
    """Return what a night reported of a model of its own that it has not tried; '' of all others."""
    nightly = [decision for decision in decisions if decision.model == model and decision.by == "nightly"]
    return nightly[-1].reason if nightly and not any(TRIED in decision.figures for decision in nightly) else ""


def no_turn(tried: Sequence[Tried], kind: str, by_hand: int = 0) -> str:
    """Return why no further agent of a kind may be tried now; '' when one may.

    The error of a year is shared out among agents of all kinds: another kind brings no error of its own. ``by_hand``
    of its trials were spent on trainings by hand.
    """
    running = agent_on_trial(tried, kind)
    if running is not None:
        return f"{running.name} is on trial, and one of a kind is at a time"
    begun = by_hand + sum("@" in trial.name for trial in tried)
    if begun >= TRIALS:
        return f"{begun} agents were tried within a year, and {TRIALS} may be: each is a chance to be wrong"
    return ""


@dataclass(frozen=True, slots=True)
class Prospect:
    """A combination of heuristics before its trial."""

    name: str
    unfit: str
    """Why it is no candidate; '' when nothing speaks against it."""
    ratio: float | None = None
    """Mean JCT on earlier history over the incumbent's; None where it was not looked at, or jobs never end."""
    why: str = "waits for the end of the trial that others are on"
    """Why it is not tried now."""

    @property
    def promising(self) -> bool:
        """Tell whether the combination is worth a trial."""
        return self.ratio is not None and self.ratio < PROMISING


def fit(windows: Sequence[TraceWindow]) -> tuple[Prospect, ...]:
    """Return all combinations of heuristics with what speaks against them on this history, without any replay."""
    history = [window.workload for window in windows]
    return tuple(Prospect(name, unfit(name, *history)) for name in COMBINATIONS)


def prospects(earlier: Sequence[TraceWindow], incumbent: str) -> tuple[Prospect, ...]:
    """Return all combinations of heuristics with how they did on earlier history, the best first."""
    exam = Exam.of(tuple(earlier))
    incumbent_jct = _jct(incumbent, exam)
    if why := _no_measure(incumbent_jct, incumbent):
        return tuple(replace(prospect, why=why) for prospect in fit(earlier))
    rated = [prospect if prospect.unfit or prospect.name == incumbent else
             _looked_at(prospect, exam, incumbent_jct, incumbent) for prospect in fit(earlier)]
    return tuple(sorted(rated, key=lambda prospect: float("inf") if prospect.ratio is None else prospect.ratio))


def _no_measure(incumbent_jct: float, incumbent: str) -> str:
    """Return why nothing can be compared with the incumbent on earlier history; '' where it can."""
    if not incumbent_jct < float("inf"):
        return f"on earlier history jobs never end under {incumbent}, with which nothing can then be compared"
    return "" if incumbent_jct > 0 else "no job of earlier history counts"


def _looked_at(prospect: Prospect, exam: Exam, incumbent_jct: float, incumbent: str) -> Prospect:
    ratio = _jct(prospect.name, exam) / incumbent_jct
    if not ratio < float("inf"):
        return replace(prospect, why="on earlier history jobs never end under it")
    why = (f"{SHORTLIST} others did better on earlier history" if ratio < PROMISING else
           f"mean JCT on earlier history is {ratio:.3f} of that under {incumbent}, and below {PROMISING} it is tried")
    return replace(prospect, ratio=ratio, why=why)


def shortlist(earlier: Sequence[TraceWindow], incumbent: str, most: int = SHORTLIST) -> tuple[str, ...]:
    """Return the combinations of heuristics that did better than the incumbent on earlier history, the best first."""
    return shortlisted(prospects(earlier, incumbent), most)


def shortlisted(ranking: Sequence[Prospect], most: int = SHORTLIST) -> tuple[str, ...]:
    """Return which of the prospects, the best first, are tried."""
    return tuple(prospect.name for prospect in ranking if prospect.promising)[:most]


def listed(combinations: Iterable[Prospect]) -> dict[str, dict[str, object]]:
    """Return what was found of combinations of heuristics as a decision's figures may hold it."""
    return {prospect.name: {"fit": not prospect.unfit, "why": prospect.unfit or prospect.why}
            for prospect in combinations}


def _jct(name: str, exam: Exam) -> float:
    """Return the summed completion time of the jobs that count; infinite where some do not end."""
    total = 0.0
    for window, counted in zip(exam.windows, exam.counted, strict=True):
        try:
            job_times = times(window.replayed(named(name)))
        except FAILURES:
            return float("inf")
        if counted.sum() > counted[job_times.jobs].sum():
            return float("inf")
        total += float(job_times.jct[counted[job_times.jobs]].sum())
    return total

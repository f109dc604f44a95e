"""Whether a candidate has earned to be active: paired replays of held-out history, and what must be true of them.

Everybody replays the same windows. A candidate is compared with the incumbent, which really decided, and an agent
also with the best of the heuristics: it must beat the one that an operator would have picked. History is cut into
blocks that share no queue (``pairs.py``); what pairs of blocks prove, at one look and at many, is in ``evidence.py``.
What chance does (``random-feasible``) and what knowing true run times would (``sjf-oracle``) stand beside every table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import NoneType

import numpy as np

from ...storage.promotions import Decision
from ...storage.records import ModelCard
from ..agents.kinds import FAILURES, TraceWindow
from ..policies import named
from ..policies.limits import unfit
from ..replay.engine import Policy
from ..replay.power import joules
from ..simulator_error import Fidelity
from ..sweep import ALWAYS
from .evidence import Comparison
from .finite import not_finite
from .pairs import POWER_DOWN_S, Exam, HeldOutRun, Pair, mean, p99, replayed
from .promotion_criteria import ASSUMED, DOWN, ON, UTILIZATION, PromotionCriteria
from .verdict import PolicyFigures, Verdict, not_better, unbounded, why

Tell = Callable[[float, float], object]
"""Hears how many of how many replays are done."""
_HEARS: ContextVar[Tell] = ContextVar("hears", default=lambda done, total: None)


def tell(done: int, total: int) -> None:
    """Tell the listener, if there is one, how many of how many replays are done."""
    _HEARS.get()(done, total)


@contextmanager
def heard(by: Tell) -> Iterator[None]:
    """Let somebody hear how far the judgings within come."""
    before = _HEARS.set(by)
    try:
        yield
    finally:
        _HEARS.reset(before)


HEURISTICS = ("sjf-prediction+best-fit+easy", "sjf-limit+best-fit+easy", "qssf+best-fit+easy", "wfp3+best-fit+easy",
              "limit-aged+best-fit+easy", "fifo+best-fit+easy")
"""What an operator could make active without any training."""
SELDOM = 0.5
"""A group with jobs in less than this share of the blocks would take years to be sure of."""


def judge(candidate: Policy, incumbent: str, heuristics: Sequence[str], windows: Sequence[TraceWindow], *,
          fidelity: Fidelity | None = None, foreign: bool = False, terms: PromotionCriteria = ASSUMED,
          seed: int = 0) -> Verdict:
    """Replay held-out windows under everybody and return the verdict; whatever a replay raises becomes its reason.

    Beside ``heuristics``, where there are any, stand chance and shortest run first. Of them only those are replayed
    that are candidates on this history: nobody has to beat an oracle.
    ``windows`` are in order of time and untouched by training; ``fidelity`` is needed where they are the site's own.
    ``foreign`` ones are of another history than it was trained on, with a clock of its own.
    """
    card, fault = _looked_at(candidate)
    empty = Verdict(_name(candidate), Decision.REFUSE, (), incumbent, incumbent, seed=seed, fidelity=fidelity,
                    terms=terms, objective=card.objective)
    if fault:
        return replace(empty, reasons=(fault,))
    beside = ALWAYS if heuristics else ()
    heuristics, barred = _fit(heuristics, windows)
    empty = replace(empty, unfit=barred)
    try:
        exam = Exam.of(tuple(windows))
        others = dict.fromkeys((incumbent, *heuristics, *beside))
        trials = _trials([name for name in others if name != empty.model], exam, terms, seed)
    except FAILURES as error:
        return replace(empty, decision=Decision.SHADOW, reasons=(
            f"nothing can be compared: a replay of the history failed: {raised(error)}",))
    try:
        trials = {empty.model: _trial(candidate, exam, terms, seed), **trials}
    except FAILURES as error:
        return replace(empty, reasons=(f"its replay failed: {raised(error)}",))
    if card.speeds and all(window.speeds.flat for window in windows):
        return replace(empty, decision=Decision.SHADOW, reasons=(
            f"it was trained with speeds ({card.speeds}), and these replays have none: it cannot be judged",))
    rivals = [name for name in dict.fromkeys((incumbent, *heuristics)) if name in trials and name != empty.model]
    best = min(rivals, key=lambda name: (trials[name].jct_mean_s, name), default=incumbent)
    known = (None, None) if foreign else (card.history_from_s, card.history_until_s)
    try:
        return weighed(_measured(replace(empty, best=best), trials, exam), known, trials)
    except FAILURES as error:
        return replace(empty, decision=Decision.SHADOW, reasons=(
            f"nothing can be compared: {raised(error)}",))


def _looked_at(candidate: Policy) -> tuple[ModelCard, str]:
    """Return the card of a candidate, and why it should not even be replayed; '' where nothing speaks against it."""
    try:
        card = getattr(candidate, "card", None) or ModelCard(candidate.name, "", 0.0, 0, "", "", "")
        fault = _damaged(card)
        return (_NO_CARD, fault) if fault else (card, not_finite(candidate))
    except FAILURES as error:
        return _NO_CARD, f"it cannot be looked at: {raised(error)}"


_NO_CARD = ModelCard("", "", 0.0, 0, "", "", "")
_MOMENT = (float, int, NoneType)
_READ = {"objective": (str,), "speeds": (str,), "history_from_s": _MOMENT, "history_until_s": _MOMENT}
"""The fields of a card that a judgement reads, with the types of their values."""


def _damaged(card: object) -> str:
    """Return what is wrong with a card; '' when nothing is."""
    if not isinstance(card, ModelCard):
        return f"its card is none, but a {type(card).__name__}"
    return next((f"its card is damaged: {name} is a {type(getattr(card, name)).__name__}"
                 for name, kind in _READ.items() if not isinstance(getattr(card, name), kind)), "")


def raised(error: BaseException) -> str:
    """Return what was raised, in words; by its name alone where it cannot even be put into words."""
    try:
        return f"{type(error).__name__}: {error}"
    except FAILURES:
        return type(error).__name__


def _fit(heuristics: Sequence[str], windows: Sequence[TraceWindow]) -> tuple[list[str], dict[str, str]]:
    """Return which heuristics are candidates on a history, and why the others are not."""
    history = [window.workload for window in windows]
    why = {name: unfit(name, *history) for name in heuristics}
    return [name for name, wrong in why.items() if not wrong], {name: wrong for name, wrong in why.items() if wrong}


def _name(candidate: Policy) -> str:
    """Return what a candidate is called: an agent by its kind and version, one that cannot say it by its class."""
    try:
        card = getattr(candidate, "card", None)
        return card.model if isinstance(card, ModelCard) else str(candidate.name)
    except FAILURES:
        return type(candidate).__name__


def _trials(names: Sequence[str], exam: Exam, terms: PromotionCriteria, seed: int) -> dict[str, HeldOutRun]:
    """Return what came of these policies; the listener hears how many of them and of the candidate are done."""
    runs: dict[str, HeldOutRun] = {}
    for name in names:
        tell(len(runs), len(names) + 1)
        runs[name] = _trial(named(name), exam, terms, seed)
    tell(len(runs), len(names) + 1)
    return runs


def _trial(policy: Policy, exam: Exam, terms: PromotionCriteria, seed: int) -> HeldOutRun:
    return replayed(policy, exam, seed,
                    power_down_s=POWER_DOWN_S if terms.power_down_s is None else terms.power_down_s)


def _measured(empty: Verdict, trials: Mapping[str, HeldOutRun], exam: Exam) -> Verdict:
    """Return the verdict with all figures, and no decision yet."""
    candidate_run = trials[empty.model]
    pairs = {name: Pair.of(candidate_run, trials[name], exam) for name in dict.fromkeys((empty.incumbent, empty.best))
             if name in trials}
    rows = tuple(_row(name, trial, trials, empty, exam) for name, trial in trials.items())
    return replace(measured(empty, pairs, exam), rows=rows,
                   speeds=trials[empty.incumbent].speeds if empty.incumbent in pairs else ())


def measured(empty: Verdict, pairs: Mapping[str, Pair], exam: Exam) -> Verdict:
    """Return the verdict with the comparisons of a candidate with others, by their names, and no decision yet."""
    submit, terms, incumbent = exam.column(lambda work: work.submit), empty.terms, pairs.get(empty.incumbent)
    return replace(
        empty, days=exam.days, jobs=len(submit),
        since_s=float(submit.min()) if len(submit) else None, until_s=float(submit.max()) if len(submit) else None,
        against={name: pair.jct(bound=terms.alike) for name, pair in pairs.items()},
        utilization={name: pair.utilization() for name, pair in pairs.items()},
        energy={name: {counted: pair.energy(down=counted == DOWN, bound=1.0 / terms.saving) for counted in (ON, DOWN)}
                for name, pair in pairs.items()},
        groups={} if incumbent is None else {name: incumbent.jct(members, terms.group)
                                             for name, members in exam.groups() if members.sum() >= terms.group_jobs},
        tail=None if incumbent is None else incumbent.tail(terms.tail_floor_s, terms.tail))


def _row(name: str, trial: HeldOutRun, trials: Mapping[str, HeldOutRun], empty: Verdict, exam: Exam) -> PolicyFigures:
    ended = np.isfinite(trial.jct)
    jct, wait = trial.jct[ended], trial.wait[ended]
    pair = Pair.of(trial, trials.get(empty.incumbent, trial), exam)
    return PolicyFigures(name, int(ended.sum()), int((~ended).sum()), mean(jct), p99(jct), mean(wait), p99(wait),
                         mean(trial.slowdown[ended]), *_joules(trial, trials, exam), pair.jct(),
                         pair.energy(down=False),
                         pair.energy(down=True), trial.utilization, _makespan_s(trial, exam), pair.utilization())


def _makespan_s(trial: HeldOutRun, exam: Exam) -> float:
    return float(sum(replay.last_end_s - window.since_s
                     for replay, window in zip(trial.replays, exam.windows, strict=True)))


def _joules(trial: HeldOutRun, trials: Mapping[str, HeldOutRun], exam: Exam) -> tuple[float, float]:
    """Return the joules of all windows, each up to when the last policy was through with it: as it is, and down."""
    on = down = 0.0
    for number, window in enumerate(exam.windows):
        replay, end = trial.replays[number], max(other.replays[number].spent.until for other in trials.values())
        if np.isfinite(end):
            on += joules(replay.spent.later(end), window.cluster.gpus, window.power).total
            down += joules(replay.spent_down.later(end), window.cluster.gpus, window.power).total
    return on, down


def weighed(verdict: Verdict, known: tuple[float | None, float | None], trials: Mapping[str, HeldOutRun]) -> Verdict:
    """Return the verdict with its decision: what is wrong with the agent itself refuses it, all else shadows it."""
    if verdict.model == verdict.incumbent:
        return replace(verdict, decision=Decision.SHADOW, reasons=("it is the scheduler's own policy",))
    candidate, incumbent = trials[verdict.model], trials[verdict.incumbent]
    lost = int((~np.isfinite(candidate.jct) & np.isfinite(incumbent.jct)).sum())
    if lost:
        return replace(verdict, reasons=(f"{lost} jobs never end under it that do under {verdict.incumbent}",))
    against = (*_unfounded(verdict, known), *_harmful(verdict), *not_better(verdict))
    if against:
        return replace(verdict, decision=Decision.SHADOW, reasons=against)
    return replace(verdict, decision=Decision.PROMOTE,
                   reasons=tuple(why(verdict, name) for name in verdict.against))


def _unfounded(verdict: Verdict, known: tuple[float | None, float | None]) -> Iterator[str]:
    """Yield why the replays say nothing, whatever they show."""
    terms, fidelity = verdict.terms, verdict.fidelity
    if verdict.days < terms.days - 0.01 or verdict.jobs < terms.jobs:
        yield (f"not enough yet: only {verdict.days:.1f} held-out days with {verdict.jobs} jobs; {terms.days} days and "
               f"{terms.jobs} jobs are needed")
    if _overlap(known, (verdict.since_s, verdict.until_s)):
        yield "it was trained on a part of this history, which is then no test"
    if fidelity is None:
        return
    fault = not_reproduced(fidelity, terms)
    if fault:
        yield fault


def not_reproduced(fidelity: Fidelity, terms: PromotionCriteria) -> str:
    """Return how the incumbent's replay fails to reproduce history; '' where it is near enough to judge by."""
    error, ratio, limit = fidelity.start_error_abs_mean_s, fidelity.wait_error_ratio, fidelity.wait_error_limit
    if error is None:
        return "nothing started in the history that the replay of the scheduler's own policy could be compared with"
    far = error > terms.start_error_s if ratio is None else (ratio if limit is None else limit) > terms.wait_error
    if not far and fidelity.jobs_missed <= terms.missed * (fidelity.jobs + fidelity.jobs_missed):
        return ""
    by = f"{error:.0f} s" if ratio is None else fidelity.of_waits
    return (f"the replay of {fidelity.policy} does not reproduce history: starts off by {by}, "
            f"{fidelity.jobs_missed} of {fidelity.jobs + fidelity.jobs_missed} starts missed")


def _overlap(one: tuple[float | None, float | None], other: tuple[float | None, float | None]) -> bool:
    """Tell whether two spans share a moment; what begins where another ends does not."""
    if one[0] is None or one[1] is None or other[0] is None or other[1] is None:
        return False
    return one[0] <= other[1] and other[0] < one[1]


def _harmful(verdict: Verdict) -> Iterator[str]:
    """Yield what a candidate would harm: a figure that is not surely within its bound, at any of all looks, is harm."""
    energies = verdict.energy.get(verdict.incumbent, {})
    site, other = verdict.terms.counted
    bounded = {**{f"{name}: mean JCT": group for name, group in verdict.groups.items()}, "p99 wait": verdict.tail,
               f"energy at the wall, {site},": energies.get(site)}
    for name, comparison in bounded.items():
        if comparison is not None and comparison.blocks and not _within(comparison, verdict):
            missing = unbounded(comparison, verdict.terms)
            yield f"{name} is {comparison.said} of that under {verdict.incumbent}: {missing}"
    elsewhere = energies.get(other)
    if elsewhere is not None and elsewhere.low > elsewhere.bound:
        yield f"energy at the wall, {other}, is {elsewhere.said} of that under {verdict.incumbent}: worse"
    use = verdict.utilization.get(verdict.incumbent)
    if UTILIZATION in verdict.ways and use is not None and use.known and use.high < 1.0:
        yield f"utilisation, which it is after, is {use.said} of that under {verdict.incumbent}: worse"


def _within(comparison: Comparison, verdict: Verdict) -> bool:
    """Tell whether a ratio is surely within its bound; a group seldom there is held to the ratio itself."""
    overall = verdict.against.get(verdict.incumbent)
    if overall is not None and comparison.blocks < SELDOM * overall.blocks:
        return comparison.total <= comparison.bound
    return comparison.bounded(verdict.terms.error)

"""Whether an agent has earned to be in charge: paired replays of held-out history, and what must be true of them.

Everybody replays the same stretches. The agent is compared with the incumbent, which really decided, and with the best
of the heuristics, chosen in hindsight: it must beat the one that an operator would have picked. Days are drawn anew as
whole, since jobs of one day share a queue (paired bootstrap). What chance does (``random-feasible``) and what knowing
the future would (``oracle``) stand beside every table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...storage.promotions import Decision
from ...storage.records import ModelCard
from ..agents.kinds import FAILURES, Stretch, Trained
from ..policies import named
from ..replay.engine import Policy, run
from ..replay.outcome import Interval, ratio_interval, times
from ..replay.power import Occupation, PowerModel, joules, occupation
from ..replay.state import ClusterState
from ..replay.workload import Workload
from ..simulator_error import Fidelity
from ..sweep import ALWAYS
from .promotion_criteria import ASSUMED, PromotionCriteria

Floats = NDArray[np.float64]

DAY_S = 86400.0
HEURISTICS = ("sjf-prediction+best-fit+easy", "sjf-limit+best-fit+easy", "qssf+best-fit+easy", "wfp3+best-fit+easy",
              "limit-aged+best-fit+easy", "fifo+best-fit+easy")
"""What an operator could put in charge without any training."""


@dataclass(frozen=True, slots=True)
class Row:
    """How one policy did on all held-out jobs that ended under it."""

    policy: str
    jobs: int
    unfinished: int
    jct_mean_s: float
    jct_p99_s: float
    wait_mean_s: float
    wait_p99_s: float
    slowdown_mean: float
    energy_wasted_joules: float
    jct_ratio: Interval
    """Mean JCT over the incumbent's."""


@dataclass(frozen=True)
class Verdict:
    """What came of it, with every figure it rests on."""

    model: str
    decision: Decision
    reasons: tuple[str, ...]
    """Why not, sentence by sentence; or why."""
    incumbent: str
    best: str
    """The best of the heuristics."""
    rows: tuple[Row, ...] = ()
    """The agent's, the incumbent's, the other heuristics', chance, the future."""
    against: Mapping[str, Interval] = field(default_factory=dict)
    """Mean JCT over the incumbent's and over the best heuristic's, by their names."""
    groups: Mapping[str, float] = field(default_factory=dict)
    """Mean JCT over the incumbent's by partition and class of users."""
    stretches: tuple[float, ...] = ()
    """The same by stretch."""
    tail_ratio: float | None = None
    """p99 wait over the incumbent's."""
    since_s: float | None = None
    until_s: float | None = None
    """From the first held-out submission to the last."""
    days: int = 0
    jobs: int = 0
    seed: int = 0
    fidelity: Fidelity | None = None
    """How far the incumbent's replay is from what really happened; None where the history is not this site's."""
    terms: PromotionCriteria = ASSUMED

    @property
    def reason(self) -> str:
        """Return the reasons as one text."""
        return "; ".join(self.reasons)

    def figures(self) -> dict[str, object]:
        """Return all of it as JSON may hold it."""
        return {name: value for name, value in asdict(self).items() if name not in ("model", "decision")}


def judge(candidate: Trained, incumbent: str, heuristics: Sequence[str], stretches: Sequence[Stretch], *,
          fidelity: Fidelity | None = None, foreign: bool = False, terms: PromotionCriteria = ASSUMED,
          seed: int = 0) -> Verdict:
    """Replay held-out stretches under everybody and return the verdict; never raises for what the candidate does.

    ``stretches`` are in order of time and untouched by training; ``fidelity`` is needed where they are the site's own.
    ``foreign`` ones are of another history than it was trained on, with a clock of its own.
    """
    exam = Exam.of(stretches)
    trials = {name: replayed(named(name), exam, seed) for name in dict.fromkeys((incumbent, *heuristics, *ALWAYS))}
    best = min((incumbent, *heuristics), key=lambda name: (trials[name].jct_mean_s, name))
    empty = Verdict(candidate.card.model, Decision.REFUSE, (), incumbent, best, seed=seed, fidelity=fidelity,
                    terms=terms)
    try:
        trials = {candidate.card.model: replayed(candidate, exam, seed), **trials}
    except FAILURES as error:
        return replace(empty, reasons=(f"its replay failed: {type(error).__name__}: {error}",))
    seen = ModelCard("", "", 0.0, 0, "", "", "") if foreign else candidate.card
    return _weighed(_measured(empty, trials, exam, PowerModel()), seen, trials)


@dataclass(frozen=True)
class Exam:
    """What everybody replays, and which jobs of it are looked at."""

    stretches: tuple[Stretch, ...]
    counted: tuple[NDArray[np.bool_], ...]
    """[stretch][job] submitted within the stretch, and able to run at all."""

    @classmethod
    def of(cls, stretches: Sequence[Stretch]) -> Exam:
        """Return the exam on these stretches."""
        return cls(tuple(stretches), tuple(_counted(stretch) for stretch in stretches))

    def column(self, read: Callable[[Workload], object]) -> NDArray[Any]:
        """Return one value for each job that counts."""
        columns = [np.asarray(read(stretch.workload))[counted]
                   for stretch, counted in zip(self.stretches, self.counted, strict=True)]
        return np.concatenate(columns) if columns else np.zeros(0)


def _counted(stretch: Stretch) -> NDArray[np.bool_]:
    possible = np.ones(len(stretch.workload), bool)
    possible[[rejection.job for rejection in ClusterState.of(stretch.cluster, stretch.workload).rejected]] = False
    return possible & (stretch.workload.submit >= stretch.since_s)


@dataclass(frozen=True)
class Trial:
    """How one policy did on the held-out jobs, rows alike for all policies; NaN where a job did not end."""

    day: NDArray[np.int64]
    """Whole days by number, no two stretches sharing one."""
    stretch: NDArray[np.int64]
    jct: Floats
    wait: Floats
    slowdown: Floats
    spent: tuple[Occupation, ...]
    """How the nodes spent their time, by stretch."""

    @property
    def jct_mean_s(self) -> float:
        """Return the mean completion time; infinite where no job ended."""
        return float(np.nanmean(self.jct)) if np.isfinite(self.jct).any() else np.inf


def replayed(policy: Policy, exam: Exam, seed: int) -> Trial:
    """Replay every stretch to its end and return the times of the jobs that count."""
    parts, spent, days = [], list[Occupation](), 0
    for number, (stretch, counted) in enumerate(zip(exam.stretches, exam.counted, strict=True)):
        done = run(stretch.cluster, stretch.workload, policy, seed=seed)
        found = times(done)
        told = np.full((3, len(stretch.workload)), np.nan)
        told[:, found.jobs] = found.jct, found.wait, found.slowdown
        day = (stretch.workload.submit[counted] - stretch.since_s) // DAY_S
        parts.append(np.vstack([days + day, np.full(len(day), number), told[:, counted]]))
        spent.append(occupation(done))
        days += int(day.max(initial=-1)) + 1
    day, which, jct, wait, slowdown = np.hstack(parts) if parts else np.zeros((5, 0))
    return Trial(day.astype(np.int64), which.astype(np.int64), jct, wait, slowdown, tuple(spent))


def _measured(empty: Verdict, trials: Mapping[str, Trial], exam: Exam, power: PowerModel) -> Verdict:
    """Return the verdict with all figures, and no decision yet."""
    ours, incumbent, submit = trials[empty.model], trials[empty.incumbent], exam.column(lambda work: work.submit)
    rows = tuple(_row(name, trial, trials, empty, exam, power) for name, trial in trials.items())
    return replace(
        empty, rows=rows, days=len(np.unique(ours.day)), jobs=len(ours.day),
        since_s=float(submit.min()) if len(submit) else None, until_s=float(submit.max()) if len(submit) else None,
        against={name: ratio(ours, trials[name], empty.terms, empty.seed)
                 for name in dict.fromkeys((empty.incumbent, empty.best))},
        groups={name: _mean_ratio(ours, incumbent, members) for name, members in groups(exam)
                if members.sum() >= empty.terms.group_jobs},
        stretches=tuple(_mean_ratio(ours, incumbent, ours.stretch == number) for number in range(len(exam.stretches))),
        tail_ratio=_tail(ours, incumbent, empty.terms))


def ratio(ours: Trial, theirs: Trial, terms: PromotionCriteria, seed: int) -> Interval:
    """Return mean JCT over another's, of the jobs that ended under both, with its interval over days."""
    both = np.isfinite(ours.jct) & np.isfinite(theirs.jct)
    return ratio_interval(np.float64(DAY_S) * ours.day[both], ours.jct[both], theirs.jct[both],
                          resamples=terms.resamples, seed=seed)


def _row(name: str, trial: Trial, trials: Mapping[str, Trial], empty: Verdict, exam: Exam, power: PowerModel) -> Row:
    ended = np.isfinite(trial.jct)
    jct, wait = trial.jct[ended], trial.wait[ended]
    return Row(name, int(ended.sum()), int((~ended).sum()), _mean(jct), _p99(jct), _mean(wait), _p99(wait),
               _mean(trial.slowdown[ended]), _wasted(trial, trials.values(), exam, power),
               ratio(trial, trials[empty.incumbent], empty.terms, empty.seed))


def _wasted(trial: Trial, everybody: Collection[Trial], exam: Exam, power: PowerModel) -> float:
    """Return the wasted joules of all stretches, each up to when the last policy was through with it."""
    ends = [max(other.spent[number].until for other in everybody) for number in range(len(exam.stretches))]
    clusters = (stretch.cluster for stretch in exam.stretches)
    return float(sum(joules(spent.later(end), cluster.gpus, power).wasted
                     for spent, end, cluster in zip(trial.spent, ends, clusters, strict=True) if np.isfinite(end)))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _p99(values: Floats) -> float:
    return float(np.quantile(values, 0.99)) if len(values) else float("nan")


def _mean_ratio(ours: Trial, theirs: Trial, members: NDArray[np.bool_]) -> float:
    both = members & np.isfinite(ours.jct) & np.isfinite(theirs.jct)
    return float(ours.jct[both].sum() / theirs.jct[both].sum()) if both.any() else float("nan")


def _tail(ours: Trial, theirs: Trial, terms: PromotionCriteria) -> float:
    both = np.isfinite(ours.wait) & np.isfinite(theirs.wait)
    floor = terms.tail_floor_s
    return max(floor, _p99(ours.wait[both])) / max(floor, _p99(theirs.wait[both])) if both.any() else float("nan")


def groups(exam: Exam) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield who must not suffer: each partition, and the light, middle and heavy thirds of users by GPU time.

    Single users have too few jobs to tell harm from chance.
    """
    # A code of -1 is the last one: none.
    partition = exam.column(lambda work: np.array([*work.partition_names, ""], object)[work.partition])
    user = exam.column(lambda work: np.array([*work.user_names, ""], object)[work.user])
    used = exam.column(lambda work: work.run * work.gpus)
    for name in dict.fromkeys(partition):
        yield f"partition {name}", partition == name
    names, number = np.unique(user.astype(str), return_inverse=True)
    if len(names) < 3:
        return
    rank = np.argsort(np.argsort(np.bincount(number, weights=used), kind="stable"))
    for third, word in enumerate(("light", "middle", "heavy")):
        yield f"{word} users", (rank * 3 // len(names))[number] == third


def _weighed(measured: Verdict, card: ModelCard, trials: Mapping[str, Trial]) -> Verdict:
    """Return the verdict with its decision: what is wrong with the agent itself refuses it, all else shadows it."""
    ours, theirs = trials[measured.model], trials[measured.incumbent]
    lost = int((~np.isfinite(ours.jct) & np.isfinite(theirs.jct)).sum())
    if lost:
        return replace(measured, reasons=(f"{lost} jobs never end under it that do under {measured.incumbent}",))
    against = (*_unfounded(measured, card), *_harmful(measured), *_not_better(measured))
    if against:
        return replace(measured, decision=Decision.SHADOW, reasons=against)
    return replace(measured, decision=Decision.PROMOTE, reasons=tuple(
        f"mean JCT is {_said(interval)} of that under {name}" for name, interval in measured.against.items()))


def _unfounded(found: Verdict, card: ModelCard) -> Iterator[str]:
    """Yield why the replays say nothing, whatever they show."""
    terms, fidelity = found.terms, found.fidelity
    if found.days < terms.days or found.jobs < terms.jobs:
        yield (f"only {found.days} held-out days with {found.jobs} jobs; {terms.days} days and {terms.jobs} jobs are "
               "needed")
    if _overlap((card.history_from_s, card.history_until_s), (found.since_s, found.until_s)):
        yield "it was trained on a part of this history, which is then no test"
    if fidelity is None:
        return
    error, ratio = fidelity.start_error_abs_mean_s, fidelity.wait_error_ratio
    if error is None:
        yield "nothing started in the history that the incumbent's replay could be compared with"
        return
    far = error > terms.start_error_s if ratio is None else ratio > terms.wait_error
    if far or fidelity.jobs_missed > terms.missed * (fidelity.jobs + fidelity.jobs_missed):
        by = f"{error:.0f} s" if ratio is None else f"{ratio:.0%} of the wait of the {fidelity.jobs_waited} that waited"
        yield (f"the replay of {fidelity.policy} does not reproduce history: starts off by {by}, "
               f"{fidelity.jobs_missed} of {fidelity.jobs + fidelity.jobs_missed} starts missed")


def _overlap(one: tuple[float | None, float | None], other: tuple[float | None, float | None]) -> bool:
    """Tell whether two spans share a moment; what begins where another ends does not."""
    if one[0] is None or one[1] is None or other[0] is None or other[1] is None:
        return False
    return one[0] <= other[1] and other[0] < one[1]


def _harmful(found: Verdict) -> Iterator[str]:
    """Yield whom it would hurt."""
    for name, worse in found.groups.items():
        if worse > found.terms.group:
            yield f"{name}: mean JCT is {worse:.2f} of that under {found.incumbent}, {found.terms.group:.2f} at most"
    if found.tail_ratio is not None and not found.tail_ratio <= found.terms.tail:
        yield (f"p99 wait is {found.tail_ratio:.2f} of that under {found.incumbent}, "
               f"{found.terms.tail:.2f} at most")


def _not_better(found: Verdict) -> Iterator[str]:
    """Yield whom it does not beat."""
    rows, terms = {row.policy: row for row in found.rows}, found.terms
    ours = rows[found.model]
    for name, interval in found.against.items():
        clearly = any(_below(mine, other, terms.clearly) for mine, other in (
            (ours.wait_p99_s, rows[name].wait_p99_s), (ours.energy_wasted_joules, rows[name].energy_wasted_joules)))
        if not (interval.high < terms.better or (interval.high <= terms.alike and clearly)):
            yield f"mean JCT is {_said(interval)} of that under {name}: not surely better"


def _below(mine: float, other: float, share: float) -> bool:
    return bool(other > 0 and mine <= share * other)


def _said(interval: Interval) -> str:
    return f"{interval.estimate:.3f} ({interval.low:.3f} to {interval.high:.3f})"

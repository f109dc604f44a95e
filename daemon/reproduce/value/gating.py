"""Replay of the promotion gate on a trace: which policies it promotes and demotes on which night.

The daemon's own functions decide on evidence, harm, promotion and demotion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ....storage.promotions import Decision, Promotion, ShadowResult, active_model, states
from ...agents.histories import OUTSTANDING_S, subset
from ...agents.kinds import TraceWindow
from ...learning.night_records import too_soon
from ...learning.pairs import Exam, HeldOutRun, Pair, WindowReplay
from ...learning.promotion import measured, weighed
from ...learning.promotion_criteria import ASSUMED, TRIALS, PromotionCriteria
from ...learning.regret import demotion, regrets
from ...learning.trials import Prospect, error_of_each, shortlisted
from ...learning.verdict import Verdict
from ...replay.arrays import Floats
from ...replay.cluster import Cluster
from ...replay.power import Occupation
from ...replay.workload import Workload
from ...settings.training import TRIAL_S
from .deciding import Promoted
from .outcomes import ReplayOutcome

NIGHT_S = 86400.0
Outcomes = Mapping[str, ReplayOutcome]


def promotions(cluster: Cluster, work: Workload, outcomes: Outcomes, incumbent: str) -> Iterator[Promoted]:
    """Yield each policy change with its time, in order of time; nothing if no policy is ever promoted.

    The shortlist of the first days is on trial on the later jobs; the candidates share the error, as in the daemon.
    """
    submit, decided = work.submit, list[Promotion]()
    began = float(submit[0]) + ASSUMED.days * NIGHT_S
    listed = _shortlist(submit, outcomes, incumbent, began)
    gate = _TraceGate(cluster, work, outcomes, incumbent, began, error_of_each(TRIALS * max(1, len(listed))))
    for night in np.arange(began + ASSUMED.days * NIGHT_S, float(submit[-1]), NIGHT_S).tolist():
        active = active_model(states(decided))
        if active is not None:
            lost = gate.lost(active, decided[-1].time_s, night)
            decision, deciding = lost, incumbent
        else:
            tried = [name for name in listed if all(promoted.model != name for promoted in decided)]
            ready = night <= began + TRIAL_S and not too_soon(decided, night)
            decision = gate.earned(tried, night) if ready else None
            deciding = "" if decision is None else decision.model
        if decision is not None:
            decided.append(decision)
            yield Promoted(night, deciding)


def _shortlist(submit: Floats, outcomes: Outcomes, incumbent: str, until_s: float) -> tuple[str, ...]:
    """Return the policies that were better than the incumbent on the first days, the best first."""
    early = submit < until_s
    jct = {name: float(np.mean((outcome.end - submit)[early])) for name, outcome in outcomes.items()}
    prospects = [Prospect(name, "", jct[name] / jct[incumbent]) for name in sorted(jct, key=lambda name: jct[name])]
    return shortlisted([prospect for prospect in prospects if prospect.name != incumbent])


class _TraceGate:
    """Evaluates the replays of one trace with the data that is known on a given night."""

    def __init__(self, cluster: Cluster, work: Workload, outcomes: Outcomes, incumbent: str, began_s: float,
                 error: float) -> None:
        self._cluster, self._work, self._outcomes = cluster, work, outcomes
        self._incumbent, self._began_s, self._error = incumbent, began_s, error

    def earned(self, names: Sequence[str], night: float) -> Promotion | None:
        """Return the promotion of the best candidate that meets the criteria by a night; None if none does."""
        rows, exam = self._known(night)
        incumbent, verdicts = _held_out(self._outcomes[self._incumbent], exam, rows), list[Verdict]()
        for name in names:
            ours = _held_out(self._outcomes[name], exam, rows)
            empty = Verdict(name, Decision.SHADOW, (), self._incumbent, self._incumbent,
                            terms=_with(self._error))
            measurements = measured(empty, {self._incumbent: Pair.of(ours, incumbent, exam)}, exam)
            verdicts.append(weighed(measurements, (None, None), {name: ours, self._incumbent: incumbent}))
        best = min((verdict for verdict in verdicts if verdict.decision is Decision.PROMOTE), default=None,
                   key=lambda verdict: verdict.against[self._incumbent].estimate)
        return None if best is None else Promotion(night, best.model, best.decision, "nightly", best.reason)

    def lost(self, name: str, since_s: float, night: float) -> Promotion | None:
        """Return the demotion of the active policy if it has become worse by a night; otherwise None."""
        days = np.arange(self._began_s // NIGHT_S * NIGHT_S, night + 1.0, NIGHT_S)
        ours, incumbents = (_in_system(self._work.submit, self._outcomes[policy].end, days)
                            for policy in (name, self._incumbent))
        shadow_results = [ShadowResult(name, day, day + NIGHT_S, mine, other, 0.0, 0.0, self._incumbent)
                          for day, mine, other in zip(days.tolist(), ours.tolist(), incumbents.tolist(), strict=False)]
        return demotion(name, regrets(shadow_results, night, since_s), night)

    def _known(self, night: float) -> tuple[np.ndarray, Exam]:
        """Return the jobs that have ended by a night, and the criteria for them."""
        submit, ended = self._work.submit, self._outcomes[self._incumbent].end
        came = (submit >= self._began_s) & (submit < night)
        running = submit[came & ~(ended < night) & (submit >= night - OUTSTANDING_S)]
        rows = np.flatnonzero(came & (ended < night))
        window = TraceWindow(self._cluster, subset(self._work, rows), self._began_s,
                             settled_s=float(running.min(initial=np.inf)))
        return rows, Exam((window,), (np.ones(len(rows), bool),))


def _with(error: float) -> PromotionCriteria:
    return replace(ASSUMED, error=error)


def _held_out(outcome: ReplayOutcome, exam: Exam, rows: np.ndarray) -> HeldOutRun:
    """Return the results of some jobs in the form of the gate, without the load of partitions."""
    submit, (window,) = exam.windows[0].workload.submit, exam.windows
    nothing = np.zeros(len(window.cluster.names))
    spent = Occupation(float(outcome.marks[-1]), nothing, nothing, nothing, nothing, nothing, np.inf)
    times = np.array([window.since_s, float(submit.max(initial=window.since_s))])
    replayed = WindowReplay(outcome.start[rows], outcome.marks, outcome.joules, outcome.joules, spent, spent,
                            times, np.zeros(2),
                            float(np.nanmax(outcome.end, initial=window.since_s)))
    return HeldOutRun(np.zeros(len(rows), np.int64), submit, outcome.end[rows] - submit, outcome.wait[rows],
                      outcome.slowdown[rows], (replayed,))


def _in_system(submit: Floats, end: Floats, edges: Floats) -> Floats:
    """Return the seconds that all jobs spent waiting or running between two edges."""
    spent = [float(np.clip(np.fmin(end, edge) - submit, 0.0, None).sum()) for edge in edges.tolist()]
    return np.diff(spent)

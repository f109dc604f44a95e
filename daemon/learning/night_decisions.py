"""What a night decides: on the agent that is on trial, on tonight's, and on the heuristics that are tried beside them.

All of them are judged by the same gate, and who is in charge, agent or heuristic, stays until another one is surely
better than it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...storage.ledger import Ledger
from ...storage.promotions import Decision, Promotion, in_charge, states
from ..agents.histories import Material, Split, TooLittle, held_out
from ..agents.kinds import FAILURES, Stretch
from ..policies import named
from ..replay.engine import Policy
from ..simulator_error import Fidelity
from .exam import Exam, replayed
from .models import ModelError, ModelStore, StoredModel
from .pairs import Pair
from .promotion import Verdict, judge
from .promotion_criteria import TRIALS, share
from .regret import too_soon
from .training import examined
from .training_scheduler import TrainingTask
from .trials import TRIED, agent_on_trial, heuristics_on_trial, no_turn, shortlist, trials


@dataclass(frozen=True)
class NightDecisions:
    """What one night decides, recorded in the ledger."""

    ledger: Ledger
    store: ModelStore
    task: TrainingTask
    material: Material
    fidelity: Fidelity | None

    def decide_all(self, model: StoredModel, parts: Split) -> Promotion:
        """Judge all who are on trial and tonight's model; return what was decided on that."""
        tried = trials(self.ledger.decisions(), self.task.now_s)
        self._heuristics([(one.name, one.since_s) for one in heuristics_on_trial(tried)] or self._new(parts))
        running = agent_on_trial(tried, self.task.agent)
        if running is not None:
            self._go_on(running.name, running.since_s)
        # Its figures are shown, but only one whose turn it is may be promoted for them.
        verdict = examined(self.store, model, parts.test, self.task.incumbent, fidelity=self.fidelity,
                           terms=self.task.terms, seed=int(self.task.now_s // 86400.0))
        waits = no_turn(trials(self.ledger.decisions(), self.task.now_s), self.task.agent)
        return self.decide(verdict, parts.test, None if waits else parts.until_s, waits)

    def _go_on(self, name: str, since_s: float) -> None:
        """Judge an agent on all that has come since its training."""
        try:
            model, stretches = self.store.find(name), held_out(self.material, since_s)
            verdict = examined(self.store, model, stretches, self.task.incumbent, fidelity=self.fidelity,
                               terms=self.task.terms, seed=int(self.task.now_s // 86400.0))
        except (ModelError, TooLittle) as error:
            self.ledger.decide(Promotion(self.task.now_s, name, Decision.REFUSE, "nightly", str(error)))
            return
        self.decide(verdict, stretches, since_s, "")

    def _new(self, parts: Split) -> list[tuple[str, float]]:
        """Return the heuristics to be tried from now on, chosen on history before that which judges them."""
        return [(name, parts.until_s) for name in shortlist(parts.select, self.task.incumbent)]

    def _heuristics(self, tried: Sequence[tuple[str, float]]) -> None:
        """Judge the heuristics on trial; of several that have earned it the best is put in charge."""
        terms = replace(self.task.terms, error=share(TRIALS * len(tried)))
        verdicts: list[tuple[Verdict, tuple[Stretch, ...], float]] = []
        for name, since_s in tried:
            try:
                stretches = held_out(self.material, since_s)
            except TooLittle:
                continue
            found = judge(named(name), self.task.incumbent, (), stretches, fidelity=self.fidelity, terms=terms)
            verdicts.append((found, stretches, since_s))
        verdicts.sort(key=lambda one: (one[0].decision is Decision.PROMOTE, -_estimate(one[0])))
        for number, (verdict, stretches, since_s) in enumerate(verdicts):
            another = "another heuristic is better" if number + 1 < len(verdicts) else ""
            self.decide(verdict, stretches, since_s, another)

    def decide(self, verdict: Verdict, test: Sequence[Stretch], since_s: float | None, waits: str) -> Promotion:
        """Record what follows from a verdict; with ``since_s`` it is one of the trial that began then."""
        decisions = self.ledger.decisions()
        rival, soon = in_charge(states(decisions)), too_soon(decisions, self.task.now_s)
        decision, reason = verdict.decision, verdict.reason
        if decision is Decision.PROMOTE and waits:
            decision, reason = Decision.SHADOW, f"{waits}: {reason}"
        elif decision is Decision.PROMOTE and not self.task.promote:
            decision, reason = Decision.SHADOW, f"it has earned to be in charge, and an operator decides: {reason}"
        elif decision is Decision.PROMOTE and soon:
            decision, reason = Decision.SHADOW, f"{soon}: {reason}"
        elif decision is Decision.PROMOTE and rival not in (None, verdict.model):
            stays = self._stays(verdict, str(rival), test)
            decision, reason = (Decision.SHADOW, stays) if stays else (decision, reason)
        figures = verdict.figures() | ({} if since_s is None else {TRIED: since_s})
        taken = Promotion(self.task.now_s, verdict.model, decision, "nightly", reason, figures)
        self.ledger.decide(taken)
        return taken

    def _stays(self, verdict: Verdict, rival: str, test: Sequence[Stretch]) -> str:
        """Return why the one in charge stays there, if it does: a new one must surely be better than it, too.

        One that cannot be loaded or replayed does not stay.
        """
        exam = Exam.of(tuple(test))
        try:
            theirs = replayed(self._named(rival), exam, verdict.seed)
        except (ModelError, *FAILURES):
            return ""
        found = Pair.of(replayed(self._named(verdict.model), exam, verdict.seed), theirs, exam).jct()
        if found.below(verdict.terms.error):
            return ""
        words = "not surely better" if found.words == "better" else found.words
        return f"mean JCT is {found.said} of that under {rival}, which is in charge: {words}"

    def _named(self, name: str) -> Policy:
        return self.store.load(name) if "@" in name else named(name)


def _estimate(verdict: Verdict) -> float:
    """Return its mean JCT over the incumbent's."""
    found = verdict.against.get(verdict.incumbent)
    return float("inf") if found is None else found.estimate

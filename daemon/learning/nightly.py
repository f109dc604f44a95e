"""One night's training on all that the daemon has recorded: train, judge, decide, and leave a note.

A night decides on the agent that is on trial, on tonight's, and on the heuristics that are tried beside them. All of
them are judged by the same gate, and the active policy, agent or heuristic, stays until another one is surely better
than it, too.

``python -m idlewatt.daemon.learning.nightly`` reads a task from its input, works at the lowest priority, writes what
came of it, and ends when the daemon does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType

from ...storage.errors import StoreError, StoreLocked
from ...storage.history import History
from ...storage.ledger import Ledger
from ...storage.promotions import Decision, Promotion, active_model, states
from ...storage.whole_files import write
from ..agents.histories import DAY_S, Material, Split, TooLittle, held_out, recorded, split
from ..agents.kinds import FAILURES, TraceWindow, TrainingError
from ..niceness import give_way
from ..policies import named
from ..policies.limits import unfit
from ..recorded_scheduling import with_recorded_scheduler
from ..recorded_speeds import site_speeds
from ..recorded_watts import site_watts
from ..replay.cluster import ClusterError
from ..replay.engine import Policy
from ..settings.sections import Sections
from ..simulator_error import Fidelity, check
from .begun_trials import note, noted_as_begun, recall
from .models import ModelError, ModelStore, StoredModel
from .models_owner import ForeignModels, claim
from .night_records import recheck_active, record_decision, record_together, too_soon
from .pairs import Exam, Pair, replayed
from .promotion import judge
from .promotion_criteria import TRIALS
from .start_models import start_of
from .training import (
    ModelLimit,
    TrainingDirectory,
    TrainingJob,
    TrainingRun,
    TrainingUnderWay,
    examined,
    kind_of,
    make_room,
)
from .training_scheduler import NIGHT, NOTE, TASK, Night, TrainingTask, last_night
from .trials import (
    LISTED,
    TRIED,
    WEIGHTS,
    Prospect,
    Tried,
    agent_on_trial,
    begun_together,
    changed,
    error_of_each,
    exchanged,
    fit,
    heuristics_on_trial,
    listed,
    needed_since,
    no_turn,
    prospects,
    shortlisted,
    shortlists_left,
    spent_by_hand,
    trials,
)
from .verdict import Verdict

NONE_LEFT = f"{TRIALS} shortlists were tried within a year: each is a chance to be wrong"
SAME_DAYS = "the days that would judge it have begun a trial of heuristics before: the next one begins with later days"


@dataclass(frozen=True)
class NightDecisions:
    """What one night decides, recorded in the ledger."""

    ledger: Ledger
    store: ModelStore
    task: TrainingTask
    material: Material
    fidelity: Fidelity | None
    alone: Callable[[], None] = lambda: None
    """Raises ``StoreLocked`` where another training decides by now."""

    def decide_all(self, model: StoredModel, parts: Split) -> Promotion:
        """Judge all policies on trial and tonight's model; return what was decided on that model."""
        tried = trials(self.ledger.decisions(), self.task.now_s)
        on_trial = [(trial.name, trial.since_s) for trial in heuristics_on_trial(tried)]
        combinations = self._prospects(parts, tried)
        self._heuristics(on_trial or [(name, parts.until_s) for name in shortlisted(combinations)], tried)
        running = agent_on_trial(tried, self.task.agent)
        if running is not None:
            self._go_on(running.name, running.since_s)
        # Its figures are shown, but only one whose turn it is may be promoted for them.
        verdict = examined(self.store, model, parts.test, self.task.incumbent, fidelity=self.fidelity,
                           terms=self.task.terms, seed=int(self.task.now_s // 86400.0))
        noted = {LISTED: listed(combinations), WEIGHTS: _digest(model)}
        return self.decide(verdict, parts.test, parts.until_s, "", noted)

    def _prospects(self, parts: Split, tried: Sequence[Tried]) -> Sequence[Prospect]:
        """Return all combinations of heuristics; promising are those whose trial may begin tonight."""
        if heuristics_on_trial(tried):
            return fit((*parts.select, *parts.test))
        if not shortlists_left(tried):
            return [replace(prospect, why=NONE_LEFT) for prospect in fit((*parts.select, *parts.test))]
        if begun_together(tried, parts.until_s):
            return [replace(prospect, why=SAME_DAYS) for prospect in fit((*parts.select, *parts.test))]
        # The active one has earned its place: not to earn it anew on two weeks must not cost it that.
        active = active_model(states(self.ledger.decisions()))
        return [prospect for prospect in prospects(parts.select, self.task.incumbent) if prospect.name != active]

    def _go_on(self, name: str, since_s: float) -> None:
        """Judge an agent on all that has come since its training."""
        try:
            model, windows = self.store.find(name), held_out(self.material, since_s)
            if model.fault:  # whose digest is not known then: not every damaged card is one of other weights
                raise ModelError(f"{name} must not be used: {model.fault}")
            if wrong := exchanged(self.ledger.decisions(), name, _digest(model)) or self._changed(name, since_s):
                raise ModelError(wrong)
            # The same seed every night: to draw anew what was drawn before would be another chance each time.
            verdict = examined(self.store, model, windows, self.task.incumbent, fidelity=self.fidelity,
                               terms=self.task.terms, seed=0 if model.card is None else model.card.seed)
        except TooLittle:  # a clock that stepped back, or jobs that are missing for now: it is judged on a later night
            return
        except (ModelError, TrainingError) as error:
            self._record(Promotion(self.task.now_s, name, Decision.REFUSE, "nightly", str(error)))
            return
        self.decide(verdict, windows, since_s, "", {WEIGHTS: _digest(model)})

    def _heuristics(self, on_trial: Sequence[tuple[str, float]], tried: Sequence[Tried]) -> None:
        """Judge the heuristics on trial; of several that have earned it the best is made active."""
        judged: dict[tuple[str, float], tuple[TraceWindow, ...]] = {}
        for name, since_s in on_trial:
            try:
                windows = held_out(self.material, since_s)
            except TooLittle:
                continue
            if wrong := self._changed(name, since_s) or unfit(name, *(window.workload for window in windows)):
                self._record(Promotion(self.task.now_s, name, Decision.REFUSE, "nightly", wrong))
                continue
            judged[name, since_s] = windows
        self._begin([key for key in judged if key not in {(trial.name, trial.since_s) for trial in tried}])
        verdicts: list[tuple[Verdict, tuple[TraceWindow, ...], float]] = []
        for (name, since_s), windows in judged.items():
            together = max(len(on_trial), begun_together(tried, since_s))
            terms = replace(self.task.terms, error=error_of_each(TRIALS * together))
            verdict = judge(named(name), self.task.incumbent, (), windows, fidelity=self.fidelity, terms=terms)
            verdicts.append((verdict, windows, since_s))
        verdicts.sort(key=lambda entry: (entry[0].decision is Decision.PROMOTE, -_estimate(entry[0])))
        for number, (verdict, windows, since_s) in enumerate(verdicts):
            another = "another heuristic is better" if number + 1 < len(verdicts) else ""
            self.decide(verdict, windows, since_s, another)

    def _begin(self, shortlist: Sequence[tuple[str, float]]) -> None:
        """Record the trials of a new shortlist, all or none: a fault half-way would cost the others their turn.

        They are noted afterwards: a night that is killed in between has not looked, and has taken no chance.
        """
        if shortlist:
            terms = {"terms": asdict(self.task.terms), "incumbent": self.task.incumbent}
            self.alone()
            record_together(self.ledger, [
                Promotion(self.task.now_s, name, Decision.SHADOW, "nightly", "its trial begins",
                          {TRIED: since_s, **terms}) for name, since_s in shortlist])
            note(self.task.models, shortlist, self.task.now_s)

    def decide(self, verdict: Verdict, test: Sequence[TraceWindow], since_s: float | None, waits: str,
               noted: Mapping[str, object] = MappingProxyType({})) -> Promotion:
        """Record what follows from a verdict; with ``since_s`` it is one of the trial that began then.

        Figures that are ``noted`` are kept beside those of the verdict.
        """
        before, standing = None, self._standing(verdict.model, since_s)
        while standing != before:  # others decide while this replays
            before, (rival, late) = standing, standing
            decision, reason = self._followed(verdict, rival, test, late or waits)
            standing = self._standing(verdict.model, since_s)
        figures = {**verdict.figures(), **noted}
        taken = Promotion(self.task.now_s, verdict.model, decision, "nightly", reason, figures)
        if since_s is None or late:
            return self._record(taken)
        with noted_as_begun(self.task.models, [(verdict.model, since_s)], self.task.now_s):
            return self._record(replace(taken, figures={**figures, TRIED: since_s}))

    def _standing(self, name: str, since_s: float | None) -> tuple[str | None, str]:
        """Return who is active now, and why a new trial of an agent since then may not begin; '' where it may."""
        decisions, now_s = self.ledger.decisions(), self.task.now_s
        tried, active = trials(decisions, now_s), active_model(states(decisions))
        if since_s is None or "@" not in name or any((trial.name, trial.since_s) == (name, since_s) for trial in tried):
            return active, ""
        return active, no_turn(tried, self.task.agent, spent_by_hand(decisions, now_s))

    def _followed(self, verdict: Verdict, rival: str | None, test: Sequence[TraceWindow],
                  waits: str) -> tuple[Decision, str]:
        """Return what follows from a verdict while a rival is active, and why."""
        decision, reason = verdict.decision, verdict.reason
        if decision is not Decision.PROMOTE:
            return decision, reason
        if waits:
            return Decision.SHADOW, f"{waits}: {reason}"
        if not self.task.promote:
            return Decision.SHADOW, f"it has earned to be active, and an operator decides: {reason}"
        if soon := too_soon(self.ledger.decisions(), self.task.now_s):
            return Decision.SHADOW, f"{soon}: {reason}"
        stays = self._stays(verdict, str(rival), test) if rival not in (None, verdict.model) else ""
        return (Decision.SHADOW, stays) if stays else (decision, reason)

    def _changed(self, name: str, since_s: float) -> str:
        return changed(self.ledger.decisions(), (name, since_s), asdict(self.task.terms), self.task.incumbent)

    def _record(self, taken: Promotion) -> Promotion:
        self.alone()
        return record_decision(self.ledger, taken)

    def _stays(self, verdict: Verdict, rival: str, test: Sequence[TraceWindow]) -> str:
        """Return why the active one stays there, if it does: a new one must surely be better than it, too.

        One that cannot be loaded or replayed does not stay.
        """
        exam = Exam.of(tuple(test))
        try:
            of_rival = replayed(self._named(rival), exam, verdict.seed)
        except (ModelError, *FAILURES):
            return ""
        jct_ratio = Pair.of(replayed(self._named(verdict.model), exam, verdict.seed), of_rival, exam).jct()
        if jct_ratio.below(verdict.terms.error):
            return ""
        words = "not surely better" if jct_ratio.words == "better" else jct_ratio.words
        return f"mean JCT is {jct_ratio.said} of that under {rival}, which is active: {words}"

    def _named(self, name: str) -> Policy:
        return self.store.load(name) if "@" in name else named(name)


def _digest(model: StoredModel) -> str:
    return "" if model.card is None else model.card.weights_digest


def _estimate(verdict: Verdict) -> float:
    """Return the candidate's mean JCT over the incumbent's, infinity where there is no comparison."""
    comparison = verdict.against.get(verdict.incumbent)
    return float("inf") if comparison is None else comparison.estimate


NICENESS = 19
FOLDER = ".nightly"
"""Where nights train, whatever kind: an interrupted training by hand stays. No kind's name begins with a dot."""
NOTES = 3
"""The most notes on the site's speeds that a night shows."""


def by_hand(settings: Sections) -> Night:
    """Train now, as the configuration says; ``TrainingError`` where the daemon does that."""
    if settings.training.enabled:
        raise TrainingError("the daemon trains by itself (training.enabled in its configuration): disable that, or "
                            "idlewatt-train.timer; one of them, never both")
    with suppress(StoreError), History.read_only(settings.storage.url) as reader:  # faults are logged as it trains
        settings = with_recorded_scheduler(settings, reader)
    return carry_out(TrainingTask.of(settings, time.time()))


def carry_out(task: TrainingTask) -> Night:
    """Train, judge and decide, and leave a note of what came of it."""
    store = ModelStore(task.models)
    training_directory = TrainingDirectory(store, FOLDER)
    try:
        with training_directory.locked():
            return _night(task, store, training_directory)
    except TrainingUnderWay as error:
        return Night(task.now_s, "refused", str(error))
    except TrainingError as error:
        return Night(task.now_s, "failed", str(error))


def _noted(models: Path, night: Night) -> Night:
    """Leave a note of a night beside the models; return it with the reason where the note cannot be written."""
    night = night.after(last_night(models))
    try:
        write(models / NOTE, NIGHT.dump_json(night))
    except OSError as error:
        return replace(night, message=f"{night.message}; this night cannot be noted beside the models: {error}")
    return night


def _night(task: TrainingTask, store: ModelStore, training_directory: TrainingDirectory) -> Night:
    """Look whether the active one still belongs there, also where nobody is trained afterwards; then train."""
    messages, foreign = [store.remove_drafts()], False
    try:
        with Ledger.open(task.url) as ledger, ledger.training() as alone:
            messages.append(recheck_active(ledger, task))  # first: a damaged note of trials must not keep it from that
            claim(task.models, ledger, task.url)
            messages.append(recall(ledger, task.models, task.now_s))
            night = _tried(task, store, training_directory, alone)
    except StoreLocked as error:  # another host trains
        night = Night(task.now_s, "refused", str(error))
    except ForeignModels as error:
        night, foreign = Night(task.now_s, "failed", str(error)), True
    except (StoreError, ModelError, OSError) as error:
        night = Night(task.now_s, "failed", str(error))
    night = replace(night, message="; ".join([night.message, *filter(None, messages)]))
    return night if foreign else _noted(task.models, night)  # the note there is of the other database's nights


def _tried(task: TrainingTask, store: ModelStore, training_directory: TrainingDirectory,
           alone: Callable[[], None]) -> Night:
    if task.forgets:
        return Night(task.now_s, "refused", task.forgets)
    try:
        return _trained(task, store, training_directory, alone)
    except (TooLittle, StoreLocked) as error:
        return Night(task.now_s, "refused", str(error))
    except (TrainingError, ModelError, StoreError, ClusterError, OSError) as error:
        return Night(task.now_s, "failed", str(error))


def _trained(task: TrainingTask, store: ModelStore, training_directory: TrainingDirectory,
             alone: Callable[[], None]) -> Night:
    """Go on from the newest model that learned here, with what has been recorded since, and decide on what comes of it.

    It is judged on weeks that neither it nor the one before has seen.
    """
    since_s, until_s = task.now_s - task.history_s, task.now_s
    order = TrainingJob(task.agent, "history", task.budget_s, since_s=since_s, until_s=until_s,
                        incumbent=task.incumbent, seed=int(task.now_s // DAY_S), flavours=task.flavours,
                        objective=task.objective if task.aims else kind_of(task.agent).objective)
    with History.read_only(task.url) as reader:
        speeds = site_speeds(reader, until_s, task.applications)
        begun_s = needed_since(trials(reader.decisions(), until_s), task.agent, since_s)
        material = recorded(reader, begun_s, until_s, "the history", speeds, site_watts(reader, until_s))
        parts = split(material.since(since_s), seed=order.seed)
        fidelity = check(reader, parts.until_s, until_s, task.incumbent, speeds)
    start, anew = start_of(store, task.agent, parts)
    order = order.after(start)
    training_directory.begin(order)
    training_run = TrainingRun(order, parts, training_directory, start=start)
    for _ in training_run:
        pass
    model = training_run.keep(store, task.now_s)
    alone()  # where the lock was lost with its session while this trained, another host may have it
    with Ledger.open(task.url) as ledger:
        decision = NightDecisions(ledger, store, task, material, fidelity, alone).decide_all(model, parts)
        make_room(ledger, store, ModelLimit(task.agent, task.keep), "nightly", task.now_s)
    training_directory.clear()
    return Night(task.now_s, "done", f"{model.name}: {decision.decision}: {decision.reason}"
                 f"{anew}; {'; '.join((speeds.summary, *speeds.notes[:NOTES]))}", model.name)


def main() -> None:
    """Serve one task: JSON in, JSON out."""
    give_way(NICENESS)
    task = TASK.validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(NIGHT.dump_json(carry_out(task)).decode())


def _end_with_parent() -> None:
    """End this process and its own when the daemon has gone, however it went: its end of our input closes."""
    os.read(0, 1)  # not by sys.stdin, whose lock would be held when this process ends by itself
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()

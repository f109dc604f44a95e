"""What the daemon keeps about agents between two rounds of advice: which are active or silent, and their standings."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...storage.errors import StoreError
from ...storage.history import History
from ...storage.promotions import Abstention, Decision, Promotion, ShadowResult, active_model, states
from ...storage.records import ModelCard
from ..agents.checkpoint import CARD, WEIGHTS
from ..agents.kinds import FAILURES
from ..learning import noted_demotions
from ..learning.candidates import Candidate, candidates
from ..learning.models import SPEEDS, ModelError, ModelStore, speeds_of
from ..learning.promotion import raised
from ..learning.regret import DAY_S, Regret, demotion, measured_against, regrets
from ..runtime_history import RECENT, RuntimeHistory
from ..settings.sections import Sections
from .advisor import Advice, AdviceInputs
from .inference import ModelResult, ServedModel
from .wait_estimate import StartForecasts
from .warm_up import WarmUp

log = logging.getLogger(__name__)

RUNTIME_HISTORY_S = 60.0
"""How often the daemon reads which jobs have ended since: some orders go by the run times of those next to a job."""
STALE_READS = 3.0
"""An agent abstains once so many reads of the scheduler are missing,"""
STALE_S = 60.0
"""but not before so long."""
DAYS = 60
"""Days of standings that are looked at."""
ROLES = {Decision.PROMOTE: "active", Decision.SHADOW: "shadow", Decision.DEMOTE: "demoted"}


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What is known of agents, for pages, API and metrics."""

    in_force: Mapping[str, Promotion] = field(default_factory=dict)
    """The decision in force on each agent."""
    decisions: tuple[Promotion, ...] = ()
    """All of them, without figures, in the order in which they were taken."""
    candidates: tuple[Candidate, ...] = ()
    """All agents and heuristics that may come to advise, and what each is."""
    judged: Promotion | None = None
    """The last decision that rests on replays of held-out history."""
    called: tuple[str, ...] = ()
    """The agents of the last round."""
    cards: Mapping[str, ModelCard] = field(default_factory=dict)
    """The cards of the agents that could be loaded."""
    silent: Mapping[str, Abstention] = field(default_factory=dict)
    """Agents that abstain now."""
    abstained: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Rounds without an answer by agent and cause, since recording began."""
    drift: Mapping[str, float] = field(default_factory=dict)
    regrets: Mapping[str, Regret] = field(default_factory=dict)

    @property
    def leader(self) -> str | None:
        """Return the agent or heuristic that has earned to be active; None when none has."""
        return active_model(self.in_force)

    def roles(self) -> tuple[tuple[str, str], ...]:
        """Return the role of each agent in use, as in ``policy_info``."""
        decisions = {model: self.in_force[model].decision for model in self.called if model in self.in_force}
        return tuple((model, ROLES[decision]) for model, decision in decisions.items() if decision in ROLES)


def roles(settings: Sections, learned: ModelStatus) -> tuple[tuple[str, str], ...]:
    """Return the role of each policy: the scheduler's own, active or its fallback, in the shadow or demoted."""
    advising = settings.advising(learned.leader)
    heuristic = (advising, "fallback" if "@" in (learned.leader or "") else "active")
    return ((settings.incumbent, "incumbent"), heuristic,
            *((policy, "shadow") for policy in settings.advice.shadow if policy != advising), *learned.roles())


class ModelRoles:
    """Follows the recorded decisions; what cannot be read stays as it was."""

    def __init__(self, settings: Sections, history: History, speed: float, now_s: float) -> None:
        self._history, self._speed = history, speed
        self._models = settings.storage.models_folder
        self._loader = ModelLoader(self._models)
        self._lock = threading.Lock()
        self._forecasts = StartForecasts()
        self._last, self._runtimes_read_s = -1, float("-inf")
        self._runtime_history: RuntimeHistory | None = None
        recent = measured_against(settings.incumbent, history.standings(now_s - DAYS * DAY_S))
        self.learned = ModelStatus(abstained=history.abstained(), regrets=regrets(recent, now_s))

    def advice_inputs(self, settings: Sections, now_s: float) -> AdviceInputs:
        """Return what advice takes into account now."""
        try:
            self._read_decisions(now_s)
            self._read_runtimes(now_s)
        except StoreError as error:
            log.warning("decisions on agents cannot be read; the old ones stand", extra={"error": str(error)})
        served_models = self._loader.served_models(self.learned.in_force)
        stale_s = max(STALE_S, STALE_READS * settings.cycles.jobs * self._speed)
        return AdviceInputs(served_models, settings.live_incumbent, self._runtime_history,
                            settings.advising(self.learned.leader), self._forecasts, stale_s,
                            None if self._runtime_history is None else self._runtime_history.past)

    @property
    def runtime_history(self) -> RuntimeHistory | None:
        """Return the run times of jobs that have ended, for callers beside the round of advice."""
        return None if self._runtime_history is None else self._runtime_history.independent_copy()

    def note(self, advice: Advice) -> ModelStatus:
        """Record which agents answered and which abstained; return what is known now."""
        before = self.learned.silent
        silent = {result.served_model.model: _silence(result, before.get(result.served_model.model), advice.issued_s)
                  for result in advice.model_results if result.cause}
        abstained = Counter(self.learned.abstained)
        abstained.update((model, abstention.cause) for model, abstention in silent.items())
        return self._update_status(
            silent=silent, abstained=abstained,
            called=tuple(result.served_model.model for result in advice.model_results),
            cards={result.served_model.model: result.served_model.agent.card for result in advice.model_results
                   if result.served_model.agent is not None},
            drift={result.served_model.model: result.drift
                   for result in advice.model_results if result.drift is not None})

    def record_standings(self, standings: Iterable[ShadowResult], incumbent: str, now_s: float) -> ModelStatus:
        """Record the results of a closed window, and demote an active model that lost. Return what is known now.

        Only what was measured against the ``incumbent`` that decides now counts.
        """
        self._history.record_standings(standings)
        recent = measured_against(incumbent, self._history.standings(now_s - DAYS * DAY_S))
        self._update_status(regrets=regrets(recent, now_s))
        leader = self.learned.leader
        if leader is None:
            return self.learned
        since_s = self.learned.in_force[leader].time_s
        decision = demotion(leader, regrets(recent, now_s, since_s), now_s)
        if decision is not None:
            log.warning("an agent is demoted", extra={"model": leader, "reason": decision.reason})
            self._history.decide(decision)
        return self.learned

    def end(self) -> None:
        """End the child processes."""
        self._loader.end()

    def _read_decisions(self, now_s: float) -> None:
        """Read the decisions again when there are new ones; of old judgements only what came of them is kept."""
        last = self._history.last_decision()
        if last == self._last:
            return
        decisions = self._with_demotions(self._history.decisions())
        judged = next((decision for decision in reversed(decisions) if "rows" in decision.figures), None)
        short = tuple(replace(decision, figures={}) for decision in decisions)
        self._update_status(in_force=states(short), decisions=short, judged=judged,
                            candidates=candidates(decisions, now_s))
        self._last = last

    def _with_demotions(self, decisions: Sequence[Promotion]) -> Sequence[Promotion]:
        """Return the decisions with the demotions that the database has forgotten, which are decided once more."""
        try:
            forgotten = noted_demotions.recall(self._history.decide, decisions, self._models,
                                              self._history.identity())
        except (ModelError, OSError) as error:
            log.warning("demotions cannot be compared with those noted beside the models", extra={"error": str(error)})
            return decisions
        if not forgotten:
            return decisions
        log.warning("the database had forgotten demotions, which are decided once more", extra={"models": forgotten})
        return self._history.decisions()

    def _update_status(self, **parts: object) -> ModelStatus:
        """Replace parts of what is known, whole: two cycles write here."""
        with self._lock:
            self.learned = replace(self.learned, **parts)  # type: ignore[arg-type]
            return self.learned

    def _read_runtimes(self, now_s: float) -> None:
        """Learn of the jobs that have ended since the last look."""
        if 0 <= now_s - self._runtimes_read_s < RUNTIME_HISTORY_S:
            return
        past = self._history.load_columns(last=RECENT)
        known = self._runtime_history
        self._runtime_history = RuntimeHistory(past) if known is None else known.renewed(past)
        self._runtimes_read_s = now_s


def _silence(result: ModelResult, before: Abstention | None, now_s: float) -> Abstention:
    """Return an agent's silence, which goes on while the cause is the same; its first round is logged."""
    now = Abstention(result.served_model.model, result.cause, result.reason, now_s, now_s)
    if before is not None and before.cause == now.cause:
        return replace(now, first_s=before.first_s, rounds=before.rounds + 1)
    log.warning("an agent abstains", extra={"model": now.model, "cause": now.cause, "reason": now.words})
    return now


MOST_SHADOWS = 3
"""Agents in the shadow beside the active one, those decided on last: each costs as much as a policy."""


class ModelLoader:
    """Keeps the agents that are active and in shadow; what has changed on disk is loaded again."""

    def __init__(self, folder: Path) -> None:
        self._store = ModelStore(folder)
        self._loaded: dict[str, tuple[object, ServedModel]] = {}
        self._warm_ups: dict[str, WarmUp] = {}

    def served_models(self, in_force: Mapping[str, Promotion]) -> tuple[ServedModel, ...]:
        """Return the agents to serve, the active one first; one whose code is being compiled is left out."""
        named = wanted(in_force)
        self._loaded = {model: entry for model, entry in self._loaded.items() if model in named}
        for model in self._warm_ups.keys() - named.keys():
            self._warm_ups.pop(model).end()
        return tuple(self._served_model(model, leads) for model, leads in named.items() if self._compiled(model))

    def end(self) -> None:
        """End compiling, whatever it does."""
        for warm_up in self._warm_ups.values():
            warm_up.end()

    def _compiled(self, model: str) -> bool:
        if model not in self._warm_ups:
            self._warm_ups[model] = WarmUp((model,), self._store.folder)
        return self._warm_ups[model].over()

    def _served_model(self, model: str, leads: bool) -> ServedModel:
        state, entry = _files(self._store.folder, model), self._loaded.get(model)
        if entry is None or entry[0] != (state, leads):
            entry = self._loaded[model] = ((state, leads), self._load(model, leads))
        return entry[1]

    def _load(self, model: str, leads: bool) -> ServedModel:
        try:
            agent, speeds = self._store.load(model), speeds_of(self._store.find(model).folder)
            by_place = bool((speeds.table.spread != 1).any())
            return ServedModel(model, leads, agent, topology=speeds.topology if by_place else {},
                               speeds=speeds)
        except FAILURES as error:  # a model that cannot be had costs itself alone, whatever is the matter with it
            fault = str(error) if isinstance(error, ModelError) else f"{model} must not be used: {raised(error)}"
            log.error("an agent cannot be used", extra={"model": model, "error": fault})
            return ServedModel(model, leads, None, fault)


def wanted(in_force: Mapping[str, Promotion]) -> dict[str, bool]:
    """Return the agents to serve and whether each is active, the active one first."""
    in_force = {model: last for model, last in in_force.items() if "@" in model}  # a heuristic is no file
    leader = active_model(in_force)
    listened = [model for model, last in in_force.items() if last.decision in (Decision.SHADOW, Decision.DEMOTE)]
    listened.sort(key=lambda model: in_force[model].time_s)
    return ({leader: True} if leader else {}) | dict.fromkeys(listened[-MOST_SHADOWS:], False)


def _files(folder: Path, model: str) -> object:
    """Return what changes when the files of an agent do."""
    kind, _, version = model.partition("@")
    return [_file(folder / kind / version / name) for name in (WEIGHTS, CARD, SPEEDS)]


def _file(path: Path) -> object:
    """Return what changes when a file does; None when it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino

"""The daemon: sources, history, waste and advice, wired into cycles.

    scrape -> telemetry -+
                         +-> assess -> watts by class --+
    jobs -> snapshot ----+                              +-> what is published
              |          +-> advise -> recommendations -+
              |          +-> more, by subject    -------+
              +-> history <- record (windows, floors, accounting) <- retention

Each cycle reads what others have brought, does one thing, and replaces its part of ``known`` whole; a reader never
waits and never sees half of anything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from ..exporters.publish import check
from ..exporters.source import Clock, Watched
from ..storage.database import fingerprint
from ..storage.errors import StoreError
from ..storage.history import History
from ..storage.reading import HistoryReader
from ..storage.records import IdleFloor, SchedulerSnapshot
from ..storage.topology import Fabric, NodeLinks
from . import degraded, opening
from .advice.advisor import Advisor
from .advice.model_roles import ModelRoles, roles
from .advice.recommender import Recommender, RecommenderContext, RunListener
from .advice.recommenders import subjects
from .advice.topology_cost import TopologyCost, compared
from .config import ConfigError, Settings
from .counterfactual import Counterfactual, ReplayedWindow, WindowReplayer, WindowRequest
from .current import ages, current, may_advise, unadvised
from .cycles import WITH_JOBS, Collection, Cycle, CycleScheduler
from .degraded import Chronicle, ClockWatch, Degradation, HealthFacts
from .facts import Known, Process
from .flavours import FlavourBook
from .held_parts import with_parts
from .lean_loading import lean_loading
from .learning.training_scheduler import TrainingScheduler
from .memory import settle
from .notices.desk import Notifier
from .pricing import in_force, priced
from .runtime_history import RuntimeHistory
from .submission_keys import SubmissionKeys
from .topology import AttachTopology
from .waits import WaitHistogram, fared
from .waste import Closed, WasteAccountant

log = logging.getLogger(__name__)

ACCOUNTING_OVERLAP_S = 3600.0
"""How far back accounting is read again: it may learn of an end late."""
ACCOUNTING_FIRST_S = 7 * 86400.0
"""How far back a new database asks accounting."""
REPLAY_S = 600.0
"""The least time that the replay of a closed window is given."""
PATIENCE = 0.8
"""Share of its period that a cycle waits for sources: peers that are slow must not make it overrun."""
LAST_S = 0.5
"""How long a stop waits for running cycles, once no peer is waited for."""
TRAINING_S = 60.0
"""How often somebody looks whether it is time to train, and how it goes."""


class Service:
    """Everything between the sources and the page."""

    def __init__(self, settings: Settings, history: History, clock: Clock, *, speed: float = 1.0,
                 steps: ClockWatch | None = None) -> None:
        self._history, self._clock, self._speed = history, clock, speed
        settings = opening.with_recorded_scheduler(settings, history)
        self._change = threading.Lock()
        self._known_lock = threading.Lock()
        self._model_roles = ModelRoles(settings, history, speed, clock())
        self.known = Known(counterfactual=Counterfactual.restored(history.load_simulated()),
                           learned=self._model_roles.learned)
        self.settings = settings
        self._reloaded, self._loaded_s = True, clock()
        self._accounted_s: dict[str, float] = {}
        """When each scheduler's accounts were asked that answered last."""
        self._collection = Collection(opening.sources(settings, clock, {}))
        self._accounts = self._collection.accounts(self._clock)
        self._keys = SubmissionKeys(self._collection.schedulers, history.sources_of)
        self._recommenders = opening.recommenders(settings, history, {})
        self.accountant = WasteAccountant(settings.waste, settings.cycles.scrape * speed)
        self.accountant.floors.restore(history.load_floors())
        self._booking = threading.Lock()
        self._steps, self._chronicle, self._hanging = steps, Chronicle(), AttachTopology()
        self._waits, self.flavours = WaitHistogram(clock()), FlavourBook(settings.flavours)
        self._warm_up = opening.warm_up(settings)
        self._replays = WindowReplayer()
        self._nights = TrainingScheduler(settings.storage.models_folder, clock())
        self.desk = Notifier(settings, history, clock)
        self.beat = CycleScheduler(self._cycles(settings), wall=self._clock)

    # What cycles do.

    def scrape(self) -> None:
        """Read every telemetry source; of one that fails its last good readings stay, with their own age."""
        for _ in self._collection.read("telemetry", within_s=PATIENCE * self.settings.cycles.scrape):
            self._learn(telemetry=self._collection.telemetry())

    def jobs(self) -> None:
        """Read the schedulers and what is known of switches, and record what changed."""
        for read in self._collection.read(*WITH_JOBS, within_s=PATIENCE * self.settings.cycles.jobs):
            merged = self._collection.snapshot(self._clock(), self.settings.waste.scheduler_max_age, self._keys)
            if merged is None or all(watched.role == "grid" for watched in read):
                continue
            topologies = [known for known in self._collection.facts("topology")
                          if isinstance(known, Fabric | NodeLinks)]
            hung = self.flavours.with_flavours(self._hanging.hang(merged, topologies, self.known.telemetry.gpus))
            self._learn(snapshot=hung, waits=self._waits.noted(hung.jobs))
            if any(watched.snapshot.fresh for watched in read if watched.role == "scheduler"):
                snapshot = with_parts(hung, self.known.telemetry.gpus)
                self._keep(partial(self._history.record_snapshot, snapshot, self._clock()))
            site = hung.rules.site
            self._compare_with(self.settings.with_scheduler_lines(dict(site.priority), site.power_down_s))

    def _compare_with(self, settings: Settings) -> None:
        """Take what the scheduler tells of itself for the incumbent, as soon as it does."""
        if settings is not self.settings:
            self._warm_up.end()
            self.settings, self._warm_up = settings, opening.warm_up(settings)

    def assess(self) -> None:
        """Put every watt into its class and book the energy since the last time."""
        self._learn(telemetry=self._collection.telemetry())
        known = self.known
        snapshot = known.snapshot or SchedulerSnapshot(self._clock())
        with self._booking:
            assessment = self.accountant.assess(snapshot, known.telemetry, self._clock())
            counters = self.accountant.counters
            self._learn(assessment=assessment, energy_joules=dict(counters.energy_joules),
                        unmeasured_seconds=dict(counters.unmeasured_seconds))
        self.degraded()

    def advise(self) -> None:
        """Ask the active policy, and those in its shadow, about every pending job."""
        snapshot, now_s = self.known.snapshot, self._clock()
        if snapshot is None or not may_advise(snapshot, now_s, self.settings) or not self._warm_up.over():
            return
        advice_inputs = self._model_roles.advice_inputs(self.settings, now_s)
        with lean_loading() if self.known.advice is None else nullcontext():  # policies are loaded when first used
            advice = Advisor(self.settings.advice, advice_inputs).advise(snapshot, now_s)
        self._learn(advice=advice, learned=(learned := self._model_roles.note(advice)))
        self._keep(lambda: self._history.record_recommendations(advice.recommendations))
        self._keep(lambda: self._history.record_abstentions(learned.silent.values()))

    def recommend(self, name: str) -> None:
        """Evaluate one recommender; its previous rows stay until there are new ones."""
        known, kind, now_s = self.standing(), subjects()[name], self._clock()
        if known.snapshot is None or not may_advise(known.snapshot, now_s, self.settings) or not self._warm_up.over():
            return
        for _ in self._collection.read(*kind.reads, within_s=PATIENCE * self.settings.recommenders.of(name).every):
            pass  # some sources may have answered; what is known of the others is taken with its age
        context = RecommenderContext(self._clock(), known.snapshot, known.telemetry, known.advice,
                                     tuple(self._collection.facts(*kind.reads)),
                                     self._model_roles.runtime_history, known.assessment)
        recommendation = self._recommenders[name].recommend(context).resting_on(known.snapshot.time_s)
        check(recommendation.metrics)
        with self._known_lock:
            self.known = replace(self.known, recommended={**self.known.recommended, name: recommendation})

    def record(self) -> None:
        """Write closed windows and learned floors, and complete what only accounting knows."""
        with self._booking:
            windows, floors = self.accountant.drain_closed(), self.accountant.floors.learned()
        self._write(windows, floors)
        self._complete()
        self._keep(lambda: self._history.record_flavours(self.flavours.of_recorded))
        self._keep(self._count)

    def _write(self, closed: Closed, floors: Mapping[tuple[str, str], IdleFloor]) -> None:
        grid = self._collection.facts("grid")
        self._keep(lambda: self._history.record_rollups(closed.rollups))
        self._keep(lambda: self._history.record_waste(closed.readings))
        self._keep(lambda: self._history.record_shares(priced(closed.shares, self.settings.costs, grid)))
        self._keep(lambda: self._history.save_floors(floors))

    def _count(self) -> None:
        """Take note of how advice fared and how large the history is."""
        self._learn(fared=fared(self._history, self._clock()))
        nodes = self.known.snapshot.nodes if self.known.snapshot else ()
        self._learn(following=self._history.following(),
                    communication=compared(self._history.placed(), TopologyCost(nodes)),
                    database_bytes=float(self._history.size_bytes()))

    def retention(self) -> None:
        """Thin out what is old."""
        self._keep(lambda: self._history.compact(self._clock(), opening.kept_for(self.settings)))

    def counterfactual(self) -> None:
        """Replay the time that has closed since the last run, and add up what it would have taken by policy."""
        period, known = self.settings.cycles.counterfactual, self.known.counterfactual
        since_s, until_s = known.next(self._clock(), period * self._speed)
        if since_s >= until_s or not self._warm_up.over():
            return
        learned = self.known.learned
        policies = dict.fromkeys((self.settings.incumbent, self.settings.advising(learned.leader), *learned.called))
        request = WindowRequest(self.settings.storage.url, since_s, until_s, tuple(policies),
                                models=str(self.settings.storage.models_folder),
                                applications=self.settings.advice.applications)
        window = self._replays.replay(request, max(period, REPLAY_S))
        if window is not None:
            self._book(known.plus(window, request.policies[0]), window, request.policies[0])

    def _book(self, total: Counterfactual, window: ReplayedWindow, incumbent: str) -> None:
        log.info("a closed window was replayed", extra={"speeds": window.speeds})
        for model, fault in window.faults.items():
            log.warning("an agent could not be replayed", extra={"model": model, "error": fault})
        self._learn(counterfactual=total)
        self._keep(lambda: self._history.save_simulated(total.totals()))
        standings = window.standings(incumbent)
        self._keep(lambda: self._learn(learned=self._model_roles.record_standings(standings, incumbent, self._clock())))

    def training(self) -> None:
        """Start tonight's training when it is time for it, and take note of how it goes."""
        self._learn(training=self._nights.look(self.settings, self._clock()))

    # Life.

    def start(self) -> None:
        """Begin to beat and wait for nobody; advice comes once it is rehearsed."""
        settle()
        self.beat.start()

    def stop(self) -> None:
        """Let go of every peer, let running cycles end, write what is open, release everything."""
        self._history.hurry()
        # First: a scrape that nobody waits for any more would go on for seconds, and what follows wants the processor.
        self._collection.leave()
        self._warm_up.end()
        self._replays.end()
        self._model_roles.end()
        self._nights.end()
        self.beat.stop(LAST_S)
        self._write(self.accountant.drain_all(), self.accountant.floors.learned())
        self._history.close()

    def reload(self, load: Callable[[], Settings]) -> None:
        """Put a new configuration in force at once, or raise ``ConfigError`` and keep the old one entire."""
        with self._change:
            try:
                settings = load()
                for key in ("url", "state", "backlog_bytes"):
                    if getattr(settings.storage, key) != getattr(self.settings.storage, key):
                        raise ConfigError(f"storage.{key}: another database needs a restart, not a reload")
                settings = opening.with_recorded_scheduler(settings, self._history)
                recommenders = opening.recommenders(settings, self._history,
                                                     opening.unchanged(self._recommenders, self.settings, settings))
                model_roles = self._model_roles if settings.storage == self.settings.storage else \
                    ModelRoles(settings, self._history, self._speed, self._clock())
                sources = opening.sources(settings, self._clock, opening.kept(self.sources, self.settings, settings))
            except (ConfigError, StoreError) as error:
                self._reloaded = False
                log.error("configuration not reloaded, the old one goes on", extra={"error": str(error)})
                raise ConfigError(str(error)) from error
            self._swap(settings, sources, recommenders, model_roles)
            self._reloaded, self._loaded_s = True, self._clock()
            log.info("configuration reloaded", extra={"sources": len(sources)})

    def _swap(self, settings: Settings, sources: list[Watched], recommenders: dict[str, Recommender],
              model_roles: ModelRoles) -> None:
        self._replays.end()
        self._collection.leave(but=sources)
        self.beat.stop()
        self._replays = WindowReplayer()
        if opening.heuristics(settings) != opening.heuristics(self.settings):
            self._warm_up.end()
            self._warm_up = opening.warm_up(settings)
        if model_roles is not self._model_roles:
            self._model_roles.end()
            self._model_roles = model_roles
        self._collection = Collection(sources, self._collection)
        self._accounts = self._collection.accounts(self._clock)
        self._keys = self._keys.renewed(self._collection.schedulers)
        self._recommenders = recommenders
        self._learn(recommended={name: recommendation for name, recommendation in self.known.recommended.items()
                                 if name in recommenders})
        if settings.waste != self.settings.waste or settings.cycles.scrape != self.settings.cycles.scrape:
            self._write(self.accountant.drain_all(), self.accountant.floors.learned())
            self.accountant = self.accountant.renewed(settings.waste, settings.cycles.scrape * self._speed)
        self.settings, self.desk = settings, self.desk.renewed(settings)
        self.flavours = FlavourBook(settings.flavours)
        self.beat = CycleScheduler(self._cycles(settings), wall=self._clock)
        self.beat.start()

    # What others ask.

    @property
    def sources(self) -> list[Watched]:
        """Return the sources in force."""
        return self._collection.sources

    @property
    def history(self) -> HistoryReader:
        """Return what is recorded, to be read."""
        return self._history

    @property
    def database(self) -> str:
        """Return a digest of the address of the database into which the daemon records."""
        return fingerprint(self.settings.storage.url)

    @property
    def runtime_history(self) -> RuntimeHistory | None:
        """Return how long jobs took that have ended."""
        return self._model_roles.runtime_history

    def now(self) -> float:
        """Return the daemon's time."""
        return self._clock()

    def standing(self) -> Known:
        """Return what is known without advice that rests on what is too old to act upon."""
        return current(self.known, self._clock(), ages(self.settings, self._speed, self.beat.health()))

    def unadvised(self) -> str:
        """Return why there is no advice, in words; '' when there is."""
        return unadvised(self._seen(), self.standing().advice, compiling=not self._warm_up.over())

    def degraded(self) -> tuple[Degradation, ...]:
        """Return what is wrong with what is known, the worst first."""
        return self._chronicle.look(self._seen())

    def unread(self) -> tuple[Degradation, ...]:
        """Return the configured schedulers whose newest good read is too old to act upon."""
        return tuple(degraded.unread(self._seen()))

    def process(self) -> Process:
        """Return how the daemon itself fares."""
        price, grams = in_force(self.settings.costs, self._collection.facts("grid"), self._clock())
        return Process(tuple(watched.status for watched in self.sources), self.beat.health(),
                       self.settings.cycles.advise, self.settings.waste.pue,
                       self.settings.costs.currency, price, grams, self._reloaded, self._loaded_s,
                       roles(self.settings, self.known.learned), self.degraded(), self.settings.waste.job_series,
                       self._history.recording, self.desk.counts())

    def _seen(self) -> HealthFacts:
        """Return what decides on whether what is known is degraded."""
        known, now_s, beats, settings = self.known, self._clock(), self.beat.health(), self.settings
        max_age_s = settings.waste.scheduler_max_age
        step_s, stepped_s = self._steps.look(now_s, max_age_s) if self._steps else (0.0, None)
        return HealthFacts(now_s, degraded.sources_seen(self.sources, settings, beats, self._speed), beats,
                           self._history.recording, degraded.unmeasured_share(known.assessment),
                           degraded.out_of_service(known.snapshot), step_s, stepped_s, max_age_s, settings.degraded,
                           self.desk.undelivered,
                           # Clocks that run fast are not set together.
                           degraded.latest_event_s(known.snapshot) if self._speed == 1.0 else None)

    def _cycles(self, settings: Settings) -> Iterable[Cycle]:
        periods = settings.cycles
        # assess and advise come half a beat after what they read; the first record waits a beat.
        return (Cycle("scrape", periods.scrape, self.scrape),
                Cycle("jobs", periods.jobs, self.jobs),
                Cycle("assess", periods.assess, self.assess, periods.assess / 2, ("scrape", "jobs")),
                Cycle("advise", periods.advise, self.advise, min(periods.jobs, periods.advise) / 2),
                Cycle("record", periods.record, self.record, periods.record),
                Cycle("retention", periods.retention, self.retention, periods.retention),
                Cycle("counterfactual", periods.counterfactual, self.counterfactual, periods.counterfactual),
                Cycle("training", TRAINING_S, self.training), *self.desk.cycles(self.standing),
                *(Cycle(name, settings.recommenders.of(name).every, partial(self.recommend, name), periods.advise)
                  for name in self._recommenders))

    def _learn(self, **parts: object) -> None:
        with self._known_lock:
            self.known = replace(self.known, **parts)  # type: ignore[arg-type]

    def _keep(self, write: Callable[[], object]) -> None:
        """Write to the history; when it cannot be written the recorder keeps the facts and the daemon goes on."""
        try:
            write()
        except StoreError as error:
            log.error("history cannot be written; it is kept and tried again", extra={"error": str(error)})

    def _complete(self) -> None:
        """Ask accounting for jobs that ended unseen or were shorter than a cycle."""
        for accounts in self._accounts:
            now_s = self._clock()
            # A clock that was set back must not ask for the future.
            since = min(self._accounted_s.get(accounts.name, now_s - ACCOUNTING_FIRST_S), now_s) - ACCOUNTING_OVERLAP_S
            accounted = accounts.finished(since, PATIENCE * self.settings.cycles.record)
            if accounted is None:
                continue
            self._accounted_s[accounts.name] = accounted.requested_s
            jobs = self._keys.jobs(accounts.name, accounted.jobs)
            self._learn(waits=self._waits.noted(jobs))
            self._keep(partial(self._history.record_finished, self.flavours.named(jobs)))
            for recommender in self._recommenders.values():
                if isinstance(recommender, RunListener):
                    self._keep(partial(recommender.finished, jobs))

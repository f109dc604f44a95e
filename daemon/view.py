"""The daemon as its web side sees it: what is known, as rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from ..exporters.metrics import Published
from ..exporters.source import TargetHealth
from ..storage.notices import Notice
from ..storage.power_classes import WASTED, PowerClass
from ..storage.recommendations import Recommendation
from ..storage.records import Job, SchedulerSnapshot
from . import flavour_rows
from .advice.advisor import users_of
from .advice.job_wait_estimate import JobWaitEstimate, JobWaitEstimates
from .advice.job_wait_worker import JobWaitWorker
from .advice.kubectl import cordon_command
from .advice.model_roles import ModelStatus
from .advice.node_scores import NodeScores
from .advice.recommender import RecommendationRow
from .advice.spare import spare_nodes
from .config import ConfigError, Settings
from .efficiency import EnergyBook
from .efficiency.digest import Saved
from .facts import published
from .flavour_rows import FlavourRow
from .learning.candidates import ACTIVE, STATES, Candidate
from .notices.digests import saved
from .pricing import Costing
from .pseudonyms import pseudonymised
from .range_clients import RangesOfSettings
from .recall import Recall
from .service import Service
from .waste import Assessment, GpuVerdict, NodeVerdict, run_of
from .waste.assessment import EnclosureVerdict
from .web.view import DecisionRow, ModelRow, NodeRow, ReloadError, SourceRow, Status, TargetGroup, View, WasteRow

if TYPE_CHECKING:
    from ..exporters.kubernetes.extender import PodQuestion


class DaemonView(View):
    """Answers what the web side may ask, from the service's memory, at once, from any thread."""

    def __init__(self, service: Service, load: Callable[[], Settings]) -> None:
        self._service, self._load = service, load
        self._estimates, self._ranges = JobWaitWorker(), RangesOfSettings(self.now)
        self._scores: tuple[object, object, NodeScores] | None = None
        self._recall = Recall()

    def close(self) -> None:
        """Work nothing out any more."""
        self._estimates.close()
        self._ranges.close()

    def published(self) -> Published:
        """Return the facts of the metrics page."""
        known = self._service.standing()
        page = published(known, self._service.process(), self._recall)
        key_file = self._service.settings.privacy.pseudonym_key_file
        if key_file is None:
            return page
        return pseudonymised(page, key_file, self.users())

    def recommendations(self) -> Sequence[Recommendation]:
        """Return present advice, the active policy first, the most urgent job first."""
        advice = self._service.standing().advice
        return advice.recommendations if advice else ()

    def recommended(self, name: str) -> Sequence[RecommendationRow]:
        """Return the rows of a recommender, what is worth most first."""
        recommendation = self._service.standing().recommended.get(name)
        return recommendation.rows if recommendation else ()

    def waste(self) -> Sequence[WasteRow]:
        """Return where every watt goes."""
        assessment = self._service.known.assessment
        if assessment is None:
            return ()
        flavours = {run_of(job): job.flavour or "" for job in self.jobs() if job.state.active}
        gpus = [row for gpu in assessment.gpu_verdicts
                for row in _gpu_rows(gpu, flavours.get(gpu.run, "") if gpu.run is not None else "")]
        hosts = [_host_row(node) for node in assessment.nodes]
        return gpus + hosts

    def nodes(self) -> Sequence[NodeRow]:
        """Return every node of the scheduler."""
        known = self._service.standing()
        if known.snapshot is None:
            return ()
        assessment = known.assessment or Assessment(self.now())
        verdicts = {verdict.node: verdict for verdict in assessment.nodes}
        wasted = assessment.wasted_by_node
        spare = spare_nodes(known.advice.power_down if known.advice else {}, verdicts)
        return [NodeRow(node, verdict.wall_watts, verdict.source, wasted.get(node.name), verdict.gpus,
                        spare.worth.get(node.name, ""), unknown_use=spare.unknown.get(node.name, ""),
                        unused_power_watts=verdict.unused_watts, power_down_command=cordon_command(node.name)
                        if node.name in spare.worth and node.vacant is not None else "")
                if (verdict := verdicts.get(node.name)) else NodeRow(node, unknown_use=spare.unknown.get(node.name, ""))
                for node in known.snapshot.nodes]

    def racks(self) -> Sequence[EnclosureVerdict]:
        """Return the racks with a meter of their own, taken apart."""
        assessment = self._service.known.assessment
        return assessment.enclosures if assessment else ()

    def jobs(self) -> Sequence[Job]:
        """Return pending, running and lately finished jobs."""
        snapshot = self._service.known.snapshot
        return snapshot.jobs if snapshot else ()

    def users(self) -> Collection[str]:
        """Return the users whom texts about the cluster may name: holders of jobs and of reservations."""
        known = self._service.standing()
        # Advice may be older than what is seen of the cluster now, and name a user whose last job has vanished since.
        return ((known.advice.users if known.advice else frozenset())
                | (users_of(known.snapshot) if known.snapshot else frozenset()))

    def book(self) -> EnergyBook:
        """Return the book of what jobs, users and nodes took."""
        settings = self._service.settings
        return EnergyBook(self._service.history, Costing(settings.costs, settings.waste.pue), self.now,
                          self._ranges.of(settings))

    def saved(self) -> Saved | None:
        """Return what advice would have saved; None where nothing was replayed."""
        return saved(self._service.settings, self._service.standing())

    def wait_estimates(self, job_id: str, within_s: float | None = None) -> tuple[JobWaitEstimate, ...]:
        """Return when a waiting job starts and what would start sooner; () when it does not wait, or nobody knows."""
        known, settings = self._service.standing(), self._service.settings
        snapshot = known.snapshot
        if snapshot is None or known.old or not snapshot.nodes:
            return ()
        policy, draws, runtimes = settings.live_incumbent, settings.advice.draws, self._service.runtime_history
        return self._estimates.ask(job_id, snapshot, (policy, draws), lambda: JobWaitEstimates(
            snapshot, self.now(), policy, runtimes, draws), within_s)

    def models(self) -> Sequence[ModelRow]:
        """Return all candidates, agents and heuristics, the active one first."""
        known = self._service.known.learned
        rows = [_model_row(known, candidate) for candidate in known.candidates]
        return sorted(rows, key=lambda row: (STATES.index(row.state), -(row.since_s or 0.0), row.model))

    def decisions(self) -> Sequence[DecisionRow]:
        """Return the decisions on trained agents, the newest first."""
        return [DecisionRow(decision.time_s, decision.model, decision.decision.value, decision.by, decision.reason)
                for decision in reversed(self._service.known.learned.decisions)]

    def notices(self, since_s: float, user: str = "") -> Sequence[Notice]:
        """Return the notices since a moment, the newest first."""
        return self._service.history.notices(since_s, user)

    def flavours(self, since_s: float) -> Sequence[FlavourRow]:
        """Return the flavours, with how many jobs requested each since a moment."""
        snapshot = self._service.known.snapshot or SchedulerSnapshot(self.now())
        return flavour_rows.rows(self._service.flavours, snapshot.nodes, snapshot.jobs,
                                 self._service.history.flavours(since_s))

    def sources(self) -> Sequence[SourceRow]:
        """Return how each source fares."""
        return [SourceRow(watched.name, watched.kind, watched.role, watched.status.success,
                          watched.status.last_success_s, watched.status.error, watched.health())
                for watched in self._service.sources]

    def targets(self) -> Sequence[TargetGroup]:
        """Return the exporters of the GPU nodes, in a stable order."""
        return [_target_group(watched.kind, health) for watched in self._service.sources
                for health in sorted(watched.health(), key=lambda health: health.target) if health.url]

    def now(self) -> float:
        """Return the daemon's time: its clock may be accelerated."""
        return self._service.now()

    def missing(self) -> Sequence[str]:
        """Return what is still missing before the daemon is ready; nothing when it is."""
        first = () if self._service.known.assessment else ("the first collection has not ended",)
        return (*first, *(condition.words for condition in self._service.unread()))

    def status(self) -> Status:
        """Return whether what is shown can be believed."""
        snapshot, missing = self._service.known.snapshot, tuple(self.missing())
        return Status(self.now(), not missing, missing, self._service.unadvised(), self._service.degraded(),
                      snapshot.time_s if snapshot else None, self._service.database)

    def prioritize(self, question: PodQuestion) -> Mapping[str, int]:
        """Return scores of nodes for a pod; nothing when what is known of the cluster is too old."""
        known, last = self._service.standing(), self._scores
        if known.snapshot is None or known.old:
            return {}
        # Two requests at once may both make them; they are the same. Standing advice is a new object while withdrawn.
        advice = known.advice.recommendations if known.advice else ()
        if last is None or last[0] is not known.snapshot or last[1] is not advice:
            last = self._scores = known.snapshot, advice, NodeScores(known.snapshot, advice)
        return last[2].of(question)

    def reload(self) -> None:
        """Read the configuration again and put it in force; raise ReloadError and keep the old one if it is bad."""
        try:
            self._service.reload(self._load)
        except ConfigError as error:
            raise ReloadError(str(error)) from error


def _model_row(known: ModelStatus, candidate: Candidate) -> ModelRow:
    model, row = candidate.name, ModelRow(
        candidate.name, candidate.state, candidate.decided_s, candidate.by, candidate.reason,
        jct_ratio=candidate.estimate, jct_ratio_low=candidate.low, jct_ratio_high=candidate.high)
    card, silent, regret = known.cards.get(model), known.silent.get(model), known.regrets.get(model)
    if card is not None:
        row = replace(row, trained_s=card.trained_s, source=card.source, metrics=card.metrics)
    if row.state == ACTIVE and candidate.learned and model not in known.called:
        row = replace(row, abstains="its code is being compiled", abstains_since_s=candidate.decided_s)
    if silent is not None:
        row = replace(row, abstains=silent.words, cause=silent.cause, abstains_since_s=silent.first_s)
    if regret is not None:
        row = replace(row, regret=regret.ratio, bad_days=regret.streak)
    return replace(row, drift=known.drift.get(model))


def _target_group(kind: str, health: TargetHealth) -> TargetGroup:
    """Return a page as Prometheus wants it: host and port as target, the rest as labels for relabelling."""
    page = urlsplit(health.url)
    labels = {"__scheme__": page.scheme, "__metrics_path__": page.path,
              "__meta_idlewatt_kind": kind, "__meta_idlewatt_node": health.node}
    return TargetGroup((page.netloc.rpartition("@")[2],),
                       labels | {f"__param_{name}": value for name, value in parse_qsl(page.query)})


def _gpu_rows(gpu: GpuVerdict, flavour: str) -> list[WasteRow]:
    floor = gpu.floor
    # A GPU without watts has a row all the same: what is not measured is not nothing.
    shares: list[tuple[PowerClass, float | None]] = [*gpu.shares()] or [(gpu.state, None)]
    return [WasteRow(gpu.partition, gpu.node, power_class, watts, power_class in WASTED, gpu.index, gpu.uuid,
                     gpu.user, gpu.account, gpu.job_id, gpu.activity, floor.watts if floor else None,
                     floor.source if floor else "", since_s=gpu.since_s, flavour=flavour,
                     run=gpu.run)
            for power_class, watts in shares]


def _host_row(node: NodeVerdict) -> WasteRow:
    return WasteRow(node.partition, node.node, node.host_class, node.host_watts if node.host_known else None,
                    node.host_class in WASTED, power_source=node.source, unused_power_watts=node.unused_watts)

"""Advice: for every pending job where to start it now, or why to hold it and until when; and which nodes to power down.

The policy that decides is the very object that was replayed; this file only asks it. An agent that has been promoted is
called first; where it abstains, the heuristic's advice goes out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...storage.columns import JobColumns
from ...storage.recommendations import Recommendation
from ...storage.records import ModelCard, Node, NodeState, SchedulerSnapshot
from ..agents.kinds import FAILURES
from ..durations import span
from ..policies import named
from ..replay.engine import Policy
from ..replay.site_speeds import FLAT_SPEEDS
from ..replay.state import ClusterState
from ..replay.workload import RuntimePredictor
from ..settings.advice import AdviceSettings
from ..settings.sections import FIRST_COME
from .diagnosis import Diagnosis
from .inference import DecisionContext, ModelAdvice, ModelResult, ServedModel, ask_model, expected, reasons
from .policy_advice import PolicyAdvice, RenderOptions, instead_of
from .wait_estimate import StartForecast, StartForecasts, WaitChange

log = logging.getLogger(__name__)

MOST_REASONED = 50
"""Recommendations that say what moved an agent: as many as people look at."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommendations of one round of advice."""

    issued_s: float
    recommendations: tuple[Recommendation, ...] = ()
    """The active policy first, the most urgent job first; then the shadows."""
    power_down: Mapping[str, str] = field(default_factory=dict)
    """Reason by node."""
    active: str = ""
    """The policy whose advice goes out: that of an agent, or the heuristic's where it abstains."""
    model_results: tuple[ModelResult, ...] = ()
    """What each agent answered, or why it did not."""
    snapshot_s: float | None = None
    """When the cluster was seen that this advice rests on."""
    policies: tuple[str, ...] = ()
    """All policies that advised, the active one first."""
    came: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Forecast starts, by policy and by whether they came within their interval, earlier or later."""
    withdrawn: bool = False
    """Whether it was withdrawn since, because the cluster has not been seen for too long."""
    needed_s: Mapping[str, float] = field(default_factory=dict)
    """When a job that waits is expected to start, by node."""
    users: frozenset[str] = frozenset()
    """Those whom its reasons may name."""


def users_of(snapshot: SchedulerSnapshot) -> frozenset[str]:
    """Return the users whom a text about what was seen of the cluster may name."""
    reserved = {user.removeprefix("-") for one in snapshot.rules.reservations for user in one.users}
    return frozenset({job.user for job in snapshot.jobs} | reserved) - {""}


@dataclass(frozen=True, slots=True)
class AdviceInputs:
    """What advice takes into account beside the snapshot."""

    served_models: Sequence[ServedModel] = ()
    """Agents to be called, the active one first."""
    incumbent: str = ""
    """The policy that changes in wait are measured against; without it there are none."""
    predictor: RuntimePredictor | None = None
    heuristic: str = ""
    """The one that was promoted; the configuration's where it is empty."""
    forecasts: StartForecasts | None = None
    """Forecasts of starts and their outcomes; without them starts have no intervals."""
    stale_s: float = float("inf")
    """Agents give no advice on a cluster that was last read longer ago."""
    past: JobColumns | None = None
    """Jobs that have ended, for orders that look back at those next to a job."""


class Advisor:
    """Asks policies about a live cluster."""

    def __init__(self, settings: AdviceSettings, advice_inputs: AdviceInputs = AdviceInputs()) -> None:
        self._settings, self._inputs = settings, advice_inputs
        advising = advice_inputs.heuristic or settings.policy or advice_inputs.incumbent or FIRST_COME
        self._heuristic = named(advising)
        self._shadows = [named(name) for name in settings.shadow if name != advising]
        # One state for all agents: those that learned by other speeds see the leader's.
        self._speeds = next((model.speeds for model in advice_inputs.served_models if not model.speeds.flat),
                            FLAT_SPEEDS)
        self._incumbent = named(advice_inputs.incumbent) if advice_inputs.incumbent else None

    @property
    def policy(self) -> str:
        """Return the name of the heuristic."""
        return self._heuristic.name

    def advise(self, snapshot: SchedulerSnapshot, now_s: float) -> Advice:
        """Return what to do with every pending job, and with nodes that nobody needs."""
        if not snapshot.nodes:
            return Advice(now_s, snapshot_s=snapshot.time_s)
        state = ClusterState.from_snapshot(snapshot, now_s, predictor=self._inputs.predictor,
                                           speeds=self._speeds, past=self._inputs.past)
        context = DecisionContext(state, snapshot, Diagnosis(snapshot, now_s), now_s, self._inputs.stale_s,
                        self._incumbent, self._settings.draws)
        heuristic = PolicyAdvice(state, self._heuristic, context.diagnosis)
        results = tuple(ask_model(served_model, context) for served_model in self._inputs.served_models)
        shadows = [PolicyAdvice(state, policy, context.diagnosis) for policy in self._shadows]
        shadows += [result.advice.answer for result in results if result.advice and not result.served_model.active]
        leader = next((result.advice for result in results if result.advice and result.served_model.active), None)
        if leader is None:
            first, rows = heuristic, self._rendered(heuristic, context, expected(self._heuristic, context).waits)
        else:
            first, rows = leader.answer, self._rendered_by_agent(leader, heuristic, context)
            shadows.insert(0, heuristic)
        aside = [row for answer in shadows for row in self._rendered(answer, context)]
        policies = tuple(dict.fromkeys((first.policy.name, *(answer.policy.name for answer in shadows))))
        rows = _with_intervals(rows, self._forecasts(state, first.policy))
        needed = first.needed_at()
        return Advice(now_s, (*rows, *aside), self._power_down(snapshot, needed, now_s), first.policy.name,
                      results, snapshot.time_s, policies, self._came, needed_s=needed,
                      users=users_of(snapshot))

    def _forecasts(self, state: ClusterState, policy: Policy) -> Mapping[tuple[str, float], StartForecast]:
        """Return when jobs start under the active policy; nothing where an agent fails at the futures."""
        book = self._inputs.forecasts
        try:
            return {} if book is None else book.renewed(state, policy, self._settings.draws)
        except FAILURES as error:
            log.warning("starts cannot be foretold", extra={"policy": policy.name, "error": str(error)})
            return {}

    @property
    def _came(self) -> Mapping[tuple[str, str], int]:
        book = self._inputs.forecasts
        return {} if book is None else book.counts

    def _rendered(self, answer: PolicyAdvice, context: DecisionContext,
                  changes: Mapping[int, WaitChange] | None = None) -> list[Recommendation]:
        """Return the recommendations of an answer; without ``changes`` they are a shadow's."""
        options = RenderOptions(context.now_s, self._aim(answer.policy), changes is None, changes or {},
                        self._settings.applications, context.snapshot.time_s)
        return [row for _, row in answer.recommend(options)]

    def _rendered_by_agent(self, leader: ModelAdvice, heuristic: PolicyAdvice,
                           context: DecisionContext) -> list[Recommendation]:
        """Return an agent's recommendations with their reasons, and what the heuristic would have recommended."""
        otherwise = {(row.job_id, row.submit_s): instead_of(row) for row in self._rendered(heuristic, context)}
        options = RenderOptions(context.now_s, self._aim(leader.agent), changes=leader.changes,
                        applications=self._settings.applications, snapshot_s=context.snapshot.time_s)
        return [replace(advised, instead=otherwise.get((advised.job_id, advised.submit_s)),
                        reasons=reasons(leader.agent, context.state, row) if number < MOST_REASONED else ())
                for number, (row, advised) in enumerate(leader.answer.recommend(options))]

    def _aim(self, policy: Policy) -> str:
        """Return a policy's objective: an agent's is that of its training, a heuristic's that of the configuration."""
        card: ModelCard | None = getattr(policy, "card", None)
        return self._settings.objective if card is None or not card.objective else card.objective

    def _power_down(self, snapshot: SchedulerSnapshot, needed: Mapping[str, float], now_s: float) -> dict[str, str]:
        """Return empty nodes that no known job needs soon, but for the spare ones of each partition."""
        spare: dict[str, int] = {}
        reasons = {}
        for node in sorted(snapshot.nodes, key=lambda node: (needed.get(node.name, float("inf")), node.name)):
            if not is_empty(node) or needed.get(node.name, float("inf")) < now_s + self._settings.power_down_after:
                continue
            if any(spare.get(partition, 0) < self._settings.spare_nodes for partition in node.partitions):
                spare |= {partition: spare.get(partition, 0) + 1 for partition in node.partitions}
                continue
            until = needed.get(node.name)
            reasons[node.name] = ("no known job needs it" if until is None
                                  else f"no known job needs it for {span(until - now_s)}")
        return reasons


def _with_intervals(rows: Sequence[Recommendation],
                    forecasts: Mapping[tuple[str, float], StartForecast]) -> list[Recommendation]:
    """Return recommendations to hold jobs with the intervals within which they start, unless all futures agree."""
    return [row if (known := forecasts.get((row.job_id, row.submit_s))) is None or row.action != "hold"
            or not known.spread
            else replace(row, start_interval_s=(known.low_s, known.high_s)) for row in rows]


def is_empty(node: Node) -> bool:
    """Tell whether a node is up, and neither in use nor kept for anybody."""
    empty = not node.gpus_allocated and not node.cpus_allocated if node.vacant is None else node.vacant
    return node.state is NodeState.UP and not node.reservation and empty

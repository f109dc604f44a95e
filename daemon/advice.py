"""Advice: for every pending job where to start it now, or why to hold it and until when; and which nodes to power down.

The policy that decides is the very object that was replayed; this file only asks it and puts its answer into words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..storage.durations import Duration
from ..storage.records import Alternative, Job, JobState, Node, NodeState, Placement, Recommendation, SchedulerSnapshot
from .diagnosis import Diagnosis
from .policies import Heuristic, named
from .policies.registry import parse
from .replay.engine import Expectation, forecast
from .replay.state import ClusterState, Start

FORECAST_S = 30 * 86400.0
MOST_ALTERNATIVES = 3


class AdviceSettings(BaseModel):
    """Who advises, who is only listened to, and what is kept in reserve."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    policy: str = "limit-aged+best-fit+easy"
    """In charge until a learned policy has earned it: order+placement+backfill."""
    objective: str = "wait"
    """What the policy is after, as a label of every recommendation."""
    shadow: tuple[str, ...] = ("fifo+first-fit",)
    """Policies whose advice is recorded beside it for comparison, and shown as such."""
    spare_nodes: Annotated[int, Field(ge=0)] = 1
    """Empty nodes per partition that are never advised to be powered down: the next job should not wait for a boot."""
    power_down_after: Duration = 1800.0
    """A node is worth powering down when no known job needs it for at least so long; a boot costs minutes and watts."""

    @field_validator("policy")
    @classmethod
    def _known(cls, name: str) -> str:
        if parse(name).order.oracle:
            raise ValueError(f"{name!r} looks at true run times, which nobody knows in advance")
        return name

    @field_validator("shadow")
    @classmethod
    def _all_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cls._known(name) for name in names)


@dataclass(frozen=True, slots=True)
class Advice:
    """What was advised at one moment."""

    issued_s: float
    recommendations: tuple[Recommendation, ...] = ()
    """The policy in charge first, the most urgent job first; then the shadows."""
    power_down: Mapping[str, str] = field(default_factory=dict)
    """Reason by node."""


class Advisor:
    """Asks policies about a live cluster."""

    def __init__(self, settings: AdviceSettings) -> None:
        self._settings = settings
        self._in_charge = named(settings.policy)
        self._shadows = [named(name) for name in settings.shadow if name != settings.policy]

    @property
    def policy(self) -> str:
        """Return the name of the policy in charge."""
        return self._in_charge.name

    def advise(self, snapshot: SchedulerSnapshot, now_s: float) -> Advice:
        """Return what to do with every pending job, and with nodes that nobody needs."""
        if not snapshot.nodes:
            return Advice(now_s)
        diagnosis = Diagnosis(snapshot, now_s)
        state = ClusterState.from_snapshot(snapshot, now_s)
        first = _Round(state, self._in_charge, diagnosis)
        recommendations = list(first.recommend(now_s, self._settings.objective, shadow=False))
        for policy in self._shadows:
            rest = _Round(state, policy, diagnosis)
            recommendations += rest.recommend(now_s, self._settings.objective, shadow=True)
        return Advice(now_s, tuple(recommendations), self._power_down(snapshot, first.needed_at(), now_s))

    def _power_down(self, snapshot: SchedulerSnapshot, needed: Mapping[str, float], now_s: float) -> dict[str, str]:
        """Return empty nodes that no known job needs soon, but for the spare ones of each partition."""
        spare: dict[str, int] = {}
        reasons = {}
        for node in sorted(snapshot.nodes, key=lambda node: (needed.get(node.name, float("inf")), node.name)):
            if not _empty(node) or needed.get(node.name, float("inf")) < now_s + self._settings.power_down_after:
                continue
            if any(spare.get(partition, 0) < self._settings.spare_nodes for partition in node.partitions):
                spare |= {partition: spare.get(partition, 0) + 1 for partition in node.partitions}
                continue
            until = needed.get(node.name)
            reasons[node.name] = ("no known job needs it" if until is None
                                  else f"no known job needs it for {_minutes(until - now_s)}")
        return reasons


def _empty(node: Node) -> bool:
    return node.state is NodeState.UP and not node.reservation and not node.gpus_allocated and not node.cpus_allocated


class _Round:
    """One policy's answer about one state."""

    def __init__(self, state: ClusterState, policy: Heuristic, diagnosis: Diagnosis) -> None:
        self._state, self._policy, self._diagnosis = state, policy, diagnosis
        self._starts = {action.job: action for action in policy.decide(state) if isinstance(action, Start)}
        self._expected = forecast(state, policy, FORECAST_S)
        self._rejected = {rejection.job: rejection.reason for rejection in state.rejected}

    def recommend(self, now_s: float, objective: str, *, shadow: bool) -> Iterator[Recommendation]:
        """Yield a recommendation for each pending job: those to start in the policy's order, then by expected start.

        The tasks of an array share one: that of the task which starts first.
        """
        jobs, told = self._state.records, set[tuple[str, float]]()
        waiting = [row for row, job in enumerate(jobs) if job.state is JobState.PENDING and row not in self._starts]
        waiting.sort(key=lambda row: (self._when(row), jobs[row].submit_s, jobs[row].job_id))
        for row in (*self._starts, *waiting):
            job = jobs[row]
            if job.key in told or job.state is not JobState.PENDING:
                continue
            told.add(job.key)
            if row in self._starts:
                yield self._start(job, self._starts[row], now_s, objective, shadow)
            else:
                yield self._hold(job, self._expected.get(row), row, now_s, objective, shadow)

    def needed_at(self) -> dict[str, float]:
        """Return when each node is first expected to be used by a waiting job."""
        first: dict[str, float] = {}
        for expectation in self._expected.values():
            for node in expectation.placement.nodes:
                first[node] = min(first.get(node, float("inf")), expectation.start)
        return first

    def _when(self, row: int) -> float:
        expected = self._expected.get(row)
        return expected.start if expected else float("inf")

    def _start(self, job: Job, action: Start, now_s: float, objective: str, shadow: bool) -> Recommendation:
        names = self._state.cluster.names
        placement = Placement(tuple(names[node] for node in action.nodes), action.gpus)
        alternatives = () if shadow else tuple(self._alternatives(job, placement))
        return Recommendation(job.job_id, job.submit_s, job.partition, now_s, self._policy.name, objective, "start",
                              self._diagnosis.why_here(job, placement), placement, now_s, alternatives, shadow)

    def _alternatives(self, job: Job, placement: Placement) -> Iterator[Alternative]:
        """Yield other nodes that have room for a job of one node, the next best first."""
        if len(placement.nodes) > 1:
            return
        others = [name for name in self._diagnosis.nodes_with_room(job, placement.gpus[0])
                  if name not in placement.nodes]
        for name in others[:MOST_ALTERNATIVES]:
            other = Placement((name,), placement.gpus)
            yield Alternative(other, self._diagnosis.why_here(job, other))

    def _hold(self, job: Job, expected: Expectation | None, row: int, now_s: float, objective: str,
              shadow: bool) -> Recommendation:
        reason = self._rejected.get(row)
        words = f"can never run: {reason}" if reason else self._diagnosis.why_wait(job)
        return Recommendation(job.job_id, job.submit_s, job.partition, now_s, self._policy.name, objective, "hold",
                              words, expected.placement if expected else None, expected.start if expected else None,
                              (), shadow)


def _minutes(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.0f} min"

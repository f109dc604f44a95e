"""One policy's recommendations for one state: what to start where, what to hold until when, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ...storage.recommendations import Alternative, Instead, Placement, Recommendation
from ...storage.records import Job, JobState
from ..replay.admission.gate import AHEAD, UNKNOWN, Hold
from ..replay.engine import Expectation, Policy, forecast
from ..replay.state import ClusterState
from .diagnosis import COMES_LATER, Diagnosis
from .feasible_starts import feasible_starts, why_held
from .following import command_for
from .topology_cost import SOURCE, application_of, relative_speed
from .wait_estimate import HORIZON_S, WaitChange

MOST_ALTERNATIVES = 3
NOT_THAT_SHAPE = "GPUs are free, but not in the shape it asks for with the CPUs and memory beside them"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How recommendations are rendered."""

    now_s: float
    objective: str
    shadow: bool = False
    changes: Mapping[int, WaitChange] = field(default_factory=dict)
    """Expected change in wait against the incumbent, by row of the state."""
    applications: Mapping[str, str] = field(default_factory=dict)
    """The application whose measured speeds jobs follow, by pattern of their names."""
    snapshot_s: float | None = None
    """When the cluster was seen so."""


class PolicyAdvice:
    """The decisions of a policy on a state; whatever the policy raises comes out when this is made."""

    def __init__(self, state: ClusterState, policy: Policy, diagnosis: Diagnosis) -> None:
        """Let the policy decide; ValueError when its decision cannot be carried out."""
        self.policy = policy
        self._diagnosis = diagnosis
        self._feasible = feasible_starts(state, policy)
        self._state = self._feasible.state
        self._whys: dict[tuple[str, float], Hold] = {}
        starts = self._feasible.starts
        indexes = diagnosis.indexes.hand_out(starts.values())
        self._starts = {row: (placement, free) for (row, placement), free in zip(starts.items(), indexes, strict=True)}
        self._expected = forecast(self._state, policy, HORIZON_S)
        self._rejected = {rejection.job: rejection.reason for rejection in self._state.rejected}

    def recommend(self, options: RenderOptions) -> Iterator[tuple[int, Recommendation]]:
        """Yield row and advice for each pending job: those to start in the policy's order, then by expected start.

        The tasks of an array share one: that of the task which starts first.
        """
        jobs, seen = self._state.records, set[tuple[str, float]]()
        waiting = [row for row, job in enumerate(jobs) if job.state is JobState.PENDING and row not in self._starts]
        waiting.sort(key=lambda row: (self._when(row), jobs[row].submit_s, jobs[row].job_id))
        taken = Counter[str]()
        for row in (*self._starts, *waiting):
            job = jobs[row]
            if job.key not in seen and job.state is JobState.PENDING:
                seen.add(job.key)
                advised = (self._start(job, row, options, taken) if row in self._starts
                           else self._hold(job, row, options))
                change = options.changes.get(row)
                yield row, advised if change is None else replace(advised, wait_change_s=change.mean_s,
                                                                  interval_s=change.interval_s)
            if row in self._starts:
                _count(self._starts[row][0], taken)

    def needed_at(self) -> dict[str, float]:
        """Return when each node is first expected to be used by a waiting job."""
        first = {node: self._state.now for placement, _ in self._starts.values() for node in placement.nodes}
        for expectation in self._expected.values():
            for node in expectation.placement.nodes:
                first[node] = min(first.get(node, float("inf")), expectation.start)
        return first

    def _when(self, row: int) -> float:
        expected = self._expected.get(row)
        return expected.start if expected else float("inf")

    def _start(self, job: Job, row: int, options: RenderOptions, taken: Mapping[str, int]) -> Recommendation:
        """Return advice to start, beside the GPUs of each node that are ``taken`` by what is to start before."""
        placement, indexes = self._starts[row]
        why = self._feasible.reasons.get(row) or self._diagnosis.why_here(job, placement, taken)
        alternatives = () if options.shadow else (*self._alternatives(job, placement, taken),
                                                 *self._scattered(job, placement, options.applications))
        return Recommendation(job.job_id, job.submit_s, job.partition, options.now_s, self.policy.name,
                              options.objective, "start", why, placement,
                              options.now_s, alternatives, options.shadow,
                              communication_cost=self._diagnosis.topology_cost.cost(placement, indexes),
                              gpu_indexes=indexes, raw_id=job.raw_id, snapshot_s=options.snapshot_s,
                              command="" if row in self._feasible.unlike
                              else command_for(job, placement, self._state.cluster.names))

    def _alternatives(self, job: Job, placement: Placement, taken: Mapping[str, int]) -> Iterator[Alternative]:
        """Yield other placements that have room, what they cost in communication, and why they are named."""
        names = self._diagnosis.nodes_with_room(job, placement, taken)
        others = self._other_nodes(job, placement, names, taken) if len(placement.nodes) == 1 else \
            self._other_groups(placement, names)
        for other, reason in others:
            yield Alternative(other, reason, self._diagnosis.cost_now(other))

    def _scattered(self, job: Job, placement: Placement, applications: Mapping[str, str]) -> Iterator[Alternative]:
        """Yield the GPUs that are left over here and there, where it is known what closeness is worth to the job."""
        application = application_of(job.name, applications)
        other = self._diagnosis.left_over(job, placement) if application and sum(placement.gpus) > 1 else None
        if other is not None and len(other.nodes) > len(placement.nodes):
            yield Alternative(other, f"scattered over what is left over; its speed by {SOURCE} for {application}",
                              self._diagnosis.cost_now(other), relative_speed(application, other, placement))

    def _other_nodes(self, job: Job, placement: Placement, names: list[str],
                     taken: Mapping[str, int]) -> Iterator[tuple[Placement, str]]:
        """Yield other nodes for a job of one node, the next best first."""
        for name in [name for name in names if name not in placement.nodes][:MOST_ALTERNATIVES]:
            other = Placement((name,), placement.gpus)
            yield other, self._diagnosis.why_here(job, other, taken)

    def _other_groups(self, placement: Placement, names: list[str]) -> Iterator[tuple[Placement, str]]:
        """Yield the nodes that are closest together, and the fullest ones wherever they are, where they are others."""
        count = len(placement.nodes)
        seen = {frozenset(placement.nodes)}
        for nodes, reason in ((self._diagnosis.topology_cost.closest(names, count), "the closest together"),
                              (tuple(names[:count]), "the fullest nodes, however far apart")):
            if len(nodes) == count and frozenset(nodes) not in seen:
                seen.add(frozenset(nodes))
                yield Placement(nodes, placement.gpus), reason

    def _hold(self, job: Job, row: int, options: RenderOptions) -> Recommendation:
        expected: Expectation | None = self._expected.get(row)
        placement = expected.placement if expected else None
        action, text, cause = self._why(job, row)
        return Recommendation(job.job_id, job.submit_s, job.partition, options.now_s, self.policy.name,
                              options.objective, action, text, placement, expected.start if expected else None, (),
                              options.shadow, cause=cause, raw_id=job.raw_id, snapshot_s=options.snapshot_s,
                              communication_cost=self._diagnosis.topology_cost.cost(placement))

    def _why(self, job: Job, row: int) -> tuple[str, str, str]:
        """Return the action (``hold`` or ``unknown``), the reason and the cause."""
        hold = self._whys.get(job.key) or why_held(self._feasible, row, job)
        self._whys[job.key] = hold
        if hold.cause == UNKNOWN:
            return "unknown", hold.reason, hold.cause
        if hold.reason:
            return "hold", hold.reason, hold.cause
        if hold.cause == AHEAD:
            return "hold", COMES_LATER, AHEAD
        reason = self._rejected.get(row)
        text = f"can never run: {reason}" if reason and self._feasible.gate is None else self._diagnosis.why_wait(job)
        return "hold", text if text != COMES_LATER else NOT_THAT_SHAPE, hold.cause


def _count(placement: Placement, taken: Counter[str]) -> None:
    taken.update(dict(zip(placement.nodes, placement.gpus, strict=True)))


def instead_of(row: Recommendation) -> Instead:
    """Return a recommendation in the form that stands beside an agent's."""
    return Instead(row.policy, row.action, row.placement, row.expected_start_s)

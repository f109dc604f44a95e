"""One policy's answer about one state, in words: what to start where, what to hold until when, and why."""

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
    """How an answer is given."""

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
    """What a policy says; whatever it raises comes out here, at once."""

    def __init__(self, state: ClusterState, policy: Policy, diagnosis: Diagnosis) -> None:
        """Ask; ValueError when what it says cannot be carried out."""
        self.policy = policy
        self._diagnosis = diagnosis
        self._consent = feasible_starts(state, policy)
        self._state = self._consent.state
        self._whys: dict[tuple[str, float], Hold] = {}
        starts = self._consent.starts
        indexes = diagnosis.indexes.hand_out(starts.values())
        self._starts = {row: (placement, free) for (row, placement), free in zip(starts.items(), indexes, strict=True)}
        self._expected = forecast(self._state, policy, HORIZON_S)
        self._rejected = {rejection.job: rejection.reason for rejection in self._state.rejected}

    def recommend(self, options: RenderOptions) -> Iterator[tuple[int, Recommendation]]:
        """Yield row and advice for each pending job: those to start in the policy's order, then by expected start.

        The tasks of an array share one: that of the task which starts first.
        """
        jobs, told = self._state.records, set[tuple[str, float]]()
        waiting = [row for row, job in enumerate(jobs) if job.state is JobState.PENDING and row not in self._starts]
        waiting.sort(key=lambda row: (self._when(row), jobs[row].submit_s, jobs[row].job_id))
        taken = Counter[str]()
        for row in (*self._starts, *waiting):
            job = jobs[row]
            if job.key not in told and job.state is JobState.PENDING:
                told.add(job.key)
                said = self._start(job, row, options, taken) if row in self._starts else self._hold(job, row, options)
                change = options.changes.get(row)
                yield row, said if change is None else replace(said, wait_change_s=change.mean_s,
                                                               interval_s=change.interval_s)
            if row in self._starts:
                _count(self._starts[row][0], taken)

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

    def _start(self, job: Job, row: int, options: RenderOptions, taken: Mapping[str, int]) -> Recommendation:
        """Return advice to start, beside the GPUs of each node that are ``taken`` by what is to start before."""
        placement, indexes = self._starts[row]
        why = self._consent.words.get(row) or self._diagnosis.why_here(job, placement, taken)
        alternatives = () if options.shadow else (*self._alternatives(job, placement, taken),
                                                 *self._scattered(job, placement, options.applications))
        return Recommendation(job.job_id, job.submit_s, job.partition, options.now_s, self.policy.name,
                              options.objective, "start", why, placement,
                              options.now_s, alternatives, options.shadow,
                              communication_cost=self._diagnosis.topology_cost.cost(placement, indexes),
                              gpu_indexes=indexes, raw_id=job.raw_id, snapshot_s=options.snapshot_s,
                              command="" if row in self._consent.unlike
                              else command_for(job, placement, self._state.cluster.names))

    def _alternatives(self, job: Job, placement: Placement, taken: Mapping[str, int]) -> Iterator[Alternative]:
        """Yield other placements that have room, what they cost in communication, and what else is to say."""
        names = self._diagnosis.nodes_with_room(job, max(placement.gpus), taken)
        others = self._other_nodes(job, placement, names, taken) if len(placement.nodes) == 1 else \
            self._other_groups(placement, names)
        for other, reason in others:
            yield Alternative(other, reason, self._diagnosis.cost_now(other))

    def _scattered(self, job: Job, placement: Placement, applications: Mapping[str, str]) -> Iterator[Alternative]:
        """Yield the GPUs that are left over here and there, where it is known what closeness is worth to the job."""
        application, gpus = application_of(job.name, applications), sum(placement.gpus)
        other = self._diagnosis.left_over(job, gpus) if application and gpus > 1 else None
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
        told = {frozenset(placement.nodes)}
        for nodes, reason in ((self._diagnosis.topology_cost.closest(names, count), "the closest together"),
                              (tuple(names[:count]), "the fullest nodes, however far apart")):
            if len(nodes) == count and frozenset(nodes) not in told:
                told.add(frozenset(nodes))
                yield Placement(nodes, placement.gpus), reason

    def _hold(self, job: Job, row: int, options: RenderOptions) -> Recommendation:
        expected: Expectation | None = self._expected.get(row)
        placement = expected.placement if expected else None
        action, words, cause = self._why(job, row)
        return Recommendation(job.job_id, job.submit_s, job.partition, options.now_s, self.policy.name,
                              options.objective, action, words, placement, expected.start if expected else None, (),
                              options.shadow, cause=cause, raw_id=job.raw_id, snapshot_s=options.snapshot_s,
                              communication_cost=self._diagnosis.topology_cost.cost(placement))

    def _why(self, job: Job, row: int) -> tuple[str, str, str]:
        """Return whether a job is held or nothing is known of it, why, and of what kind that is."""
        hold = self._whys.get(job.key) or why_held(self._consent, row, job)
        self._whys[job.key] = hold
        if hold.cause == UNKNOWN:
            return "unknown", hold.words, hold.cause
        if hold.words:
            return "hold", hold.words, hold.cause
        if hold.cause == AHEAD:
            return "hold", COMES_LATER, AHEAD
        reason = self._rejected.get(row)
        words = f"can never run: {reason}" if reason and self._consent.gate is None else self._diagnosis.why_wait(job)
        return "hold", words if words != COMES_LATER else NOT_THAT_SHAPE, hold.cause


def _count(placement: Placement, taken: Counter[str]) -> None:
    taken.update(dict(zip(placement.nodes, placement.gpus, strict=True)))


def instead_of(said: Recommendation) -> Instead:
    """Return advice as it stands beside that of an agent."""
    return Instead(said.policy, said.action, said.placement, said.expected_start_s)

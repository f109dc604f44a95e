"""When a waiting job starts under what the site runs, what stands before it, and which smaller shape would start now.

The start is an interval over futures in which run times are drawn from those of similar jobs, and beside it the
latest: every job using its whole limit. Nobody new arrives in either, so that both may still be too early.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...storage.recommendations import Placement, Recommendation
from ...storage.records import Job, JobState, SchedulerSnapshot
from ..policies import named
from ..replay.admission.gate import AHEAD, LICENSES, LIMIT, ROOM
from ..replay.arrays import WAITING
from ..replay.engine import followed, queued
from ..replay.monte_carlo import drawn
from ..replay.rules import Rules
from ..replay.state import ClusterState
from ..replay.workload import RuntimePredictor
from .diagnosis import Diagnosis
from .feasible_starts import feasible_starts
from .policy_advice import PolicyAdvice, RenderOptions
from .smaller_shapes import SmallerRequest, smaller_shapes
from .wait_estimate import HORIZON_S, LEAST, LEVEL, futures

MOST_AHEAD = 20
"""Jobs before one that are listed by id."""
TIMELY = (ROOM, AHEAD, LIMIT, LICENSES)
"""Holds that end as other jobs end; when other holds end is not known."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A job that stands before another: it comes first in the queue, or holds nodes that the other is to start on."""

    job_id: str
    state: JobState
    partition: str
    gpus: int
    free_s: float | None
    """When a running one ends at the latest, and when a waiting one is expected to start; None when not known."""


@dataclass(frozen=True, slots=True)
class JobWaitEstimate:
    """What is known of a waiting job's start; times are seconds since the epoch."""

    job_id: str
    submit_s: float
    issued_s: float
    snapshot_s: float
    policy: str
    """The site's own policy, as far as it is known: the start is forecast as if it decided."""
    verdict: str
    """``starts`` now, ``waits``, or ``unknown`` where a fact is missing that decides."""
    reason: str
    placement: Placement | None
    latest_s: float | None
    """Start if all jobs use their whole limits; None when that is never within 30 days, or not known."""
    median_s: float | None
    interval_s: tuple[float | None, float | None] | None
    """Within which it starts in 95 % of the futures, None at the end for later than 30 days; None where unknown."""
    futures: int
    """How many futures were drawn."""
    position: int | None
    """Jobs that come first in its partitions; None where the order is not known."""
    ahead: tuple[Ahead, ...]
    """What stands before it: running jobs on the nodes that it waits for, then jobs that come first."""
    shapes: tuple[SmallerRequest, ...]
    """The largest smaller requests of each kind, and what would become of them now."""


class JobWaitEstimates:
    """Gives wait estimates on one snapshot; what all jobs share is worked out once, for the first of them."""

    def __init__(self, snapshot: SchedulerSnapshot, now_s: float, policy: str,
                 predictor: RuntimePredictor | None = None, draws: int = 0) -> None:
        self.snapshot, self._now_s, self._draws = snapshot, now_s, draws
        self._policy = named(policy)
        self._state = ClusterState.from_snapshot(snapshot, now_s, predictor=predictor)
        self._lock = threading.Lock()
        self._estimates: dict[tuple[str, float], JobWaitEstimate] = {}
        self._advice: dict[int, Recommendation] | None = None
        self._starts: np.ndarray | None = None

    def of(self, job_id: str) -> tuple[JobWaitEstimate, ...]:
        """Return the wait estimate of a job that waits, or of the first task of an array; () of any other.

        Where several clusters have a waiting job of that id, there is one of each, the last submission first.
        """
        with self._lock:
            return tuple(self._estimate(row) for row in self._rows(job_id))

    def _rows(self, job_id: str) -> list[int]:
        """Return the first row of each job: those of two partitions or users, or of one id, are of two clusters."""
        by_owner: dict[tuple[str, str], dict[float, int]] = {}
        for row, job in enumerate(self._state.records):
            if job.state is JobState.PENDING and job_id in (job.job_id, job.array):
                same = by_owner.setdefault((job.partition, job.user), {})
                if not same or job.job_id == self._state.records[next(iter(same.values()))].job_id:
                    same.setdefault(job.submit_s, row)
        rows = [row for same in by_owner.values() for row in same.values()]
        return sorted(rows, key=lambda row: -self._state.records[row].submit_s)

    def _estimate(self, row: int) -> JobWaitEstimate:
        key = self._state.records[row].key
        if key not in self._estimates:
            self._estimates[key] = self._wait_estimate(row)
        return self._estimates[key]

    def _wait_estimate(self, row: int) -> JobWaitEstimate:
        if self._advice is None:
            self._work_out()
        job, advised = self._state.records[row], self._recommendation(row)
        verdict = {"start": "starts", "unknown": "unknown"}.get(advised.action, "waits")
        timely = verdict == "waits" and advised.cause in TIMELY
        median_s, interval_s, drawn_s = self._interval(row) if timely else (None, None, 0)
        position, first = self._first(row)
        shapes = () if verdict == "starts" or not timely else self._shapes(job)
        ahead = () if verdict == "starts" else (*self._holders(advised.placement), *first)[:MOST_AHEAD]
        return JobWaitEstimate(job.job_id, job.submit_s, self._now_s, self.snapshot.time_s, self._policy.name, verdict,
                               advised.reason, advised.placement,
                               advised.expected_start_s if verdict != "unknown" else None, median_s, interval_s,
                               drawn_s, position if verdict != "starts" else 0, ahead, shapes)

    def _work_out(self) -> None:
        self._feasible = feasible_starts(self._state, self._policy)
        answer = PolicyAdvice(self._state, self._policy, Diagnosis(self.snapshot, self._now_s))
        self._advice = dict(answer.recommend(RenderOptions(self._now_s, "", shadow=True)))
        number = futures(self._feasible.state, self._draws)
        if number >= LEAST:
            rng = np.random.default_rng(0)
            self._starts = np.array([followed(drawn(self._feasible.state, rng), self._policy,
                                              HORIZON_S).arrays.jobs.start for _ in range(number)])

    def _recommendation(self, row: int) -> Recommendation:
        """Return the recommendation for a row; tasks of an array share that of the one which starts first."""
        assert self._advice is not None
        key = self._state.records[row].key
        return self._advice.get(row) or next(advised for advised in self._advice.values()
                                             if (advised.job_id, advised.submit_s) == key)

    def _interval(self, row: int) -> tuple[float | None, tuple[float | None, float | None] | None, int]:
        """Return the median start, the interval, and over how many futures; nothing where too few were drawn."""
        if self._starts is None or self._feasible.state.arrays.jobs[row].status != WAITING:
            return None, None, 0  # a held job does not start in a forecast: that says nothing of when it would
        starts = np.nan_to_num(self._starts[:, row], nan=np.inf)
        low, middle, high = (float(value) if np.isfinite(value) else None for value in np.quantile(
            starts, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], method="inverted_cdf"))
        return middle, (low, high), len(starts)

    def _first(self, row: int) -> tuple[int | None, list[Ahead]]:
        """Return how many waiting jobs of its partitions come first, and the first of them."""
        rules = getattr(self._policy, "rules", None)
        if not isinstance(rules, Rules):
            return None, []
        order, jobs = queued(self._state, rules), self._state.records
        if row not in order:
            return None, []
        partitions = set(jobs[row].partition.split(","))
        before = [other for other in order[:order.index(row)] if partitions & set(jobs[other].partition.split(","))]
        listed = list({jobs[other].key: other for other in reversed(before)}.values())[::-1]
        return len(before), [self._waiting(other) for other in listed[:MOST_AHEAD]]

    def _waiting(self, row: int) -> Ahead:
        job, advised = self._state.records[row], self._recommendation(row)
        start_s = self._now_s if advised.action == "start" else advised.expected_start_s
        return Ahead(job.job_id, job.state, job.partition, job.request.gpus, start_s)

    def _holders(self, placement: Placement | None) -> Sequence[Ahead]:
        """Return the running jobs on the nodes that a job is expected to start on, the first to end first."""
        nodes = set(placement.nodes) if placement else set()
        held: Mapping[str, Job] = {job.job_id: job for job in self.snapshot.jobs if job.state.active
                                   and any(part.node in nodes for part in job.allocations)}
        holders = [Ahead(job.job_id, job.state, job.partition,
                         sum(part.gpus for part in job.allocations if part.node in nodes), _ends(job))
                   for job in held.values()]
        return sorted(holders, key=lambda holder: (holder.free_s is None, holder.free_s or 0.0, holder.job_id))

    def _shapes(self, job: Job) -> tuple[SmallerRequest, ...]:
        if self._feasible.gate is None:
            return ()
        return smaller_shapes(self.snapshot, self._now_s, job, self._policy, self._feasible.gate)


def _ends(job: Job) -> float | None:
    return None if job.start_s is None or job.limit_s is None else job.start_s + job.limit_s

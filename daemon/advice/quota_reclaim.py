"""Starts of jobs whose queue has lent its quota: the scheduler preempts those who borrowed it, the latest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...storage.quotas import Queue
from ...storage.recommendations import Placement
from ...storage.records import Job
from ..replay.admission.gate import LIMIT, Gate, Hold
from ..replay.admission.why import with_whom
from ..replay.state import ClusterState

MOST_TRIED = 100
"""Jobs that wait for a quota which are looked at, in the scheduler's order."""


def quota_starts(state: ClusterState, gate: Gate, taken: Mapping[int, Placement], holds: dict[int, Hold],
                 ) -> tuple[dict[int, Placement], dict[int, str]]:
    """Return more starts by row with their reasons, and book them; who starts is held no longer."""
    found, words, gone = dict[int, Placement](), dict[int, str](), set[tuple[str, float]]()
    for row in list(_waiting(state, gate, taken, holds))[:MOST_TRIED]:
        said = _reclaiming(gate, state.records[row], gone)
        if said is not None:
            found[row], words[row] = said
            holds.pop(row, None)
    return found, words


def _waiting(state: ClusterState, gate: Gate, taken: Mapping[int, Placement],
             holds: Mapping[int, Hold]) -> Iterator[int]:
    if not any(queue.cohort for queue in gate.snapshot.rules.queues):
        return
    rows = [row for row, hold in holds.items() if hold.cause == LIMIT and row not in taken]
    yield from sorted(rows, key=lambda row: (-float(state.records[row].priority or 0.0), row))


def _reclaiming(gate: Gate, job: Job, gone: set[tuple[str, float]]) -> tuple[Placement, str] | None:
    """Return a start at the cost of those who have borrowed, of as few as are found."""
    queue = gate.quotas.lenders(job, gate.wants(job, None))
    if queue is None or _limited(gate, job):
        return None
    after, given = gate.copy(), list[Job]()
    while True:
        place = after.find(job)
        if isinstance(place, Placement) and after.limit_bars(job, after.partition_of(job, place), place) is None:
            break
        victim = _next_victim(after, queue, job, gone | {other.key for other in given})
        if victim is None:
            return None
        after.end(victim)
        given.append(victim)
    if not given:
        return None  # nobody has to give anything: others come first
    for victim in given:
        gate.end(victim)
        gone.add(victim.key)
    gate.book(job, gate.partition_of(job, place), place)
    return place, f"{with_whom(given, place)}: they use what was borrowed of queue {queue.name}"


def _limited(gate: Gate, job: Job) -> bool:
    """Tell whether a limit other than a quota keeps a job from starting."""
    return all(gate.limits.breach(job, name, gate.wants(job, None), job.limit_s) for name in job.partition.split(","))


def _next_victim(gate: Gate, queue: Queue, job: Job, gone: set[tuple[str, float]]) -> Job | None:
    able = [other for other in gate.snapshot.jobs if other.key not in gone and gate.quotas.yields(queue, job, other)]
    return min(able, key=lambda other: (other.priority or 0.0, -(other.start_s or 0.0)), default=None)

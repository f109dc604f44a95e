"""Starts that cost something first: nodes that have to wake, jobs that may be preempted, quotas that were lent.

Which jobs may be preempted follows ``PreemptType``: jobs whose QOS the waiting job's QOS preempts, or jobs in a
partition of a lower tier. What Slurm suspends keeps its memory, and gang scheduling takes turns: such sites get
no such starts. A queue that has lent its quota takes it back from the jobs that borrowed it, the latest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...storage.quotas import Queue
from ...storage.recommendations import Placement
from ...storage.records import Job, JobState
from ..replay.admission.gate import LIMIT, UNKNOWN, Gate, Hold, PartitionNodes
from ..replay.admission.hold_reason import with_whom
from ..replay.admission.node_search import find_nodes
from ..replay.state import ClusterState

TAKES = {"REQUEUE", "CANCEL", "CHECKPOINT"}
MOST_TRIED = 200
"""Waiting jobs that are looked at, in the scheduler's order."""


def second_chances(state: ClusterState, gate: Gate, taken: Mapping[int, Placement], holds: dict[int, Hold],
                   ) -> tuple[dict[int, Placement], dict[int, str]]:
    """Return more starts by row with their reasons, and book them; what is not known goes to ``holds``."""
    waking = any(node.wakes for node in gate.resources.nodes)
    if not waking and not _may_preempt(gate):
        return {}, {}
    starts, reasons, gone = dict[int, Placement](), dict[int, str](), set[tuple[str, float]]()
    rows = [row for row in state.waiting.tolist() if row not in taken and row not in holds
            and not state.records[row].group]
    rows.sort(key=lambda row: (-float(state.arrays.jobs[row].priority), row))
    for row in rows[:MOST_TRIED]:
        job = state.records[row]
        if not isinstance(gate.find(job), Hold):
            continue  # there is room: it is held for the jobs that come first
        start: tuple[Placement, str] | Hold | None = _woken(gate, job) if waking else None
        start = start or _preempting(gate, job, gone)
        if isinstance(start, Hold):
            holds[row] = start
        elif start is not None:
            starts[row], reasons[row] = start
    return starts, reasons


def _may_preempt(gate: Gate) -> bool:
    if gate.site.preempt_type == "none":
        return False
    tiers = {partition.priority_tier for partition in gate.partitions.values()}
    return len(tiers) > 1 or any(qos.preempts for qos in gate.snapshot.rules.qos or ())


def _woken(gate: Gate, job: Job) -> tuple[Placement, str] | None:
    """Return a start on nodes some of which are powered down or waking."""
    for way in gate.ways(job):
        demand = gate.demand(job, way.partition)
        usable = gate.resources.members(way.partition) & gate.opened(job, True) & ~gate.reserved(way.limit_s, way.own)
        placement = find_nodes(gate.resources, job, demand, usable, gate.switches(job) or 0)
        if placement is not None and _free_to_go(gate, job, way.partition, placement):
            gate.book(job, way.partition, placement)
            off = [name for name in placement.nodes if gate.resources.nodes[gate.resources.row[name]].wakes]
            return placement, f"starts as soon as {', '.join(off[:3])} {'has' if len(off) == 1 else 'have'} been woken"
    return None


def _free_to_go(gate: Gate, job: Job, partition: str, placement: Placement) -> bool:
    return gate.license_bars(job) is None and gate.limit_bars(job, partition, placement) is None


def _preempting(gate: Gate, job: Job, gone: set[tuple[str, float]]) -> tuple[Placement, str] | Hold | None:
    """Return a start at the cost of as few jobs as are found; a hold where it is unknown which may be preempted."""
    victims = [other for other in gate.snapshot.jobs if other.state is JobState.RUNNING and other.key not in gone]
    victims = [other for other in victims if _yields(gate, job, other)]
    if not victims:
        return None
    for way in gate.ways(job):
        chosen = _fewest(gate, job, way, victims)
        if chosen is None:
            continue
        placement, given = chosen
        if not _free_to_go(gate, job, way.partition, placement):
            continue
        if gate.site.preempt_type is None:
            return Hold(UNKNOWN, "unknown: whether it may preempt others is not known (PreemptType)")
        for other in given:
            gate.resources.give_back(other)
            gone.add(other.key)
        gate.book(job, way.partition, placement)
        return placement, with_whom(given, placement)
    return None


def _fewest(gate: Gate, job: Job, way: PartitionNodes, victims: list[Job]) -> tuple[Placement, list[Job]] | None:
    """Return where a job starts when enough others have gone, those of least rank first, and which have to go."""
    victims = sorted(victims, key=lambda other: (_rank(gate, other), -(other.start_s or 0.0)))
    resources, given = gate.resources.copy(), list[Job]()
    placement = None
    for other in victims:
        resources.give_back(other)
        given.append(other)
        placement = find_nodes(resources, job, gate.demand(job, way.partition), way.usable, gate.switches(job) or 0)
        if placement is not None:
            break
    if placement is None:
        return None
    return placement, [other for other in given if {part.node for part in other.allocations} & set(placement.nodes)]


def _rank(gate: Gate, job: Job) -> tuple[float, float]:
    qos = next((rule.priority for rule in gate.snapshot.rules.qos or () if rule.name == job.qos), 0.0)
    tier = gate.partitions[job.partition].priority_tier if job.partition in gate.partitions else 1
    return qos, tier


def _yields(gate: Gate, job: Job, other: Job) -> bool:
    """Tell whether a running job may be preempted for one that waits; where the type is not known, perhaps."""
    kind, known = gate.site.preempt_type, {rule.name: rule for rule in gate.snapshot.rules.qos or ()}
    preempting, preempted = known.get(job.qos), known.get(other.qos)
    by_qos = preempting is not None and other.qos in preempting.preempts
    by_tier = max(_tiers(gate, job)) > max(_tiers(gate, other))
    able = {"qos": by_qos, "partition_prio": by_tier}.get(kind or "", by_qos or by_tier)
    exempt_s = (preempted.exempt_s if preempted else 0.0) or gate.site.exempt_s
    if not able or (other.start_s is not None and gate.now_s - other.start_s < exempt_s):
        return False
    modes = set(_modes(gate, other, preempted.preempt_mode if preempted else ()))
    return bool(modes & TAKES) or kind is None


def _modes(gate: Gate, other: Job, by_qos: tuple[str, ...]) -> Iterator[str]:
    """Yield how a running job is preempted: as its QOS says, else its partition, else the cluster."""
    partition = gate.partitions.get(other.partition)
    if gate.site.preempt_type == "qos" and by_qos:
        yield from by_qos
    elif gate.site.preempt_type == "partition_prio" and partition is not None and partition.preempt_mode:
        yield from partition.preempt_mode
    else:
        yield from gate.site.preempt_mode or ()


def _tiers(gate: Gate, job: Job) -> list[int]:
    return [gate.partitions[name].priority_tier if name in gate.partitions else 1 for name in job.partition.split(",")]


MOST_QUOTA_TRIED = 100
"""Jobs that wait for a quota which are looked at, in the scheduler's order."""


def quota_starts(state: ClusterState, gate: Gate, taken: Mapping[int, Placement], holds: dict[int, Hold],
                 ) -> tuple[dict[int, Placement], dict[int, str]]:
    """Return more starts by row with their reasons, and book them; a job that starts is held no longer."""
    starts, reasons, gone = dict[int, Placement](), dict[int, str](), set[tuple[str, float]]()
    for row in list(_waiting_for_quota(state, gate, taken, holds))[:MOST_QUOTA_TRIED]:
        start = _reclaiming(gate, state.records[row], gone)
        if start is not None:
            starts[row], reasons[row] = start
            holds.pop(row, None)
    return starts, reasons


def _waiting_for_quota(state: ClusterState, gate: Gate, taken: Mapping[int, Placement],
             holds: Mapping[int, Hold]) -> Iterator[int]:
    if not any(queue.cohort for queue in gate.snapshot.rules.queues):
        return
    rows = [row for row, hold in holds.items() if hold.cause == LIMIT and row not in taken]
    yield from sorted(rows, key=lambda row: (-float(state.records[row].priority or 0.0), row))


def _reclaiming(gate: Gate, job: Job, gone: set[tuple[str, float]]) -> tuple[Placement, str] | None:
    """Return a start at the cost of jobs that have borrowed quota, of as few as are found."""
    queue = gate.quotas.lenders(job, gate.wants(job, None))
    if queue is None or _limited_otherwise(gate, job):
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


def _limited_otherwise(gate: Gate, job: Job) -> bool:
    """Tell whether a limit other than a quota keeps a job from starting."""
    return all(gate.limits.breach(job, name, gate.wants(job, None), job.limit_s) for name in job.partition.split(","))


def _next_victim(gate: Gate, queue: Queue, job: Job, gone: set[tuple[str, float]]) -> Job | None:
    able = [other for other in gate.snapshot.jobs if other.key not in gone and gate.quotas.yields(queue, job, other)]
    return min(able, key=lambda other: (other.priority or 0.0, -(other.start_s or 0.0)), default=None)

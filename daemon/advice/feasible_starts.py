"""The starts of a policy that the scheduler would accept: others are held, and the policy decides again.

A start that the scheduler would put on other nodes goes there; one that it would refuse now is held with the reason,
and the policy decides again about the rest. Last come starts that no policy sees: on nodes that have to wake first, and
at the cost of jobs that may be preempted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, islice

from ...storage.eligibility import begins_later
from ...storage.recommendations import Placement
from ...storage.records import Job, JobState
from ...storage.waiting import WaitReason
from ..replay import arrays as a
from ..replay.admission.backfill_pass import MOST_EXACT
from ..replay.admission.constraints import TIER
from ..replay.admission.gate import AHEAD, ARRAY_LIMIT, GROUP, HELD, LICENSES, LIMIT, ROOM, Gate, Hold
from ..replay.admission.hold_reason import why_no_nodes
from ..replay.admission.main_pass import counted, too_few_available
from ..replay.admission.possible_pasts import walk
from ..replay.admission.queue_entry import QueueEntry
from ..replay.admission.resource_demand import counts
from ..replay.engine import Policy, queued
from ..replay.queue import remove
from ..replay.rules import Rules
from ..replay.state import Actions, ClusterState, Start
from .preemption import quota_starts, second_chances

MOST_ROUNDS = 40
"""Times that a policy decides again; what is refused after that is held without another decision."""
MIB, GIB = 1 << 20, 1 << 30
MOST_TURNS = 1000
"""Jobs of a queue that are looked at one by one; Slurm's own backfill looks at 500."""


@dataclass(frozen=True)
class FeasibleStarts:
    """What starts where, and why the rest does not."""

    state: ClusterState
    """The state in which jobs that may not start are held."""
    actions: Actions
    starts: Mapping[int, Placement]
    """By row, in the policy's order."""
    holds: Mapping[int, Hold]
    gate: Gate | None = None
    """What is left when all of it has started."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Reasons of starts that need one of their own, by row."""
    unlike: frozenset[int] = frozenset()
    """Rows that start with another request than their own: with other GPUs, CPUs or memory."""


def feasible_starts(state: ClusterState, policy: Policy) -> FeasibleStarts:
    """Let a policy decide until all its starts would be accepted; ValueError when one cannot be carried out."""
    holds, rules = dict(state.holds), getattr(policy, "rules", None)
    for left in range(MOST_ROUNDS, -1, -1):
        actions = policy.decide(state)
        if rules is None:  # what compiled rules decide, they have carried out on a copy already
            state.copy().apply(actions)
        starts = {action.job: placement_of(state, action) for action in actions if isinstance(action, Start)}
        if state.gate is None:
            return FeasibleStarts(state, actions, starts, holds)
        if isinstance(rules, Rules) and rules.turns is not None:
            taken, refused, gate = _walked(state, rules, starts)
            holds |= refused
            break
        taken, refused, gate = _checked(state, starts, grants_of(actions))
        holds |= refused
        if not refused or left == 0:
            break
        state = _without(state, refused)
    more, reasons = second_chances(state, gate, taken, holds)
    reclaimed, at_cost = quota_starts(state, gate, taken | more, holds)
    more, reasons = more | reclaimed, reasons | at_cost
    other_amounts = {**_other_sizes(state, taken), **_other_grants(state, taken, grants_of(actions))}
    state = _without(state, refused.keys() - more.keys())  # a forecast knows nothing of limits, licences and the like
    return FeasibleStarts(state, actions, taken | more, holds, gate, {**reasons, **other_amounts},
                          frozenset(other_amounts))


def placement_of(state: ClusterState, action: Start) -> Placement:
    """Return the nodes of a start by name."""
    names = state.cluster.names
    return Placement(tuple(names[node] for node in action.nodes), action.gpus)


def grants_of(actions: Actions) -> dict[int, tuple[int, int]]:
    """Return the CPUs and bytes for each chunk of jobs that are given others than they ask for, by row."""
    return {action.job: (action.cpus, action.memory) for action in actions
            if isinstance(action, Start) and action.cpus is not None and action.memory is not None}


def _checked(state: ClusterState, starts: Mapping[int, Placement], grants: Mapping[int, tuple[int, int]],
             ) -> tuple[dict[int, Placement], dict[int, Hold], Gate]:
    """Return what would be taken where, what would be refused and why, and what is left then."""
    assert state.gate is not None
    gate, taken, refused = state.gate.copy(), dict[int, Placement](), dict[int, Hold]()
    for row, placement in starts.items():
        outcome = gate.admit(_as_placed(state, row, placement, grants.get(row)), placement)
        if isinstance(outcome, Hold):
            refused[row] = outcome
        else:
            taken[row] = outcome
    refused |= dict(_halves(state, starts, taken))
    return taken, refused, gate


def moulded(state: ClusterState, row: int, placement: Placement) -> bool:
    """Tell whether a job that may have several sizes is given another number of GPUs than it asks for.

    A job that requests by socket, or exclusive nodes, gets another number too, but requested just that.
    """
    work = state.workload
    return bool(work.minimum[row] < work.maximum[row]) and sum(placement.gpus) != int(work.gpus[row])


def _as_placed(state: ClusterState, row: int, placement: Placement, granted: tuple[int, int] | None = None) -> Job:
    """Return a job as it would be submitted for what it is given.

    It has an id of its own, since a gate remembers each job's request.
    """
    job, gpus = state.records[row], sum(placement.gpus)
    if granted is not None:
        chunks = gpus / max(1, int(state.arrays.jobs[row].chunk))
        cpus, memory = (math.ceil(amount * chunks) for amount in granted)
        return replace(job, job_id=f"{job.job_id}~{cpus}c", request=replace(job.request, cpus=cpus,
                                                                           memory_bytes=memory))
    if not moulded(state, row, placement):
        return job
    share = gpus / max(1, int(state.workload.gpus[row]))
    request = replace(job.request, gpus=gpus, nodes=len(placement.nodes), cpus=math.ceil(job.request.cpus * share),
                      memory_bytes=math.ceil(job.request.memory_bytes * share))
    return replace(job, job_id=f"{job.job_id}~{gpus}", request=request)


def _other_sizes(state: ClusterState, taken: Mapping[int, Placement]) -> dict[int, str]:
    """Return the reasons of starts on another number of GPUs than was requested."""
    work = state.workload
    return {row: f"on {sum(placement.gpus)} GPUs in place of {work.gpus[row]}: its like ran on {work.minimum[row]} to "
                 f"{work.maximum[row]} here; submit it again for that, for no job changes its size by itself"
            for row, placement in taken.items() if moulded(state, row, placement)}


def _other_grants(state: ClusterState, taken: Mapping[int, Placement],
                  grants: Mapping[int, tuple[int, int]]) -> dict[int, str]:
    """Return the reasons of starts with other CPUs or memory than were requested."""
    reasons = dict[int, str]()
    for row in grants.keys() & taken.keys():
        job = state.arrays.jobs[row]
        gpus = max(1, int(job.chunk))
        requested, given = ((cpus // gpus, -(-memory // gpus)) for cpus, memory in (
            (int(job.cpus), int(job.memory)), grants[row]))
        parts = [(f"{given[0]} CPUs", f"{requested[0]}", f"--cpus-per-gpu={given[0]}"),
                 (f"{given[1] / GIB:.1f} GiB", f"{requested[1] / GIB:.1f} GiB",
                  f"--mem-per-gpu={-(-given[1] // MIB)}M")]
        other = [part for part, old, new in zip(parts, requested, given, strict=True) if old != new]
        if other:
            amounts, requested_amounts, options = (" and ".join(texts) for texts in zip(*other, strict=True))
            how = "with requests to match" if state.records[row].owner else f"with {options.replace(' and ', ' ')}"
            reasons[row] = (f"with {amounts} for each GPU in place of {requested_amounts}, by what its like use; "
                            f"submit it again {how}")
    return reasons


def _walked(state: ClusterState, rules: Rules, starts: Mapping[int, Placement],
            ) -> tuple[dict[int, Placement], dict[int, Hold], Gate]:
    """Walk the queue as the scheduler does; return what starts where, what does not and why, and what is left then."""
    assert state.gate is not None
    outcomes, left = walk(state.gate, bool(rules.turns), list(islice(_line(state, rules, starts), MOST_TURNS)))
    taken = {row: outcome for row, outcome in outcomes.items() if isinstance(outcome, Placement)}
    refused = {row: _by_whom(state.gate, state.records[row], outcome) for row, outcome in outcomes.items()
               if isinstance(outcome, Hold) and outcome.cause != ROOM}
    return taken, refused, left


def _line(state: ClusterState, rules: Rules, starts: Mapping[int, Placement]) -> Iterator[QueueEntry]:
    """Yield the queue in order; a job with several partitions stands in line for each, where its tier places it."""
    assert state.gate is not None
    order = list(_by_number(state, queued(state, rules)))
    lines = {row: _in_line(state.gate, state.records[row], row, starts.get(row)) for row in order}
    behind = dict[int, list[QueueEntry]]()
    for lower in sorted({lower for entries in lines.values() for lower in entries if lower}):
        again, before = _demoted(state, [row for row in order if lower in lines[row]], lower), order[0]
        for row in queued(again, rules):
            if lower in lines[row]:
                behind.setdefault(before, []).extend(lines[row][lower])
            else:
                before = row
    planned, limited = _planned_only(state), _limited(state)
    jobs = [state.records[row] for row in order] + [entry.job for _, entry in planned]
    matters = (any(state.gate.demand(job).gpus == 0 for job in jobs)
               or any(counts(entry.job.request.features) for _, entry in limited))
    if len(jobs) + len(limited) <= MOST_EXACT and matters:
        planned = _in_order(planned + limited)
    line = list[QueueEntry]()
    for row in order:
        while planned and _place(*planned[0]) < _place(_priority(state, row), QueueEntry(row, state.records[row])):
            line.append(planned.pop(0)[1])
        line += [*lines[row].get(0, ()), *behind.get(row, ())]
    yield from _arrays_by_partition([*line, *(entry for _, entry in planned)])


def _arrays_by_partition(line: Iterable[QueueEntry]) -> Iterator[QueueEntry]:
    """Yield the queue with all tasks of an array in one of its partitions before those in the next, as Slurm does."""
    for array, entries in groupby(line, lambda entry: entry.job.array):
        tasks = list(entries)
        partitions = list(dict.fromkeys(entry.job.partition for entry in tasks))
        yield from sorted(tasks, key=lambda entry: partitions.index(entry.job.partition)) if array else tasks


def _by_number(state: ClusterState, order: Iterable[int]) -> Iterator[int]:
    """Yield rows, of the same priority the lower numbers first, as Slurm does: all tasks of an array stand together."""
    for _, rows in groupby(order, lambda row: _priority(state, row)):
        yield from sorted(rows, key=lambda row: _number(state.records[row], row))


def _number(job: Job, row: int) -> tuple[int, int]:
    return job.raw_id or 0, row


def _planned_only(state: ClusterState) -> list[tuple[float, QueueEntry]]:
    """Return jobs that only the limit of their array, or nodes out of reach, hold back: Slurm plans them all the same.

    Slurm looks at the latter again in each of their partitions, and may start them in one whatever it says of another.
    Held components stand in line as well, as the others wait for them; and jobs at a limit for which their partition
    has too few nodes, as they stop it. All have the priorities that they stand at.
    """
    assert state.gate is not None
    entries = list[tuple[float, QueueEntry]]()
    for row, hold in state.holds.items():
        job, priority = state.records[row], _priority(state, row)
        if begins_later(job, state.gate.now_s) and not job.group:
            continue  # whatever the scheduler said of it before, it does not look at it until then
        beyond = job.array_limit is not None and ARRAY_LIMIT in hold.reason
        reserved = job.reason is WaitReason.RESERVATION and not job.request.reservation
        if hold.cause == HELD and (beyond or reserved or job.reason is WaitReason.NODES_UNAVAILABLE):
            stale = not beyond and "," in job.partition and isinstance(state.gate.find(job), Placement)
            entries += [(priority - TIER * lower, replace(entry, later=True, stale=stale))
                        for lower, tried in _in_line(state.gate, job, row, None).items() for entry in tried]
        elif job.group:
            entries.append((priority, QueueEntry(row, job, barred=hold)))
        elif (job.reason is WaitReason.QUOTA or hold.cause == LIMIT) and not counted(hold) and not job.owner:
            entries += [(priority - TIER * lower, replace(entry, barred=hold))
                        for lower, tried in _in_line(state.gate, job, row, None).items() for entry in tried
                        if too_few_available(state.gate, entry.job, state.gate.resources.named(()))]
    return _in_order(entries)


def _limited(state: ClusterState) -> list[tuple[float, QueueEntry]]:
    """Return jobs that break a limit on amounts: Slurm looks for their nodes first, which leaves its weights behind."""
    return [(_priority(state, row), QueueEntry(row, state.records[row], barred=hold))
            for row, hold in state.holds.items()
            if counted(hold) and not state.records[row].group and not state.records[row].owner]


def _in_order(entries: list[tuple[float, QueueEntry]]) -> list[tuple[float, QueueEntry]]:
    return sorted(entries, key=lambda pair: _place(*pair))


def _place(priority: float, entry: QueueEntry) -> tuple[float, int, int]:
    return (-priority, *_number(entry.job, entry.row))


def _priority(state: ClusterState, row: int) -> float:
    """Return a job's priority in the scheduler's own order."""
    return float(state.arrays.jobs[row].priority)


def _in_line(gate: Gate, job: Job, row: int, wanted: Placement | None) -> dict[int, list[QueueEntry]]:
    """Return the partitions in which a job is tried, each by itself as in Slurm, by how far their tier is below."""
    ways, highest = gate.ways(job), gate.tier(job.partition)
    if job.group or "," not in job.partition or not ways:
        return {0: [QueueEntry(row, job, wanted)]}
    lines = dict[int, list[QueueEntry]]()
    for name in dict.fromkeys(way.partition for way in ways):
        entry = QueueEntry(row, replace(job, partition=name), wanted)
        lines.setdefault(highest - gate.tier(name), []).append(entry)
    return lines


def _demoted(state: ClusterState, rows: Iterable[int], tiers: int) -> ClusterState:
    """Return the state in which some jobs stand a number of tiers lower."""
    fresh = state.copy()
    for row in rows:
        fresh.arrays.jobs[row].priority -= TIER * tiers
    return fresh


def _by_whom(gate: Gate, job: Job, hold: Hold) -> Hold:
    """Return a hold for a limit or licences as one for earlier jobs, where only their starts use it up."""
    if hold.cause not in (LIMIT, LICENSES) or gate.limits_bar(job) is not None or gate.license_bars(job) is not None:
        return hold
    return Hold(AHEAD, f"those who come first leave too little: {hold.reason}")


def _groups(state: ClusterState) -> dict[str, list[int]]:
    """Return the rows of the components of each heterogeneous job that waits."""
    rows: dict[str, list[int]] = {}
    for row, job in enumerate(state.records):
        if job.group and job.state is JobState.PENDING:
            rows.setdefault(job.group, []).append(row)
    return rows


def _halves(state: ClusterState, starts: Mapping[int, Placement], taken: Mapping[int, Placement],
            ) -> Iterator[tuple[int, Hold]]:
    """Yield components of heterogeneous jobs that would start without the others."""
    for group in _groups(state).values():
        if all(row in taken for row in group):
            continue
        missing = next(state.records[row].job_id for row in group if row not in taken)
        yield from ((row, Hold(GROUP, f"its component {missing} cannot start now, and all start together"))
                    for row in group if row in starts)


def _without(state: ClusterState, refused: Collection[int]) -> ClusterState:
    """Return the state in which refused jobs are held back."""
    fresh = state.copy()
    for row in refused:
        job = fresh.arrays.jobs[row]
        if job.status == a.WAITING:
            remove(fresh.arrays, job.queue, job.rank)
            fresh.arrays.counts[a.WAITING_JOBS] -= 1
            job.status = a.HELD
    return fresh


def why_held(feasible: FeasibleStarts, row: int, job: Job) -> Hold:
    """Return why a job does not start: what bars it, what binds, or the jobs that come first."""
    hold = feasible.holds.get(row)
    if hold is not None and (hold.cause != ROOM or hold.reason):
        return hold
    gate = feasible.state.gate
    if gate is None:
        return Hold(ROOM, "")
    broken = feasible.gate.limits_bar(job) if feasible.gate is not None else None
    if broken is not None:
        return _by_whom(gate, job, broken)  # the scheduler looks at limits before it looks for nodes
    outcome = gate.find(job)
    if isinstance(outcome, Placement):
        return gate.limit_bars(job, gate.partition_of(job, outcome), outcome) or Hold(AHEAD, "")
    return outcome if outcome.reason else why_no_nodes(gate, job)

"""Preemption as Slurm 22.05 does it: which jobs may go, which do, and when the job that wanted the place starts.

A job that does not fit takes away one after the other those that it may preempt, of least QOS (or tier) and fewest
nodes first, until it fits (``_run_now`` of select/cons_tres); then their order is changed twice so that fewer do.
Only those go that hold a node which was chosen. It starts when the scheduler looks the next time: at once if it
is first in line, else in a later round of the backfill, for which its nodes are kept. The backfill takes jobs
that may be preempted for gone, and begins to make room for each job that can start then.
"""

from __future__ import annotations

import numpy as np

from ..replay.arrays import HELD, MAX_STARTS, NOW, RETURNING, RUNNING_JOBS, STARTED, Ask, Records, State
from ..replay.compiled import compiled, compiled_apart
from ..replay.moves import ask_of, cancel, come_back, held_by, requeue, site_with, start, take
from ..replay.priority.preemption import BY_QOS, CANCELLED, KEPT, Group, SchedulerPreemption
from ..replay.queue import insert_sorted, remove_sorted
from ..replay.rules import Place
from ..replay.state import ClusterState
from ..replay.workload import Workload
from .preempting import holds_chosen
from .slurm_earliest_start import WORK, earliest_start
from .slurm_plans import WINDOW, keep
from .slurm_tables import AGAIN, CHOSEN, COLUMNS_OF_JOBS, TABLES, list_returns
from .strict import first_line, line_up, move_on, try_start

PREEMPTS, GROUPS, REORDERS, STRICT, YOUNGEST, RETURNS, AGAIN_S, MOST_TIMES, MATRIX = range(5, 14)
"""Places in ``State.weights``, behind those of the backfill; from the last on: [group, group] which may preempt which,
and behind it, which is tried before which whatever the keys say."""
GROUP, BECOMES, EXEMPT, WEIGHT = range(4)
"""Columns of ``State.traits``."""
# The tables in ``State.scratch``: the jobs that were requeued, those that one may preempt, on how many nodes of those
# that it wants, and when each job made room last.
LAST_SORTED = 99999.0
FAILED, BUSY, ROOM_MADE = range(3)


def ready_to_preempt(state: ClusterState, weights: list[float], places: list[float]) -> State:
    """Return the arrays with the backfill's settings and scratch, and with the site's preemption settings."""
    preemption, workload, arrays = state.cluster.scheduling.preemption, state.workload, state.arrays
    names, code = _groups(preemption, workload)
    groups = [preemption.groups.get(name, Group()) for name in names]
    if not preemption.takes_place or not any(group.over for group in groups):
        return arrays._replace(weights=np.array([*weights, 0.0]), scratch=np.array(places))
    preempts = [float(name in group.over) for group in groups for name in names]
    by_weight = [float(group.weight > other.weight) for group in groups for other in groups]
    first = preempts if preemption.by == BY_QOS else by_weight
    exempt = np.array(_exempt(preemption, workload))
    traits = np.column_stack([code, np.array([group.becomes for group in groups])[code], exempt,
                              np.array([group.weight for group in groups])[code]]).astype(np.float64)
    scratch = np.zeros((COLUMNS_OF_JOBS, len(workload)))
    scratch[3] = -np.inf
    back = np.flatnonzero((arrays.jobs.status == HELD) & (arrays.jobs.preempted > 0))
    scratch[0, :len(back)] = back
    arrays.counts[RETURNING] = len(back)
    return arrays._replace(
        weights=np.array([*weights, 1.0, len(names), preemption.reorders, preemption.strict_order,
                          preemption.youngest_first, preemption.returns_s, preemption.again_s, preemption.most_times,
                          *preempts, *first]),
        scratch=np.concatenate([places, scratch.ravel()]), traits=np.ascontiguousarray(traits))


def _groups(preemption: SchedulerPreemption, workload: Workload) -> tuple[list[str], np.ndarray]:
    """Return the names of groups and each job's group: its QOS, or its partition of the highest tier."""
    if preemption.by == BY_QOS:
        names, code = np.unique(np.array(workload.charged.qos if workload.charged else [""] * len(workload), str),
                                return_inverse=True)
        return names.tolist(), code
    best = [max(name.split(","), key=lambda part: preemption.groups.get(part, Group()).weight)
            for name in (*workload.partition_names, "")]
    return best, workload.partition % len(best)


def _exempt(preemption: SchedulerPreemption, workload: Workload) -> list[float]:
    if workload.charged is None:
        return [preemption.usual_exempt_s] * len(workload)
    return [preemption.exempt_s.get(name, preemption.usual_exempt_s) for name in workload.charged.qos]


@compiled
def take_back(state: State) -> float:
    """Put requeued jobs that may begin again back into the queue; return when the next of the others may."""
    count, next_s = 0, np.inf
    for index in range(state.counts[RETURNING]):
        job = int(state.scratch[TABLES + index])
        if state.jobs[job].end > state.clock[NOW]:
            state.scratch[TABLES + count] = job
            next_s, count = min(next_s, state.jobs[job].end), count + 1
        else:
            come_back(state, job)
    return next_s


@compiled
def candidate(state: State, index: int) -> int:
    """Return the job at a place among those that were listed last."""
    return int(state.scratch[TABLES + state.jobs.size + index])


@compiled
def list_preemptable(state: State, job: int, ask: Ask) -> int:
    """List the running jobs that a job may preempt, in Slurm's order, with those that would stay; return how many."""
    first, count = TABLES + state.jobs.size, 0
    for index in range(state.counts[RUNNING_JOBS]):
        other = state.heap[index]
        if not may_preempt(state, job, other, ask.pool):
            continue
        place = count
        while place > 0 and goes_before(state, other, int(state.scratch[first + place - 1])):
            state.scratch[first + place] = state.scratch[first + place - 1]
            place -= 1
        state.scratch[first + place] = other
        count += 1
    return count


@compiled
def may_preempt(state: State, job: int, other: int, pool: int) -> bool:
    """Tell whether a job may preempt a running one, which holds a node that is open to it."""
    group, victims = int(state.traits[job, GROUP]), int(state.traits[other, GROUP])
    row = state.jobs[other]
    if state.weights[MATRIX + group * int(state.weights[GROUPS]) + victims] == 0.0:
        return False
    if state.clock[NOW] < row.since + state.traits[other, EXEMPT] or row.preempted >= state.weights[MOST_TIMES]:
        return False
    for index in range(row.held, row.held + row.nodes_held):
        if state.eligible[pool, state.held[index].node] == 1:
            return True
    return False


@compiled
def goes_before(state: State, one: int, other: int) -> bool:
    """Tell whether the first of two jobs is preempted before the other; ties go by arrival."""
    first, second = worth(state, one), worth(state, other)
    return first < second or (first == second and one < other)


@compiled
def worth(state: State, job: int) -> float:
    """Return the sort key of jobs that may be preempted, the lowest first."""
    if state.weights[YOUNGEST] == 1.0:
        return -float(state.jobs[job].since)
    return float(state.traits[job, WEIGHT]) * 65536.0 + min(state.jobs[job].nodes_held, 65535)


@compiled
def goes(state: State, job: int) -> bool:
    """Tell whether a job releases its nodes when it is preempted."""
    return bool(state.traits[job, BECOMES] != KEPT)


@compiled
def make_room(state: State, place: Place, job: int, ask: Ask, count: int) -> int:
    """Preempt for a job that does not fit, on the open imagined nodes, as many of the listed as it needs.

    Return whether nothing helps, whether it has to wait for room that it made before, or whether room was made.
    """
    last = choose_victims(state, place, ask, count)
    if last < 0:
        return FAILED
    made = TABLES + 3 * state.jobs.size + job
    if state.scratch[made] + state.weights[AGAIN_S] > state.clock[NOW]:
        state.scratch[AGAIN] = min(state.scratch[AGAIN], state.scratch[made] + state.weights[AGAIN_S])
        return BUSY
    state.scratch[made] = state.clock[NOW]
    for index in range(last + 1):
        other = candidate(state, index)
        if goes(state, other) and holds_chosen(state, other, ask.chunks + ask.rests):
            evict(state, other)
    return ROOM_MADE


@compiled
def evict(state: State, job: int) -> None:
    """Preempt a job by its group's mode, and mark its nodes as being cleared."""
    row, now = state.jobs[job], state.clock[NOW]
    for index in range(row.held, row.held + row.nodes_held):
        state.imagined[WORK, state.held[index].node].ends = now
    if state.traits[job, BECOMES] == CANCELLED:
        cancel(state, job)
        return
    state.scratch[TABLES + state.counts[RETURNING]] = job
    requeue(state, job, now + state.weights[RETURNS])


@compiled
def choose_victims(state: State, place: Place, ask: Ask, count: int) -> int:
    """Return the place of the last listed job that has to be preempted; -1 if even all are not enough.

    The nodes are then chosen. The order is changed as often as Slurm does.
    """
    passes = 0
    while True:
        last = first_enough(state, place, ask, count)
        passes += 1
        if last < 0 or passes > state.weights[REORDERS] + 1.0 or count <= passes:
            return last
        reorder(state, last, count, ask.chunks + ask.rests)


@compiled
def first_enough(state: State, place: Place, ask: Ask, count: int) -> int:
    """Remove listed jobs one by one until the job fits; return the place of the last one, -1 if it never fits."""
    copy_free(state)
    for index in range(count):
        other = candidate(state, index)
        if goes(state, other):
            hand_back(state, other, state.imagined[0], -1)
            if place(site_with(state, state.imagined[0]), ask, state.chosen) > 0:
                return index
    return -1


@compiled
def copy_free(state: State) -> None:
    """Copy the free resources of nodes to the imagined ones; which of them are open does not change."""
    for node in range(state.nodes.size):
        row, actual = state.imagined[0, node], state.nodes[node]
        row.free_gpus, row.free_cpus, row.free_memory = actual.free_gpus, actual.free_cpus, actual.free_memory


@compiled
def reorder(state: State, last: int, count: int, nodes: int) -> None:
    """Put the last needed job first, then, unless the order is strict, those that hold most of the chosen nodes."""
    first, counts = TABLES + state.jobs.size, TABLES + 2 * state.jobs.size
    for index in range(last + 1):
        held = 0.0 if state.weights[STRICT] == 1.0 else nodes_shared(state, candidate(state, index), nodes)
        state.scratch[counts + index] = LAST_SORTED if index == last else held
    for index in range(1, last + 1):
        job, shared, at = state.scratch[first + index], state.scratch[counts + index], index
        while at > 0 and state.scratch[counts + at - 1] < shared:
            state.scratch[first + at] = state.scratch[first + at - 1]
            state.scratch[counts + at] = state.scratch[counts + at - 1]
            at -= 1
        state.scratch[first + at], state.scratch[counts + at] = job, shared


@compiled
def nodes_shared(state: State, job: int, nodes: int) -> float:
    """Return how many of the chosen nodes a running job holds a part of."""
    row, shared = state.jobs[job], 0.0
    for index in range(row.held, row.held + row.nodes_held):
        for place in range(nodes):
            if state.held[index].node == state.chosen[place]:
                shared += 1.0
    return shared


@compiled
def hand_back(state: State, job: int, nodes: Records, sign: int) -> None:
    """Give back (-1) or take again (1) on nodes what a running job holds."""
    row, ask = state.jobs[job], held_by(state, job)
    for index in range(row.held, row.held + row.nodes_held):
        take(nodes, state.held[index].node, ask, state.held[index].gpus, sign)


@compiled_apart
def start_in_line(state: State, place: Place) -> None:
    """Start jobs in order until the first of each queue does not fit, which preempts others where it may."""
    again = True
    while again:
        again = False
        line_up(state)
        line = first_line(state.lines)
        while line >= 0 and state.counts[STARTED] < state.counts[MAX_STARTS]:
            job = state.order[state.lines[line].head]
            started = try_start(state, place, job)
            again = (not started and make_room_anywhere(state, place, job)) or again
            move_on(state, line, started, True)
            line = first_line(state.lines)


@compiled
def make_room_anywhere(state: State, place: Place, job: int) -> bool:
    """Preempt for a job on any open nodes where possible; tell whether that was done."""
    ask = ask_of(state, job)
    count = list_preemptable(state, job, ask)
    if count == 0:
        return False
    for node in range(state.nodes.size):
        state.imagined[0, node].open = state.nodes[node].open
    return make_room(state, place, job, ask, count) == ROOM_MADE


@compiled_apart
def plan_or_start(state: State, place: Place, job: int) -> bool:
    """Plan, start or make room for one job in a round of the backfill; tell whether room was made."""
    ask, lasts, now = ask_of(state, job), state.jobs[job].limit, state.clock[NOW]
    count = list_preemptable(state, job, ask)
    when = (earliest_start_with_room(state, place, ask, lasts, count) if count > 0
            else earliest_start(state, place, ask, lasts))
    if when > now + state.weights[WINDOW]:
        return False
    nodes = int(state.scratch[CHOSEN])
    if when <= now and being_cleared(state, nodes):
        when = now + 1.0
    if when > now:
        keep(state, nodes, when, lasts)
        return False
    if count == 0:
        start(state, job, nodes)
        list_returns(state)
        return False
    return start_or_make_room(state, place, job, nodes, count)


@compiled
def start_or_make_room(state: State, place: Place, job: int, nodes: int, count: int) -> bool:
    """Start a job beside the plans, else make room for it and keep its nodes; tell whether room was made."""
    ask = ask_of(state, job)
    for index in range(nodes):
        state.shares[index] = state.chosen[index]
    copy_free(state)
    node_count = place(site_with(state, state.imagined[0]), ask, state.chosen)
    if node_count > 0:
        start(state, job, node_count)
        list_returns(state)
        return False
    made = make_room(state, place, job, ask, count) == ROOM_MADE
    for index in range(nodes):
        state.chosen[index] = state.shares[index]
    keep(state, nodes, state.clock[NOW], state.jobs[job].limit)
    if made:
        list_returns(state)
    return made


@compiled
def being_cleared(state: State, nodes: int) -> bool:
    """Tell whether a job was preempted on a chosen node in this round."""
    cleared = False
    for index in range(nodes):
        cleared = cleared or state.imagined[WORK, state.chosen[index]].ends >= state.clock[NOW]
    return cleared


@compiled
def earliest_start_with_room(state: State, place: Place, ask: Ask, lasts: float, count: int) -> float:
    """Return when nodes are available without the jobs that may be preempted, and choose them."""
    for index in range(count):
        other = candidate(state, index)
        if goes(state, other):
            hand_back(state, other, state.nodes, -1)
            remove_sorted(state.estimates, state.counts[RUNNING_JOBS], state.jobs, other)
            state.counts[RUNNING_JOBS] -= 1
    list_returns(state)
    when = earliest_start(state, place, ask, lasts)
    for index in range(count):
        other = candidate(state, index)
        if goes(state, other):
            hand_back(state, other, state.nodes, 1)
            insert_sorted(state.estimates, state.counts[RUNNING_JOBS], state.jobs, other)
            state.counts[RUNNING_JOBS] += 1
    list_returns(state)
    return when

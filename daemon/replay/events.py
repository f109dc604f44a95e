"""What happens to a cluster whatever is decided: jobs end, nodes fail or come back, jobs arrive.

That is also their order within an instant; the decision comes after. Ties go by row, which is (submit, id).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import CHANGED, FUTURE, NOW, RUNNING_JOBS, WAKE, Floats, Longs, State
from .cluster import Cluster
from .compiled import compiled
from .moves import finish, join, note, preempt
from .queue import sort_jobs

DOWN, DRAIN, UP = 0, 1, 2
_KINDS = {"down": DOWN, "drain": DRAIN, "up": UP}


class EventList(NamedTuple):
    """What will happen whatever is decided: arrivals by row, node events by time; ``next`` counts those that have."""

    next: Longs
    """[2] next job to arrive, next node event."""
    time: Floats
    node: Longs
    kind: Longs


def event_list_of(cluster: Cluster) -> EventList:
    """Return the events of a cluster, none of which has happened yet."""
    events = cluster.events
    return EventList(np.zeros(2, np.int64), np.array([event.time for event in events], np.float64),
                  np.array([cluster.index(event.node) for event in events], np.int64),
                  np.array([_KINDS[event.kind] for event in events], np.int64))


@compiled
def next_time(state: State, event_list: EventList) -> float:
    """Return when something happens next; infinite when nothing ever will."""
    time = state.clock[WAKE]
    while event_list.next[0] < state.jobs.size and state.jobs[event_list.next[0]].status != FUTURE:
        event_list.next[0] += 1  # rejected: its arrival is no event
    if event_list.next[0] < state.jobs.size:
        time = min(time, state.jobs[event_list.next[0]].submit)
    if event_list.next[1] < event_list.time.size:
        time = min(time, event_list.time[event_list.next[1]])
    if state.counts[RUNNING_JOBS] > 0:
        time = min(time, state.jobs[state.heap[0]].end)
    return time


@compiled
def advance(state: State, event_list: EventList, until: float) -> bool:
    """Move to the next instant at which something happens and let it happen; False when there is none by ``until``."""
    now = next_time(state, event_list)
    if now > until or now == np.inf:
        return False
    state.clock[NOW], state.clock[WAKE] = now, np.inf
    while state.counts[RUNNING_JOBS] > 0 and state.jobs[state.heap[0]].end <= now:
        finish(state, state.heap[0])
    while event_list.next[1] < event_list.time.size and event_list.time[event_list.next[1]] <= now:
        node_event(state, event_list.node[event_list.next[1]], event_list.kind[event_list.next[1]])
        event_list.next[1] += 1
    while event_list.next[0] < state.jobs.size and state.jobs[event_list.next[0]].submit <= now:
        if state.jobs[event_list.next[0]].status == FUTURE:
            join(state, event_list.next[0])
        event_list.next[0] += 1
    return True


@compiled
def node_event(state: State, node: int, kind: int) -> None:
    """Close or open a node; a failure sends its jobs back to the queue, to start again from nothing."""
    state.nodes[node].open = 1 if kind == UP else 0
    state.counts[CHANGED] = 1
    note(state.words, 4, node, state.clock[NOW], kind)
    if kind == DOWN:
        fail_all(state, node)


@compiled
def fail_all(state: State, node: int) -> None:
    """Requeue the jobs of a node, by row."""
    jobs, count = state.listed, 0
    for index in range(state.counts[RUNNING_JOBS]):
        if holds(state, state.heap[index], node):
            jobs[count] = state.heap[index]
            count += 1
    for index in range(count):
        state.keys[jobs[index]] = jobs[index]
    sort_jobs(jobs, count, state.keys)
    for index in range(count):
        fail(state, jobs[index])


@compiled
def holds(state: State, job: int, node: int) -> bool:
    """Tell whether a running job holds a part of the node."""
    first, held_there = state.jobs[job].held, False
    for index in range(first, first + state.jobs[job].nodes_held):
        held_there = held_there or state.held[index].node == node
    return held_there


@compiled
def fail(state: State, job: int) -> None:
    """Requeue a job whose node failed; what it did is lost."""
    preempt(state, job)
    state.jobs[job].remaining = state.jobs[job].run
    state.jobs[job].attained = 0.0

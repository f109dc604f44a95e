"""The discrete-event engine: the next event, then a decision, until nothing is left.

Order within an instant: jobs end, nodes fail or come back, jobs arrive, one decision is taken. Ties go by row, which is
(submit, id). :func:`run` keeps everything in compiled code; :func:`decisions` is the same run as a generator, for
code that observes: statistics, plots, training, policies written in Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, Unpack

import numpy as np

from ...storage.recommendations import Placement
from . import arrays as a
from .arrays import (
    CHANGED,
    COUPLED,
    KEEP_ESTIMATES,
    KINDS,
    MAX_STARTS,
    NOW,
    PREEMPTED_NOW,
    RESIZED_NOW,
    RESIZING,
    RUNNING_JOBS,
    SLOT,
    STARTED,
    WAKE,
    Floats,
    State,
)
from .cluster import Cluster
from .compiled import compiled, compiled_without_lock
from .events import EventList, advance, event_list_of, next_time
from .execution_rate import update_rates
from .feasibility import ReplayOptions
from .queue import decisions_due, following, insert, insert_sorted, queue_up, remove, sort_jobs
from .queue_groups import assign_queues
from .rules import Calls, Key, Place, Rules, Walk
from .state import Action, Actions, ClusterState, Preempt, Rejection, Resize, Start
from .workload import Workload


class Policy(Protocol):
    """An object that decides at events. One with compiled ``rules`` runs in compiled code, which also wakes it."""

    name: str

    def decide(self, state: ClusterState) -> Actions:
        """Return what to do now, leaving the state as it is."""


@compiled
def list_waiting(state: State) -> int:
    """Fill ``listed`` with the waiting jobs of all lines and return how many there are."""
    count = 0
    for partition in range(state.lines.size):
        rank = following(state, partition, 0)
        while rank >= 0:
            state.listed[count] = state.order[rank]
            count += 1
            rank = following(state, partition, rank + 1)
    return count


@compiled
def withdraw_listed(state: State, count: int) -> None:
    """Take the waiting jobs listed in ``listed`` out of the queue."""
    for index in range(count):
        row = state.jobs[state.listed[index]]
        remove(state, row.queue, row.rank)


@compiled
def rank_listed(state: State, count: int) -> None:
    """Queue the jobs listed in ``listed`` in that order."""
    for rank in range(count):
        job = state.listed[rank]
        state.jobs[job].rank, state.order[rank] = rank, job
        insert(state, state.jobs[job].queue, rank)


@compiled
def rank_by_row(state: State, ranked: int) -> None:
    """Undo the ranking of ``ranked`` jobs, of those that started too, so that no rank is ever used twice."""
    count = list_waiting(state)
    withdraw_listed(state, count)
    for rank in range(ranked):
        state.jobs[state.order[rank]].rank = state.order[rank]
    for rank in range(ranked):
        state.order[rank] = rank
    for index in range(count):
        insert(state, state.jobs[state.listed[index]].queue, state.listed[index])


@compiled
def walk_sorted(state: State, key: Key, place: Place, walk: Walk) -> None:
    """Walk through the queue by present keys; between decisions the rank of a job is its row."""
    count = rank_by_key(state, key)
    walk(state, key, place)
    rank_by_row(state, count)


@compiled
def rank_by_key(state: State, key: Key) -> int:
    """Rank the waiting jobs by present keys; return how many there are."""
    count = list_waiting(state)
    for index in range(count):
        state.keys[state.listed[index]] = key(state, state.listed[index])
    sort_jobs(state.listed, count, state.keys)
    withdraw_listed(state, count)
    rank_listed(state, count)
    return count


@compiled
def fill_keys(state: State, key: Key) -> None:
    """Fill ``keys`` with the present keys of all jobs."""
    for job in range(state.jobs.size):
        state.keys[job] = key(state, job)


@compiled
def is_due(state: State) -> bool:
    """Tell whether a decision may be taken now: with slots only where one begins; else it waits for that."""
    slot, now = state.costs[SLOT], state.clock[NOW]
    if slot == 0.0 or np.floor(now / slot) * slot == now:
        return True
    state.clock[WAKE] = (np.floor(now / slot) + 1.0) * slot
    return state.clock[WAKE] <= now


@compiled
def book_slot(state: State) -> None:
    """Schedule a decision at the next slot, as long as anything runs."""
    if state.costs[SLOT] > 0.0 and state.counts[RUNNING_JOBS] > 0:
        state.clock[WAKE] = min(state.clock[WAKE], state.clock[NOW] + state.costs[SLOT])


@compiled
def decide(state: State, calls: Calls) -> None:
    """Take one decision; ``state.log`` then holds what was done."""
    state.counts[STARTED], state.counts[MAX_STARTS] = 0, np.iinfo(np.int64).max
    if calls.patient and state.counts[CHANGED] == 0:
        return
    before = np.int64(-1)
    while decisions_due(state) > 0 and state.counts[STARTED] > before:
        before = state.counts[STARTED]
        if calls.one_at_a_time:
            state.counts[MAX_STARTS] = before + 1
        if calls.moving:
            walk_sorted(state, calls.key, calls.place, calls.walk)
        else:
            calls.walk(state, calls.key, calls.place)
        if not calls.one_at_a_time:
            break
    state.counts[CHANGED] = 0
    if calls.waking:
        state.clock[WAKE] = min(state.clock[WAKE], calls.wake(state))


@compiled_without_lock
def loop(state: State, event_list: EventList, calls: Calls, until: float) -> float:
    """Run up to a moment; return when something happens next."""
    while advance(state, event_list, until):
        if is_due(state):
            decide(state, calls)
            book_slot(state)
    return next_time(state, event_list)


@compiled_without_lock
def loop_coupled(state: State, event_list: EventList, calls: Calls, until: float) -> float:
    """Run up to a moment where speeds depend on neighbours or grants, which would halve the speed of `loop`."""
    while advance(state, event_list, until):
        if is_due(state):
            decide(state, calls)
            book_slot(state)
        update_rates(state)
    return next_time(state, event_list)


def go_on(state: ClusterState, event_list: EventList, rules: Rules, until: float) -> None:
    """Let everything happen up to a moment under rules that the state was prepared for."""
    arrays, calls = state.arrays, rules.calls_on(state)
    run_until = loop_coupled if arrays.counts[COUPLED] else loop
    if state.calculator is None:
        state.entrance.enter(run_until, arrays, event_list, calls, until)
        return
    upcoming = next_time.py_func(arrays, event_list)  # type: ignore[attr-defined]
    while upcoming <= until and math.isfinite(upcoming):
        holds_until = min(until, state.calculator.update(arrays, upcoming))
        upcoming = state.entrance.enter(run_until, arrays, event_list, calls, holds_until)


@compiled
def keep_estimates(state: State) -> None:
    """Begin to keep running jobs sorted by estimated end."""
    state.counts[KEEP_ESTIMATES] = 1
    for index in range(state.counts[RUNNING_JOBS]):
        insert_sorted(state.estimates, index, state.jobs, state.heap[index])


def prepare(state: ClusterState, rules: Rules) -> None:
    """Rank all jobs and build the indexes that these rules need."""
    if rules.ready is not None:
        state.arrays = rules.ready(state)
    state.walk = None if rules.instead is None else rules.instead(state)
    assign_queues(state, rules.lines)
    state.arrays.counts[RESIZING] = rules.resizing
    arrays = state.arrays
    if rules.calculator is not None:
        state.calculator = state.calculator or rules.calculator(state.cluster, state.workload, arrays)
        state.calculator.update(arrays, state.now)
    elif not (rules.moving or rules.own_order):
        rank_all(arrays, rules.key)
    if rules.estimates and not arrays.counts[KEEP_ESTIMATES]:
        keep_estimates(arrays)
    if len(arrays.imagined) < rules.levels:
        imagined = np.repeat(arrays.imagined[:1], rules.levels, axis=0).view(np.recarray)
        state.arrays = arrays._replace(imagined=imagined)


def rank_all(arrays: State, key: Key) -> None:
    """Rank all jobs, waiting or yet to come, by keys that do not change."""
    fill_keys(arrays, key)
    order = np.argsort(arrays.keys, kind="stable")
    if not np.array_equal(order, arrays.order):
        queue_up(arrays.jobs, arrays.order, (arrays.leaves, arrays.branches, arrays.roots), order)


def act(state: ClusterState, rules: Rules) -> Actions:
    """Take one decision of compiled rules on a state, changing it, and return what was done."""
    prepare(state, rules)
    decide(state.arrays, rules.calls_on(state))
    return logged(state)


def queued(state: ClusterState, rules: Rules) -> list[int]:
    """Return the waiting jobs in the order in which rules look at them; the state stays as it is."""
    ahead = state.copy()
    prepare(ahead, rules)
    fill_keys(ahead.arrays, rules.key)
    waiting = ahead.waiting
    return [int(row) for row in waiting[np.argsort(ahead.arrays.keys[waiting], kind="stable")]]


def logged(state: ClusterState) -> list[Action]:
    """Return the actions of the last decision."""
    jobs, kinds = np.divmod(state.arrays.log[:state.arrays.counts[STARTED]], KINDS)
    # A column at a time: a field of a record, read in Python, takes longer than placing its job did.
    rows, nodes, gpus = state.arrays.jobs[jobs], state.arrays.held["node"], state.arrays.held["gpus"]
    columns = [rows[name].tolist() for name in ("held", "nodes_held", "cpus", "memory", "cpus_held", "memory_held")]
    done: list[Action] = []
    for job, kind, first, count, cpus, memory, *granted in zip(jobs.tolist(), kinds.tolist(), *columns, strict=True):
        if kind == PREEMPTED_NOW:
            done.append(Preempt(job))
        else:
            done.append((Resize if kind == RESIZED_NOW else Start)(
                job, tuple(nodes[first:first + count].tolist()), tuple(gpus[first:first + count].tolist()),
                *((None, None) if granted == [cpus, memory] else granted)))
    return done


@dataclass(frozen=True)
class Run:
    """The result of a replay; row ``j`` of every array is job ``workload.ids[j]``."""

    policy: str
    seed: int
    cluster: Cluster
    workload: Workload
    state: ClusterState
    """The state at the end of the run."""

    @property
    def start(self) -> Floats:
        """Return first starts; NaN for a job that never started."""
        return self.state.arrays.jobs.start

    @property
    def end(self) -> Floats:
        """Return ends; NaN for a job that did not end."""
        jobs = self.state.arrays.jobs
        return np.where(jobs.status == a.ENDED, jobs.end, np.nan)

    @property
    def rejected(self) -> list[Rejection]:
        """Return the jobs that can never run, each with its reason."""
        return self.state.rejected

    @property
    def digest(self) -> str:
        """Return the digest of the event log: equal digests mean equal runs."""
        return f"{int(self.state.arrays.words[a.DIGEST]):016x}"


def run(cluster: Cluster, workload: Workload, policy: Policy, *, seed: int = 0, until: float = np.inf,
        **terms: Unpack[ReplayOptions]) -> Run:
    """Replay a workload under a policy until all jobs have ended, or until ``until``. Same arguments, same digest."""
    state = ClusterState.of(cluster, workload, seed=seed, **terms)
    rules: Rules | None = getattr(policy, "rules", None)
    if rules is None:
        for _ in stepwise(state, event_list_of(cluster), policy, until):
            pass
    else:
        prepare(state, rules)
        go_on(state, event_list_of(cluster), rules, until)
    return Run(policy.name, seed, cluster, workload, state)


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """One decision point: the moment, the state after it was carried out, and what was decided."""

    time: float
    state: ClusterState
    actions: Actions


def decisions(cluster: Cluster, workload: Workload, policy: Policy, *, seed: int = 0, until: float = np.inf,
              **terms: Unpack[ReplayOptions]) -> Iterator[DecisionPoint]:
    """Replay as :func:`run` does, and show every decision; the state is the live one: read it, do not keep it."""
    state = ClusterState.of(cluster, workload, seed=seed, **terms)
    return stepwise(state, event_list_of(cluster), policy, until)


def stepwise(state: ClusterState, event_list: EventList, policy: Policy,
             until: float = np.inf) -> Iterator[DecisionPoint]:
    """Go on from any state, one decision at a time."""
    rules: Rules | None = getattr(policy, "rules", None)
    if rules is not None:
        prepare(state, rules)
    while _next_instant(state, event_list, until):
        due = is_due(state.arrays)
        if not due:
            actions: Actions = ()
        elif rules is None:
            state.arrays.counts[STARTED] = 0
            actions = policy.decide(state)
            state.apply(actions)
        else:
            decide(state.arrays, rules.calls_on(state))
            actions = logged(state)
        if state.arrays.counts[COUPLED]:
            update_rates(state.arrays)
        if due:
            book_slot(state.arrays)
            yield DecisionPoint(state.now, state, actions)


def _next_instant(state: ClusterState, event_list: EventList, until: float) -> bool:
    """Advance, with the jobs ranked for what happens."""
    if state.calculator is not None:
        state.calculator.update(state.arrays, next_time(state.arrays, event_list))
    return bool(advance(state.arrays, event_list, until))


@dataclass(frozen=True, slots=True)
class Expectation:
    """When and where a waiting job starts if the policy is followed and every job uses its whole limit."""

    start: float
    placement: Placement


def forecast(state: ClusterState, policy: Policy, horizon_s: float = 30 * 86400.0) -> dict[int, Expectation]:
    """Return what to expect for each waiting job; jobs that do not start within the horizon are missing.

    Running jobs end at their limits, waiting ones run for their limits; nobody new arrives.
    """
    waiting = state.waiting
    if not len(waiting):
        return {}
    ahead = followed(state, policy, horizon_s)
    start = ahead.arrays.jobs.start
    return {int(job): Expectation(float(start[job]), ahead.placement(job)) for job in waiting
            if not np.isnan(start[job])}


def followed(state: ClusterState, policy: Policy, horizon_s: float) -> ClusterState:
    """Return the state after a policy was followed for so long and nobody new arrived."""
    ahead = state.copy()
    event_list = EventList(np.array([len(state.workload), 0]), np.zeros(0), np.zeros(0, np.int64),
                           np.zeros(0, np.int64))
    rules: Rules | None = getattr(policy, "rules", None)
    if rules is None:
        ahead.apply(policy.decide(ahead))
        for _ in stepwise(ahead, event_list, policy, state.now + horizon_s):
            pass
    else:
        prepare(ahead, rules)
        decide(ahead.arrays, rules.calls_on(ahead))
        go_on(ahead, event_list, rules, state.now + horizon_s)
    return ahead

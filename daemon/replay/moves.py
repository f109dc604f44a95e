"""What can happen to a job, compiled: join the queue, start, be preempted, end. Nothing else changes a state."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import (
    CHANGED,
    DIGEST,
    DIVIDED,
    ENDED,
    ENDED_JOBS,
    HELD,
    KEEP_ESTIMATES,
    KINDS,
    NOW,
    OVERHEAD,
    POWER_DOWN,
    PREEMPTED_NOW,
    PREEMPTIONS,
    RANDOM,
    RESIZED_NOW,
    RETURNING,
    RUNNING,
    RUNNING_JOBS,
    STARTED,
    STARTED_NOW,
    WAITING,
    WAITING_JOBS,
    WAKE_UP,
    Ask,
    PlacementView,
    Records,
    State,
    Words,
)
from .compiled import compiled
from .execution_rate import level_of, speed_of
from .queue import drop, insert, insert_sorted, push, remove, remove_sorted
from .slots import occupy, occupy_close

_long: Any = np.int64
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


@compiled
def scramble(word: np.uint64) -> np.uint64:
    """Return splitmix64's finaliser of ``word``."""
    word = (word ^ (word >> np.uint64(30))) * _MIX1
    word = (word ^ (word >> np.uint64(27))) * _MIX2
    return word ^ (word >> np.uint64(31))


@compiled
def draw(words: Words, below: int) -> int:
    """Return the next random number of 0..below-1 (splitmix64, so that any language can follow)."""
    words[RANDOM] = words[RANDOM] + _GOLDEN
    return _long((scramble(words[RANDOM]) >> np.uint64(11)) % np.uint64(below))


@compiled
def note(words: Words, kind: int, row: int, time: float, value: int) -> None:
    """Fold one event into the digest of the event log; ``time`` counts to the microsecond."""
    word = scramble(words[DIGEST] ^ np.uint64(np.int64(np.round(time * 1e6))))
    event = (np.int64(kind) << np.int64(60)) + (np.int64(row) << np.int64(24)) + np.int64(value)
    words[DIGEST] = scramble(word ^ np.uint64(event))


@compiled
def site_of(state: State) -> PlacementView:
    """Return what a placement may look at: the cluster as it is."""
    return site_with(state, state.nodes)


@compiled
def site_with(state: State, nodes: Records) -> PlacementView:
    """Return the cluster with imagined nodes."""
    return PlacementView(nodes, state.eligible, state.demand, state.words, state.weights, state.traits)


@compiled
def ask_of(state: State, job: int) -> Ask:
    """Return what a job asks for."""
    row = state.jobs[job]
    return Ask(_long(row.pool), _long(row.chunk), _long(row.cpus), _long(row.memory),
               _long(row.chunks), _long(row.rest), _long(row.rests), _long(row.whole), _long(job), _long(row.tasked))


@compiled
def held_by(state: State, job: int) -> Ask:
    """Return what a running job was granted, as if it had requested that."""
    row = state.jobs[job]
    return Ask(_long(row.pool), _long(row.chunk), _long(row.cpus_held), _long(row.memory_held),
               _long(row.chunks), _long(row.rest), _long(row.rests), _long(row.whole), _long(job), _long(row.tasked))


@compiled
def ask_for(state: State, job: int, gpus: int) -> Ask:
    """Return what a job asks for if it is to get so many GPUs: as it is, or in full nodes and one for the rest."""
    row, ask = state.jobs[job], ask_of(state, job)
    if gpus == row.gpus:
        return ask
    chunk = min(gpus, _long(row.widest))
    rest = gpus % chunk
    return Ask(ask.pool, chunk, part(ask.cpus, ask, chunk), part(ask.memory, ask, chunk),
               gpus // chunk, rest, 1 if rest > 0 else 0, ask.whole, ask.job, ask.tasked)


@compiled
def part(amount: int, ask: Ask, gpus: int) -> int:
    """Return the CPUs or bytes that go with ``gpus`` of a chunk: its share, rounded up."""
    if gpus == ask.gpus or amount == 0:
        return amount
    return -((-amount * gpus) // ask.gpus)


@compiled
def fits(site: PlacementView, node: int, ask: Ask, gpus: int) -> bool:
    """Tell whether ``gpus`` of the job, and the CPUs and memory that go with them, fit on the node now."""
    row = site.nodes[node]
    return (row.free_gpus >= gpus and row.open == 1 and site.eligible[ask.pool, node] == 1
            and row.free_cpus >= part(ask.cpus, ask, gpus) and row.free_memory >= part(ask.memory, ask, gpus)
            and (ask.whole == 0 or (row.free_gpus == row.gpus and row.free_cpus == row.cpus)))


@compiled
def take(nodes: Records, node: int, ask: Ask, gpus: int, sign: int) -> None:
    """Take (sign 1) or give back (-1) what ``gpus`` of the job need on the node."""
    row = nodes[node]
    row.free_gpus -= sign * gpus
    row.free_cpus -= sign * (row.cpus if ask.whole == 1 else part(ask.cpus, ask, gpus))
    row.free_memory -= sign * part(ask.memory, ask, gpus)


@compiled
def join(state: State, job: int) -> None:
    """Let a job wait: in its partition's queue, or held while the job it depends on has not ended."""
    row = state.jobs[job]
    if row.dependency >= 0 and state.jobs[row.dependency].status != ENDED:
        row.status = HELD
        return
    row.status = WAITING
    state.counts[WAITING_JOBS] += 1
    insert(state, row.queue, row.rank)
    if state.lines[row.queue].blocked < 0 or row.rank < state.lines[row.queue].blocked:
        state.counts[CHANGED] = 1


@compiled
def charge(state: State, job: int, sign: int) -> None:
    """Book what the job holds on its user's account, in whole numbers, so that what is booked back leaves no trace."""
    row, ask = state.jobs[job], held_by(state, job)
    state.usage[row.user, 0] += sign * row.gpus_held
    for index in range(row.held, row.held + row.nodes_held):
        state.usage[row.user, 1] += sign * part(ask.cpus, ask, state.held[index].gpus)
        state.usage[row.user, 2] += sign * part(ask.memory, ask, state.held[index].gpus)


@compiled
def share_out(state: State, job: int, ask: Ask, count: int) -> None:
    """Write down how a job splits over ``count`` chosen nodes, full chunks first, with the CPUs and memory it wants."""
    row = state.jobs[job]
    for index in range(count):
        state.shares[index] = ask.gpus if index < ask.chunks else ask.rest
    row.cpus_held, row.memory_held = row.cpus, row.memory


@compiled
def _read_meter(state: State, node: int) -> None:
    """Book the time since the node last became busy or empty; to be called when that changes."""
    meter, now = state.meters[node], state.clock[NOW]
    gap = now - meter.changed
    if state.nodes[node].busy > 0:
        meter.busy += gap
    else:
        awake = min(state.costs[POWER_DOWN], meter.slept - meter.changed)
        meter.empty += min(gap, awake)
        meter.down += max(0.0, gap - awake)
    meter.changed, meter.slept = now, np.inf


@compiled
def rouse(state: State, node: int) -> None:
    """Make an empty node ready for jobs: one that was powered down comes up first."""
    meter, now = state.meters[node], state.clock[NOW]
    if meter.slept <= now or now - meter.changed > state.costs[POWER_DOWN]:
        meter.ready = now + state.costs[WAKE_UP]
        meter.woken += 1
    _read_meter(state, node)


@compiled
def _hold(state: State, job: int, count: int) -> None:
    """Give a job its shares of the ``count`` chosen nodes."""
    row, ask, size = state.jobs[job], held_by(state, job), 0
    for index in range(count):
        node, gpus = state.chosen[index], state.shares[index]
        take(state.nodes, node, ask, gpus, 1)
        if state.nodes[node].busy == 0:
            rouse(state, node)
        state.nodes[node].busy += 1
        state.nodes[node].stirred = 1
        if state.counts[DIVIDED] == 1:
            occupy_close(state.occupant, state.islands, node, gpus, job)
        else:
            occupy(state.occupant, node, gpus, -1, job)
        state.held[row.held + index].node = node
        state.held[row.held + index].gpus = gpus
        size += gpus
    row.nodes_held, row.gpus_held = count, size
    charge(state, job, 1)


@compiled
def run_on(state: State, job: int, count: int, pause: float) -> None:
    """Set a job running at its speed on its shares of the ``count`` chosen nodes, after a pause of so many seconds.

    The pause is longer where one of them still comes up.
    """
    row, now, size = state.jobs[job], state.clock[NOW], state.counts[RUNNING_JOBS]
    _hold(state, job, count)
    for index in range(count):
        pause = max(pause, state.meters[state.chosen[index]].ready - now)
    row.status = RUNNING
    row.since = row.as_of = now
    row.rate = speed_of(state, job, row.gpus_held, level_of(state, job, count))
    row.remaining += pause * row.rate
    row.end = now + row.remaining / row.rate
    row.estimate = now + max(0.0, row.limit - row.attained / max(1, row.gpus_held))
    push(state.heap, state.jobs, job, size)
    if state.counts[KEEP_ESTIMATES] == 1:
        insert_sorted(state.estimates, size, state.jobs, job)
    state.counts[RUNNING_JOBS] = size + 1


@compiled
def start(state: State, job: int, count: int) -> None:
    """Start or resume a waiting job in its own shape on the ``count`` chosen nodes, now."""
    share_out(state, job, ask_of(state, job), count)
    start_shares(state, job, count)


@compiled
def start_shares(state: State, job: int, count: int) -> None:
    """Start or resume a waiting job with the shares and grants written down, now."""
    row, now = state.jobs[job], state.clock[NOW]
    remove(state, row.queue, row.rank)
    state.counts[WAITING_JOBS] -= 1
    if np.isnan(row.start):
        row.start = now
    run_on(state, job, count, 0.0)
    log_action(state, job, STARTED_NOW)
    note(state.words, 1, job, now, state.chosen[0] + 4096 * count)


@compiled
def resize(state: State, job: int, count: int, cpus: int, memory: int, pause: float) -> None:
    """Let a running job go on with the shares written down and these grants, now, after a pause of so many seconds."""
    row = state.jobs[job]
    release(state, job)
    row.cpus_held, row.memory_held = cpus, memory
    run_on(state, job, count, pause)
    log_action(state, job, RESIZED_NOW)
    note(state.words, 5, job, state.clock[NOW], row.gpus_held + 4096 * count)


@compiled
def log_action(state: State, job: int, kind: int) -> None:
    """Write an action down, as long as there is room: rules do at most three things to a job in one decision."""
    if state.counts[STARTED] < state.log.size:
        state.log[state.counts[STARTED]] = job * KINDS + kind
    state.counts[STARTED] += 1


@compiled
def release(state: State, job: int) -> None:
    """Take a running job off its nodes and book the work it did there."""
    row, now, size, ask = state.jobs[job], state.clock[NOW], state.counts[RUNNING_JOBS], held_by(state, job)
    for index in range(row.held, row.held + row.nodes_held):
        node, gpus = state.held[index].node, state.held[index].gpus
        take(state.nodes, node, ask, gpus, -1)
        held_s = (now - row.since) * gpus
        state.meters[node].gpu += held_s
        if row.draw == row.draw:  # NaN differs from itself
            state.meters[node].known += held_s
            state.meters[node].load += held_s * row.load
            state.meters[node].draw += held_s * row.draw
        if state.nodes[node].busy == 1:
            _read_meter(state, node)
        state.nodes[node].busy -= 1
        state.nodes[node].stirred = 1
        occupy(state.occupant, node, gpus, job, -1)
    charge(state, job, -1)
    drop(state.heap, state.jobs, job, size)
    if state.counts[KEEP_ESTIMATES] == 1:
        remove_sorted(state.estimates, size, state.jobs, job)
    state.counts[RUNNING_JOBS], state.counts[CHANGED] = size - 1, 1
    row.attained += (now - row.since) * row.gpus_held
    row.remaining = max(0.0, row.remaining - (now - row.as_of) * row.rate)


@compiled
def finish(state: State, job: int) -> None:
    """End a job and let those that waited for it join the queue."""
    release(state, job)
    row = state.jobs[job]
    row.status, row.remaining = ENDED, 0.0
    state.counts[ENDED_JOBS] += 1
    note(state.words, 2, job, state.clock[NOW], 0)
    child = row.first_child
    while child >= 0:
        if state.jobs[child].status == HELD:
            join(state, child)
        child = state.jobs[child].next_child


@compiled
def preempt(state: State, job: int) -> None:
    """Send a running job back to the queue; it keeps its progress and pays the overhead as extra work."""
    release(state, job)
    row = state.jobs[job]
    row.remaining += state.costs[OVERHEAD] * row.rate
    row.preempted += 1
    row.status = WAITING
    state.counts[WAITING_JOBS] += 1
    state.counts[PREEMPTIONS] += 1
    insert(state, row.queue, row.rank)
    log_action(state, job, PREEMPTED_NOW)
    note(state.words, 3, job, state.clock[NOW], 0)


@compiled
def requeue(state: State, job: int, again: float) -> None:
    """Take a running job off its nodes, to start over from nothing and not before a moment; see :func:`come_back`."""
    release(state, job)
    row = state.jobs[job]
    row.remaining, row.attained = row.run, 0.0
    row.preempted += 1
    row.status = HELD
    row.since = row.end = again
    state.counts[PREEMPTIONS] += 1
    state.counts[RETURNING] += 1
    log_action(state, job, PREEMPTED_NOW)
    note(state.words, 3, job, state.clock[NOW], 0)


@compiled
def come_back(state: State, job: int) -> None:
    """Let a job that was requeued wait again."""
    state.counts[RETURNING] -= 1
    join(state, job)


@compiled
def cancel(state: State, job: int) -> None:
    """End a running job now, whatever it still had to do."""
    finish(state, job)
    row = state.jobs[job]
    row.end = state.clock[NOW]
    row.preempted += 1
    state.counts[PREEMPTIONS] += 1
    log_action(state, job, PREEMPTED_NOW)

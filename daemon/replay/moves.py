"""What can happen to a job, compiled: join the queue, start on nodes, be preempted, end. Nothing else changes a state."""

from __future__ import annotations

import numpy as np

from .arrays import (
    ENDED,
    ENDED_JOBS,
    HELD,
    KEEP_ESTIMATES,
    NOW,
    PREEMPTIONS,
    RUNNING,
    RUNNING_JOBS,
    STARTED,
    WAITING,
    WAITING_JOBS,
    Ask,
    Jobs,
    Nodes,
    Running,
    State,
    Words,
)
from .compiled import compiled
from .queue import drop, insert, insert_sorted, push, remove, remove_sorted

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
def draw(random: Words, below: int) -> int:
    """Return the next random number of 0..below-1 (splitmix64, so that any language can follow)."""
    random[0] = random[0] + _GOLDEN
    return np.int64((scramble(random[0]) >> np.uint64(11)) % np.uint64(below))


@compiled
def note(digest: Words, kind: int, job: int, time: float, value: int) -> None:
    """Fold one event into the digest of the event log; ``time`` counts to the microsecond."""
    word = digest[0] ^ np.uint64(np.int64(np.round(time * 1e6)))
    word = scramble(word) ^ (np.uint64(np.int64(job)) * _GOLDEN)
    digest[0] = scramble(word ^ (np.uint64(kind) << np.uint64(60)) ^ np.uint64(np.int64(value)))


@compiled
def ask_of(jobs: Jobs, job: int) -> Ask:
    """Return what a job asks for."""
    return Ask(np.int64(jobs.pool[job]), np.int64(jobs.chunk[job]), np.int64(jobs.cpus[job]), np.int64(jobs.memory[job]),
               np.int64(jobs.chunks[job]), np.int64(jobs.rest[job]))


@compiled
def part(amount: int, ask: Ask, gpus: int) -> int:
    """Return the CPUs or bytes that go with ``gpus`` of a chunk: its share, rounded up."""
    if gpus == ask.gpus:
        return amount
    return -((-amount * gpus) // ask.gpus)


@compiled
def fits(nodes: Nodes, node: int, ask: Ask, gpus: int) -> bool:
    """Tell whether ``gpus`` of the job, and the CPUs and memory that go with them, fit on the node now."""
    return (nodes.free_gpus[node] >= gpus and nodes.open[node] == 1 and nodes.eligible[ask.pool, node] == 1
            and nodes.free_cpus[node] >= part(ask.cpus, ask, gpus)
            and nodes.free_memory[node] >= part(ask.memory, ask, gpus))


@compiled
def take(nodes: Nodes, node: int, ask: Ask, gpus: int, sign: int) -> None:
    """Take (sign 1) or give back (-1) what ``gpus`` of the job need on the node."""
    nodes.free_gpus[node] -= sign * gpus
    nodes.free_cpus[node] -= sign * part(ask.cpus, ask, gpus)
    nodes.free_memory[node] -= sign * part(ask.memory, ask, gpus)


@compiled
def _occupy(running: Running, node: int, gpus: int, before: int, after: int) -> None:
    """Hand ``gpus`` slots of the node from one occupant to another, lowest index first."""
    slots = running.occupant[node]
    for slot in range(slots.size):
        if gpus == 0:
            return
        if slots[slot] == before:
            slots[slot] = after
            gpus -= 1


@compiled
def span(nodes: Nodes, chosen: np.ndarray, count: int) -> int:
    """Return how far apart nodes are: 0 one node, 1 one leaf switch, 2 one spine, 3 further."""
    level = 0 if count == 1 else 1
    for index in range(1, count):
        if nodes.spine[chosen[index]] != nodes.spine[chosen[0]]:
            return 3
        if nodes.leaf[chosen[index]] != nodes.leaf[chosen[0]]:
            level = 2
    return level


@compiled
def speed_of(state: State, job: int, gpus: int, level: int) -> float:
    """Return the speed of a job on ``gpus`` GPUs at a topology level, relative to what it asked for on one node."""
    model, speed = state.jobs.model[job], state.speed
    last = speed.size.shape[1] - 1
    wanted = speed.size[model, min(state.jobs.gpus[job], last)]
    if wanted <= 0.0:
        return 1.0
    return speed.size[model, min(gpus, last)] / wanted * speed.spread[model, level]


@compiled
def join(state: State, job: int) -> None:
    """Let a job wait: in its partition's queue, or held while the job it depends on has not ended."""
    parent = state.jobs.dependency[job]
    status = state.progress.status
    if parent >= 0 and status[parent] != ENDED:
        status[job] = HELD
        return
    status[job] = WAITING
    state.count[WAITING_JOBS] += 1
    insert(state.queue, state.jobs.partition[job], state.queue.rank[job])


@compiled
def _charge(state: State, job: int, sign: float) -> None:
    """Book what the job holds on its user's shares."""
    gpus = np.float64(state.progress.size[job])
    chunks = gpus / max(1.0, np.float64(state.jobs.chunk[job]))
    user, usage = state.jobs.user[job], state.usage
    usage[user, 0] += sign * gpus
    usage[user, 1] += sign * chunks * state.jobs.cpus[job]
    usage[user, 2] += sign * chunks * state.jobs.memory[job]


@compiled
def occupy(state: State, job: int, chosen: np.ndarray, count: int) -> None:
    """Give a job its nodes: full chunks first, the rest on the last of them."""
    progress, ask = state.progress, ask_of(state.jobs, job)
    first, size = progress.offset[job], 0
    for index in range(count):
        node = chosen[index]
        gpus = ask.gpus if index < ask.chunks else ask.rest
        take(state.nodes, node, ask, gpus, 1)
        state.nodes.busy[node] += 1
        _occupy(state.running, node, gpus, -1, job)
        progress.node[first + index] = node
        progress.share[first + index] = gpus
        size += gpus
    progress.width[job], progress.size[job] = count, size
    _charge(state, job, 1.0)


@compiled
def run_on(state: State, job: int, chosen: np.ndarray, count: int) -> None:
    """Set a job running at its speed on these nodes."""
    progress, now, size = state.progress, state.clock[NOW], state.count[RUNNING_JOBS]
    occupy(state, job, chosen, count)
    progress.status[job] = RUNNING
    progress.since[job] = now
    progress.rate[job] = speed_of(state, job, progress.size[job], span(state.nodes, chosen, count))
    progress.end[job] = now + progress.remaining[job] / progress.rate[job]
    spent = progress.attained[job] / max(1, progress.size[job])
    progress.estimate[job] = now + max(0.0, state.jobs.limit[job] - spent)
    push(state.running, progress.end, job, size)
    if state.count[KEEP_ESTIMATES] == 1:
        insert_sorted(state.running.estimates, size, progress.estimate, job)
    state.count[RUNNING_JOBS] = size + 1


@compiled
def start(state: State, job: int, chosen: np.ndarray, count: int) -> None:
    """Start or resume a waiting job on the chosen nodes, now."""
    progress, now = state.progress, state.clock[NOW]
    remove(state.queue, state.jobs.partition[job], state.queue.rank[job])
    state.count[WAITING_JOBS] -= 1
    if np.isnan(progress.start[job]):
        progress.start[job] = now
    run_on(state, job, chosen, count)
    state.log[state.count[STARTED]] = job + 1
    state.count[STARTED] += 1
    note(state.digest, 1, job, now, chosen[0] + 65536 * count)


@compiled
def release(state: State, job: int) -> None:
    """Take a running job off its nodes and book the work it did there."""
    progress, ask, now = state.progress, ask_of(state.jobs, job), state.clock[NOW]
    size = state.count[RUNNING_JOBS]
    for index in range(progress.offset[job], progress.offset[job] + progress.width[job]):
        node, gpus = progress.node[index], progress.share[index]
        take(state.nodes, node, ask, gpus, -1)
        state.nodes.busy[node] -= 1
        _occupy(state.running, node, gpus, job, -1)
    _charge(state, job, -1.0)
    drop(state.running, progress.end, job, size)
    if state.count[KEEP_ESTIMATES] == 1:
        remove_sorted(state.running.estimates, size, progress.estimate, job)
    state.count[RUNNING_JOBS] = size - 1
    progress.attained[job] += (now - progress.since[job]) * progress.size[job]
    progress.remaining[job] = max(0.0, progress.remaining[job] - (now - progress.since[job]) * progress.rate[job])


@compiled
def finish(state: State, job: int) -> None:
    """End a job and let those that waited for it join the queue."""
    release(state, job)
    state.progress.status[job] = ENDED
    state.progress.remaining[job] = 0.0
    state.count[ENDED_JOBS] += 1
    note(state.digest, 2, job, state.clock[NOW], 0)
    if state.jobs.first_child.size == 0:
        return
    child = state.jobs.first_child[job]
    while child >= 0:
        if state.progress.status[child] == HELD:
            join(state, child)
        child = state.jobs.next_child[child]


@compiled
def preempt(state: State, job: int) -> None:
    """Send a running job back to the queue; it keeps its progress and pays the overhead as extra work."""
    release(state, job)
    state.progress.remaining[job] += state.overhead[0] * state.progress.rate[job]
    state.progress.preempted[job] += 1
    state.progress.status[job] = WAITING
    state.count[WAITING_JOBS] += 1
    state.count[PREEMPTIONS] += 1
    insert(state.queue, state.jobs.partition[job], state.queue.rank[job])
    state.log[state.count[STARTED]] = -job - 1
    state.count[STARTED] += 1
    note(state.digest, 3, job, state.clock[NOW], 0)

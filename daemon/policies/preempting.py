"""Preemption: a waiting job may take the place of running ones that come after it in the order."""

from ..replay.arrays import DEPTH, MAX_STARTS, NOW, RUNNING_JOBS, STARTED, WAITING, Ask, State
from ..replay.compiled import compiled
from ..replay.moves import ask_of, charge, preempt, start
from ..replay.queue import following, sort_jobs
from ..replay.rules import Key, Place
from .easy import give_back, imagined
from .registry import backfill
from .strict import try_start


@compiled
def rank_everybody(state: State, key: Key) -> int:
    """List waiting and running jobs by present key, ties by row; return how many there are."""
    count = 0
    for partition in range(state.lines.size):
        rank = following(state, partition, 0)
        while rank >= 0:
            state.listed[count] = state.order[rank]
            count += 1
            rank = following(state, partition, rank + 1)
    for index in range(state.counts[RUNNING_JOBS]):
        state.listed[count] = state.heap[index]
        count += 1
    for index in range(count):
        state.keys[state.listed[index]] = key(state, state.listed[index])
    sort_jobs(state.listed, count, state.keys)
    return count


@compiled
def displace(state: State, key: Key, place: Place, job: int, count: int) -> bool:
    """Start a job in place of running ones of higher key, last in the order first; False if even that is not enough."""
    ask, site, nodes, index = ask_of(state, job), imagined(state, 0), 0, count
    while nodes == 0 and index > 0 and state.keys[state.listed[index - 1]] > state.keys[job]:
        index -= 1
        if takes_turns(state, state.listed[index], ask) and gives_up(state, key, index, state.keys[job]):
            give_back(state, site, ~state.listed[index], ask)
            nodes = place(site, ask, state.chosen)
    settle(state, index, count, nodes)
    if nodes > 0:
        start(state, job, nodes)
    return nodes > 0


@compiled
def takes_turns(state: State, victim: int, ask: Ask) -> bool:
    """Tell whether a job runs, may be preempted, did not start just now, and holds a node that the other may use."""
    row = state.jobs[victim]
    if state.jobs[victim].place < 0 or row.preemptible == 0 or row.since >= state.clock[NOW]:
        return False
    for part in range(row.held, row.held + row.nodes_held):
        if state.eligible[ask.pool, state.held[part].node] == 1:
            return True
    return False


@compiled
def gives_up(state: State, key: Key, index: int, below: float) -> bool:
    """Strike a job off its user's account and list it as given up, ``~job``, unless it would then come first itself.

    Where keys go by what users hold, nobody loses so much to another that he could take it back.
    """
    victim = state.listed[index]
    charge(state, victim, -1)
    if key(state, victim) > below:
        state.listed[index] = ~victim
        return True
    charge(state, victim, 1)
    return False


@compiled
def settle(state: State, first: int, count: int, nodes: int) -> None:
    """Preempt those that were given up, last in the order first, as far as they hold one of the chosen nodes."""
    for index in range(count - 1, first - 1, -1):
        if state.listed[index] >= 0:
            continue
        victim = ~state.listed[index]
        state.listed[index] = victim
        charge(state, victim, 1)
        if holds_chosen(state, victim, nodes):
            preempt(state, victim)


@compiled
def holds_chosen(state: State, job: int, nodes: int) -> bool:
    """Tell whether a job holds one of the chosen nodes."""
    row = state.jobs[job]
    for part in range(row.held, row.held + row.nodes_held):
        for index in range(nodes):
            if state.held[part].node == state.chosen[index]:
                return True
    return False


@backfill("preempt", own_order=True)
def preempting(state: State, key: Key, place: Place) -> None:
    """Go through all jobs in order; let each that waits start, if need be in place of later ones."""
    count = rank_everybody(state, key)
    failed = 0
    for index in range(count):
        job = state.listed[index]
        if state.jobs[job].status != WAITING:
            continue
        if state.counts[STARTED] >= state.counts[MAX_STARTS]:
            return
        if not try_start(state, place, job) and not displace(state, key, place, job, count):
            failed += 1
            if failed > state.counts[DEPTH]:
                return

"""The cached tables of Slurm's backfill: running jobs, plans, and the needs of each kind of jobs.

They are stored in ``State``: integers in ``outlook``, times in ``scratch`` behind its first places. Jobs with the same
request on the same nodes are of one kind: for each node the tables have the running job that must end before the node
has enough for a part of such a job, and nodes are sorted by these ends. Entries of nodes on which nothing has changed
are reused, from one job to the next and from one walk to the next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..replay.arrays import RUNNING_JOBS, Ask, Floats, Longs, State
from ..replay.compiled import compiled
from ..replay.moves import part
from ..replay.node_selection import least

LAST, SEEN, CHOSEN, AGAIN, TABLES = range(5)
"""Places in ``State.scratch``: when the last walk was; what had happened by then; how many nodes were chosen; when
somebody may make room again. From the last on it has tables of all jobs, which preemption goes by, and behind these
the moments."""
COLUMNS_OF_JOBS = 4
PLANNED, CHANGES, OPENED, CLEAR, FEW, LISTED, INTERVALS, HEADER = range(8)
"""Places in ``State.outlook``: how many plans there are, how often a node changed, how many imagined nodes are
open, how many nodes clear, whether these are few, how often running jobs were listed, how many intervals there are."""
RUNS, PLANS = 32, 48
"""Running jobs and plans that are stored separately on a node."""
POOL, GPUS, CPUS, MEMORY, WHOLE, SYNCED, SIZE, SEATED, COLUMNS = range(9)
"""Columns of a kind: its request; the last change of nodes that it includes, counted from 1; how many nodes it can use;
the number of the list of running jobs that its places refer to."""
TRIES = 8
"""Slots that a kind may take; where others have all of them, it replaces one."""
AT_ONCE, NEVER = -1, 1 << 60
"""Values in place of the job that has to end: no job has to end; no end of a job is enough."""
NODE_BITS = 32
"""Bit at which the second of two nodes begins that are packed into one number."""
_long: Any = np.int64
_at: Any = np.uint64
"""An index that cannot be negative."""
_MIX = _long(-7046029254386353131)


class BackfillTables(NamedTuple):
    """Parts of the scratch, by what is in them."""

    head: Longs
    ends: Floats
    """[place] when a running job is gone by its limit; places are those in ``State.estimates``."""
    first: Floats
    """[node] when its first plan begins."""
    plan_time: Floats
    """[plan], by end."""
    plan_ends: Floats
    plan_node: Longs
    interval_time: Floats
    """[interval of plans for a node, each of which begins as the one before ends], by end."""
    interval_ends: Floats
    interval_node: Longs
    next_time: Floats
    """[interval], by begin."""
    next_ends: Floats
    next_node: Longs
    blockers: Longs
    """[node] intervals that are in the way at the moment that is looked at; more than ever on a node without use."""
    plans_on: Longs
    """[node] number of plans."""
    where: Longs
    """[place] both nodes of a running job as one number, or its only one twice; -1 for one of more."""
    places: Longs
    """[job] its place among running jobs."""
    entry: Longs
    """[node] first entry that is released there; -1 for none."""
    latest: Longs
    """[node] last entry that is released there."""
    apart: Longs
    """[node] number of running jobs that are stored separately."""
    known: Longs
    """[node] digest of the node's state."""
    fresh: Longs
    changed: Longs
    """[change] node, round and round."""
    back: Longs
    """[5 * entry]: place of the job, GPUs, CPUs and bytes that are given back, next entry."""
    opened: Longs
    """Imagined nodes that are open."""
    clear: Longs
    """[word] usable nodes without such a plan, by their place in the order of the kind."""
    touching: Longs
    """[word] running jobs, by place, that hold a part of a clear node; filled in only where these are few."""
    kinds: Longs
    """[COLUMNS * kind]"""
    usable: Longs
    """[word of kind] nodes."""
    needs: Longs
    """[node of kind] job that has to end."""
    ranked: Longs
    """[place of kind] nodes by that."""
    seats: Longs
    """[node of kind] its place among them; -1 for a node that is of no use."""
    turns: Longs
    """[place of kind] place of the running job that has to end there."""


@compiled
def kinds_of(nodes: int) -> int:
    """Return how many kinds the tables hold."""
    return 256 if nodes <= 256 else 64


@compiled
def words_of(nodes: int) -> int:
    """Return how many words a set of nodes takes."""
    return (nodes + 63) >> 6


def rooms(nodes: int, jobs: int) -> tuple[int, int]:
    """Return how long ``outlook`` and ``scratch`` have to be."""
    kinds, words = kinds_of.py_func(nodes), words_of.py_func(nodes)  # type: ignore[attr-defined]
    longs = (HEADER + 3 * nodes * PLANS + 2 * (jobs + 1) + 9 * nodes + 5 * nodes * RUNS + words + jobs // 64 + 1
             + kinds * (COLUMNS + words + 4 * nodes))
    return longs, TABLES + COLUMNS_OF_JOBS * jobs + jobs + 1 + nodes + 6 * nodes * PLANS


@compiled
def tables_of(state: State) -> BackfillTables:
    """Return the parts of the scratch."""
    nodes, jobs, words = state.nodes.size, state.jobs.size + 1, words_of(state.nodes.size)
    plans, kinds = nodes * PLANS, kinds_of(state.nodes.size)
    moments, longs = state.scratch[TABLES + COLUMNS_OF_JOBS * state.jobs.size:], state.outlook[HEADER:]
    times = moments[jobs + nodes:]
    runs, sites, back = longs[3 * plans:], longs[3 * plans + 2 * jobs:], longs[3 * plans + 2 * jobs + 9 * nodes:]
    sets = back[5 * nodes * RUNS:]
    rows = sets[words + jobs // 64 + 1:]
    needs = rows[kinds * (COLUMNS + words):]
    return BackfillTables(
        head=state.outlook[:HEADER], ends=moments, first=moments[jobs:],
        plan_time=times, plan_ends=times[plans:], next_time=times[2 * plans:], next_ends=times[3 * plans:],
        interval_time=times[4 * plans:], interval_ends=times[5 * plans:],
        plan_node=longs, interval_node=longs[plans:], next_node=longs[2 * plans:], where=runs, places=runs[jobs:],
        plans_on=sites, entry=sites[nodes:], latest=sites[2 * nodes:], apart=sites[3 * nodes:],
        known=sites[4 * nodes:], fresh=sites[5 * nodes:], changed=sites[6 * nodes:], opened=sites[7 * nodes:],
        blockers=sites[8 * nodes:], back=back, clear=sets, touching=sets[words:], kinds=rows,
        usable=rows[kinds * COLUMNS:], needs=needs, ranked=needs[kinds * nodes:],
        seats=needs[2 * kinds * nodes:], turns=needs[3 * kinds * nodes:])


@compiled
def holds(words: Longs, first: int, node: int) -> bool:
    """Tell whether a node is in the set that begins at a word."""
    return ((words[_at(first + (node >> 6))] >> (node & 63)) & 1) == 1


@compiled
def put(words: Longs, first: int, node: int) -> None:
    """Put a node into a set."""
    words[_at(first + (node >> 6))] |= np.int64(1) << (node & 63)


@compiled
def take_out(words: Longs, first: int, node: int) -> None:
    """Take a node out of a set."""
    words[_at(first + (node >> 6))] &= ~(np.int64(1) << (node & 63))


@compiled
def mixed(digest: int, value: int) -> int:
    """Return a digest with one more value in it."""
    digest = (digest ^ value) * _MIX
    return digest ^ (digest >> 29)


@compiled
def list_returns(state: State) -> None:
    """Store by node what running jobs release, by their limits, and the nodes on which anything has changed."""
    tables, used = tables_of(state), 0
    tables.head[LISTED] += 1
    for node in range(state.nodes.size):
        row = state.nodes[node]
        tables.apart[node], tables.entry[node] = 0, -1
        digest = mixed(mixed(_long(row.open) + 2, row.free_gpus), row.free_cpus)
        tables.fresh[node] = mixed(digest, row.free_memory)
    for place in range(state.counts[RUNNING_JOBS]):
        job = state.estimates[place]
        row = state.jobs[job]
        tables.ends[place], tables.places[job] = row.estimate, place
        tables.where[place] = both_nodes(state, row.held, row.nodes_held)
        for index in range(row.held, row.held + row.nodes_held):
            used = give_back(state, tables, job, place, index, used)
    for node in range(state.nodes.size):
        if tables.fresh[node] != tables.known[node]:
            tables.known[node] = tables.fresh[node]
            tables.changed[tables.head[CHANGES] % state.nodes.size] = node
            tables.head[CHANGES] += 1


@compiled
def both_nodes(state: State, first: int, count: int) -> int:
    """Return the two nodes of which a job holds a part, or its only one twice, as one number; -1 for more nodes."""
    if count > 2:
        return _long(-1)
    return _long(state.held[first].node) + (_long(state.held[first + count - 1].node) << NODE_BITS)


@compiled
def give_back(state: State, tables: BackfillTables, job: int, place: int, index: int, used: int) -> int:
    """Store what a running job releases on one node, behind former entries; return how many entries there are."""
    row, share = state.jobs[job], state.held[index]
    node, entry = share.node, 5 * used
    if tables.apart[node] < RUNS:
        if tables.apart[node] == 0:
            tables.entry[node] = entry
        else:
            tables.back[tables.latest[node] + 4] = entry
        tables.latest[node] = entry
        tables.back[entry + 1] = tables.back[entry + 2] = tables.back[entry + 3] = 0
        tables.back[entry + 4] = -1
        tables.apart[node] += 1
        used += 1
    entry = tables.latest[node]  # where more jobs run than there is room for, the last of them leave together
    cpus, memory = _long(row.cpus_held), _long(row.memory_held)
    if row.chunk > 0 and share.gpus != row.chunk:
        cpus, memory = -((-cpus * share.gpus) // row.chunk), -((-memory * share.gpus) // row.chunk)
    if row.whole == 1:
        cpus = state.nodes[node].cpus
    tables.back[entry] = place
    tables.back[entry + 1] += share.gpus
    tables.back[entry + 2] += cpus
    tables.back[entry + 3] += memory
    end = _long(min(row.estimate, 1e15) * 1024.0)
    tables.fresh[node] = mixed(mixed(mixed(mixed(mixed(tables.fresh[node], job), end), share.gpus), cpus), memory)
    return used


@compiled
def kind_of(state: State, tables: BackfillTables, ask: Ask) -> int:
    """Return the kind of a job, with its nodes up to date."""
    gpus = least(ask)
    cpus, memory = part(ask.cpus, ask, gpus), part(ask.memory, ask, gpus)
    digest, kinds = mixed(mixed(mixed(mixed(ask.pool + 1, gpus), cpus), memory), ask.whole), kinds_of(state.nodes.size)
    free = -1
    for attempt in range(TRIES):
        kind = (digest + attempt) & (kinds - 1)
        row = COLUMNS * kind
        if tables.kinds[row + SYNCED] == 0:
            free = kind
            break
        if (tables.kinds[row + POOL] == ask.pool and tables.kinds[row + GPUS] == gpus
                and tables.kinds[row + CPUS] == cpus and tables.kinds[row + MEMORY] == memory
                and tables.kinds[row + WHOLE] == ask.whole):
            sync(state, tables, kind)
            return kind
    kind = free if free >= 0 else digest & (kinds - 1)
    row = COLUMNS * kind
    tables.kinds[row + POOL], tables.kinds[row + GPUS], tables.kinds[row + CPUS] = ask.pool, gpus, cpus
    tables.kinds[row + MEMORY], tables.kinds[row + WHOLE], tables.kinds[row + SYNCED] = memory, ask.whole, 0
    tables.kinds[row + SEATED] = 0
    sync(state, tables, kind)
    return kind


@compiled
def sync(state: State, tables: BackfillTables, kind: int) -> None:
    """Update a kind for the nodes that have changed since its last use."""
    row, nodes = COLUMNS * kind, state.nodes.size
    now, before = tables.head[CHANGES] + 1, tables.kinds[row + SYNCED]
    if now == before:
        return
    if before == 0 or now - before > nodes >> 2:
        rank_anew(state, tables, kind)
    else:
        for change in range(before - 1, now - 1):
            withdraw(tables, kind, nodes, tables.changed[change % nodes])
        for change in range(before - 1, now - 1):
            admit(state, tables, kind, tables.changed[change % nodes])
    tables.kinds[row + SYNCED] = now


@compiled
def can_use(state: State, tables: BackfillTables, kind: int, node: int) -> bool:
    """Tell whether jobs of a kind may ever have a part on a node."""
    row, actual = COLUMNS * kind, state.nodes[node]
    return (actual.open == 1 and state.eligible[tables.kinds[row + POOL], node] == 1
            and actual.gpus >= tables.kinds[row + GPUS])


@compiled
def rank_anew(state: State, tables: BackfillTables, kind: int) -> None:
    """Rank all nodes for a kind."""
    nodes, count = state.nodes.size, 0
    begin, first = kind * nodes, kind * words_of(nodes)
    for word in range(words_of(nodes)):
        tables.usable[first + word] = 0
    for node in range(nodes):
        if can_use(state, tables, kind, node):
            put(tables.usable, first, node)
            tables.needs[begin + node] = need = left_by(state, tables, kind, node)
            if need == AT_ONCE:
                tables.ranked[begin + count] = node
                count += 1
    for place in range(state.counts[RUNNING_JOBS]):
        job = state.estimates[place]
        row = state.jobs[job]
        for index in range(row.held, row.held + row.nodes_held):
            node = state.held[index].node
            if holds(tables.usable, first, node) and tables.needs[begin + node] == job:
                tables.ranked[begin + count] = node
                count += 1
    for node in range(nodes):
        if holds(tables.usable, first, node) and tables.needs[begin + node] == NEVER:
            tables.ranked[begin + count] = node
            count += 1
    tables.kinds[COLUMNS * kind + SIZE] = count


@compiled
def withdraw(tables: BackfillTables, kind: int, nodes: int, node: int) -> None:
    """Take a node out of the order of a kind."""
    row, begin, first = COLUMNS * kind, kind * nodes, kind * words_of(nodes)
    if not holds(tables.usable, first, node):
        return
    take_out(tables.usable, first, node)
    index, size = begin, tables.kinds[row + SIZE] - 1
    while tables.ranked[index] != node:
        index += 1
    while index < begin + size:
        tables.ranked[index] = tables.ranked[index + 1]
        index += 1
    tables.kinds[row + SIZE] = size


@compiled
def admit(state: State, tables: BackfillTables, kind: int, node: int) -> None:
    """Put a node where it belongs now in the order of a kind."""
    nodes = state.nodes.size
    row, begin, first = COLUMNS * kind, kind * nodes, kind * words_of(nodes)
    if holds(tables.usable, first, node) or not can_use(state, tables, kind, node):
        return
    put(tables.usable, first, node)
    tables.needs[begin + node] = need = left_by(state, tables, kind, node)
    place, low, high = place_of(tables, need), begin, begin + tables.kinds[row + SIZE]
    for index in range(high, low, -1):
        if place_of(tables, tables.needs[begin + tables.ranked[index - 1]]) <= place:
            low = index
            break
        tables.ranked[index] = tables.ranked[index - 1]
    tables.ranked[low] = node
    tables.kinds[row + SIZE] += 1


@compiled
def place_of(tables: BackfillTables, need: int) -> int:
    """Return the place of the running job that has to end, -1 where none has to, past all where none would do."""
    return need if need in (AT_ONCE, NEVER) else tables.places[need]


@compiled
def left_by(state: State, tables: BackfillTables, kind: int, node: int) -> int:
    """Return which running job has to end before a node has enough for a part of a job of a kind."""
    kinds, actual = COLUMNS * kind, state.nodes[node]
    gpus, cpus, memory = tables.kinds[kinds + GPUS], tables.kinds[kinds + CPUS], tables.kinds[kinds + MEMORY]
    if tables.kinds[kinds + WHOLE] == 1:
        gpus, cpus = actual.gpus, actual.cpus
    gpus, cpus, memory = gpus - actual.free_gpus, cpus - actual.free_cpus, memory - actual.free_memory
    need, entry = _long(AT_ONCE), tables.entry[node]
    while gpus > 0 or cpus > 0 or memory > 0:
        if entry < 0:
            return NEVER
        gpus, cpus = gpus - tables.back[entry + 1], cpus - tables.back[entry + 2]
        memory, need = memory - tables.back[entry + 3], _long(state.estimates[tables.back[entry]])
        entry = tables.back[entry + 4]
    return need

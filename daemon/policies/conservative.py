"""Conservative backfill: every waiting job gets a reservation, in order; nobody may delay any of those before it.

Node level: a profile says what is free on each node from each moment on at which a running job will have reached its
limit or a planned one would (Mu'alem & Feitelson, TPDS 2001, there by counts). A job is planned at the first of these
moments from which it fits on the same nodes for its whole limit, and starts if that is now.
"""

from __future__ import annotations

import numpy as np

from ..replay.arrays import DEPTH, MAX_STARTS, NOW, RUNNING_JOBS, STARTED, Records, State
from ..replay.compiled import compiled
from ..replay.moves import ask_of, site_with, start
from ..replay.node_selection import enough
from ..replay.queue import following
from ..replay.rules import Key, Place
from .easy import book, give_back
from .registry import backfill
from .strict import first_line

OVERRUN_S = 1.0
"""Expected remaining seconds of a job that is past its limit."""
LEVELS = 512
"""The most times in the profile; jobs that cannot be planned within them wait without a reservation."""


@compiled
def copy_level(target: Records, source: Records, time: float) -> None:
    """Set the nodes of one level to those of another, from another moment on."""
    for node in range(target.size):
        row, now = target[node], source[node]
        row.open, row.free_gpus, row.time = now.open, now.free_gpus, time
        row.free_cpus, row.free_memory = now.free_cpus, now.free_memory


@compiled
def profile(state: State) -> int:
    """Write down what will be free when the running jobs reach their limits; return the number of levels."""
    levels, ask, count = state.imagined, ask_of(state, 0), 1
    copy_level(levels[0], state.nodes, state.clock[NOW])
    for index in range(state.counts[RUNNING_JOBS]):
        job = state.estimates[index]
        time = max(state.jobs[job].estimate, state.clock[NOW] + OVERRUN_S)
        if time > levels[count - 1, 0].time:
            if time == np.inf or count + state.counts[DEPTH] + 2 > levels.shape[0]:
                return count
            copy_level(levels[count], levels[count - 1], time)
            count += 1
        give_back(state, site_with(state, levels[count - 1]), job, ask)
    return count


@compiled
def narrow_window(levels: Records, first: int, count: int, end: float, least: Records) -> int:
    """Set ``least`` to what stays free from a level to ``end``; return the first level that is not needed."""
    copy_level(least, levels[first], levels[first, 0].time)
    level = first + 1
    while level < count and levels[level, 0].time < end:
        for node in range(least.size):
            row, later = least[node], levels[level, node]
            row.free_gpus = min(row.free_gpus, later.free_gpus)
            row.free_cpus = min(row.free_cpus, later.free_cpus)
            row.free_memory = min(row.free_memory, later.free_memory)
        level += 1
    return level


@compiled
def split(levels: Records, count: int, time: float) -> int:
    """Let a level begin at a moment; return the number of levels."""
    place = count
    while place > 0 and levels[place - 1, 0].time >= time:
        place -= 1
    if time == np.inf or (place < count and levels[place, 0].time == time):
        return count
    for level in range(count, place, -1):
        copy_level(levels[level], levels[level - 1], levels[level - 1, 0].time)
    copy_level(levels[place], levels[place - 1], time)
    return count + 1


@compiled
def plan(state: State, place: Place, job: int, count: int) -> int:
    """Reserve nodes for a job as soon as they are free for long enough, perhaps now; return the number of levels."""
    levels, row, ask = state.imagined, state.jobs[job], ask_of(state, job)
    least = levels[levels.shape[0] - 1]
    lasts = max(0.0, row.limit - row.attained / max(1, row.gpus))
    for first in range(count):
        if not enough(site_with(state, levels[first]), ask):
            continue
        end = levels[first, 0].time + lasts
        last = narrow_window(levels, first, count, end, least)
        parts = place(site_with(state, least), ask, state.chosen)
        if parts > 0:
            count = split(levels, count, end)
            for level in range(first, last):
                book(levels[level], ask, state.chosen, parts)
            if first == 0:
                start(state, job, parts)
            return count
    return count


@backfill("conservative", estimates=True, levels=LEVELS)
def conservative(state: State, key: Key, place: Place) -> None:
    """Plan the first ``DEPTH`` jobs in order, and start those that are planned for now."""
    count, lines = profile(state), state.lines
    for line in range(lines.size):
        lines[line].head = following(state, line, 0)
    for _ in range(state.counts[DEPTH]):
        first = first_line(lines)
        if first < 0 or state.counts[STARTED] >= state.counts[MAX_STARTS]:
            return
        rank = lines[first].head
        lines[first].head = following(state, first, rank + 1)
        count = plan(state, place, state.order[rank], count)

"""Backfill as Slurm does it: every waiting job is planned, and a plan keeps its nodes whole until the job has ended.

As ``conservative``, but for one thing: what starts later reserves all of its nodes, not only the GPUs, CPUs and memory
it asks for. Slurm's planner keeps a bitmap of nodes for each plan (backfill.c, ``_add_reservation``), so that a job
which would still run when a plan begins finds no room beside it.
"""

from __future__ import annotations

from ..replay.arrays import DEPTH, MAX_STARTS, STARTED, Longs, Records, State
from ..replay.compiled import compiled
from ..replay.moves import ask_of, site_with, start
from ..replay.node_selection import enough
from ..replay.queue import following
from ..replay.rules import Key, Place
from .conservative import LEVELS, narrow_window, profile, split
from .easy import book
from .registry import backfill
from .strict import first_line


@compiled
def keep_whole(nodes: Records, chosen: Longs, count: int) -> None:
    """Leave nothing free on chosen nodes."""
    for part in range(count):
        row = nodes[chosen[part]]
        row.free_gpus = row.free_cpus = row.free_memory = 0


@compiled
def plan_whole(state: State, place: Place, job: int, count: int) -> int:
    """Start a job, or keep nodes for it as soon as they are free for long enough; return the number of levels."""
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
                if first == 0:
                    book(levels[level], ask, state.chosen, parts)
                else:
                    keep_whole(levels[level], state.chosen, parts)
            if first == 0:
                start(state, job, parts)
            return count
    return count


@backfill("whole-nodes", estimates=True, levels=LEVELS, turns=True)
def whole_nodes(state: State, key: Key, place: Place) -> None:
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
        count = plan_whole(state, place, state.order[rank], count)

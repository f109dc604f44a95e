"""Greedy backfill: whatever fits starts, without a thought for who waits. Large jobs may starve."""

from typing import Any

from ..replay.arrays import MAX_STARTS, STARTED, State
from ..replay.queue import following
from .registry import backfill
from .strict import first_partition, try_start


@backfill("greedy")
def greedy(state: State, key: Any, place: Any) -> None:
    """Try every waiting job in order."""
    lines = state.lines
    for partition in range(lines.size):
        lines[partition].head = following(state, partition, 0)
    while state.counts[STARTED] < state.counts[MAX_STARTS]:
        first = first_partition(lines)
        if first < 0:
            return
        rank = lines[first].head
        lines[first].head = following(state, first, rank + 1)
        try_start(state, place, state.order[rank])

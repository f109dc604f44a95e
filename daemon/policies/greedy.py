"""Greedy backfill: whatever fits starts, without a thought for waiting jobs. Large jobs may starve."""

from ..replay.arrays import ALIKE, State
from ..replay.queue_groups import KIND
from ..replay.rules import Key, Place
from .registry import backfill
from .strict import start_heads


@backfill("greedy", patient=True, lines=KIND, turns=False)
def greedy(state: State, key: Key, place: Place) -> None:
    """Start what fits, in order; after the first of its kind that does not fit, the rest of that kind is not tried."""
    start_heads(state, place, state.counts[ALIKE] == 1)

"""Backfill as Slurm does it: every waiting job is planned, and a plan keeps its nodes whole until the job has ended.

What starts later reserves all of its nodes, not only the GPUs, CPUs and memory it asks for: Slurm's planner keeps a
bitmap of nodes for each plan (backfill.c, ``_add_reservation``), so that a job which would still run when a plan begins
finds no room beside it. The walk is that of ``slurm-backfill``, taken whenever a job comes or ends.
"""

from __future__ import annotations

from ..replay.arrays import WAITING_JOBS, State
from ..replay.queue_groups import SHARED_NODES
from ..replay.rules import Key, Place
from .registry import backfill
from .slurm_backfill import ready, walk_all


@backfill("whole-nodes", estimates=True, lines=SHARED_NODES, turns=True, ready=ready)
def whole_nodes(state: State, key: Key, place: Place) -> None:
    """Start jobs in order, or plan them; the last job that the site's settings let it test ends the walk."""
    if state.counts[WAITING_JOBS] > 0:
        walk_all(state, place)

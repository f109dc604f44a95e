"""The sets of ranks that lines are."""

import numpy as np

from idlewatt.daemon.replay.arrays import FUTURE, RUNNING, WAITING
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.feasibility import empty_lines
from idlewatt.daemon.replay.queue import queue_up
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload


def members(tree):
    """Return the (line, place) of every set bit."""
    bits = np.unpackbits(tree.view(np.uint8), axis=1, bitorder="little")
    return list(zip(*(column.tolist() for column in np.nonzero(bits)), strict=True))


def test_who_is_queued_up_waits_in_line_by_rank_and_nobody_else():
    random, jobs = np.random.default_rng(5), 9000  # branches have more than one word each
    state = ClusterState.of(Cluster.from_spec("1x1"), Workload.of(np.zeros(jobs), np.ones(jobs), np.ones(jobs))).arrays
    state = state._replace(**empty_lines(3, jobs))
    state.jobs.queue = random.integers(0, 3, jobs)
    for size in (jobs, 700, 1, 0):
        ordered, state.jobs.status = random.permutation(jobs)[:size], random.choice([WAITING, RUNNING, FUTURE], jobs)
        queue_up(state.jobs, state.order, (state.leaves, state.branches, state.roots), ordered)
        assert state.jobs["rank"][ordered].tolist() == list(range(size))
        assert state.order[:size].tolist() == ordered.tolist()
        waiting = [(int(state.jobs.queue[job]), rank) for rank, job in enumerate(ordered)
                   if state.jobs.status[job] == WAITING]
        for level, tree in enumerate((state.leaves, state.branches, state.roots)):
            assert members(tree) == sorted({(line, rank >> 6 * level) for line, rank in waiting})

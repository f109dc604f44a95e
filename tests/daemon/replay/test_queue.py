"""The sets of ranks that lines are."""

import numpy as np

from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.feasibility import empty_lines
from idlewatt.daemon.replay.queue import fill
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload


def members(tree):
    """Return the (line, place) of every set bit."""
    bits = np.unpackbits(tree.view(np.uint8), axis=1, bitorder="little")
    return list(zip(*(column.tolist() for column in np.nonzero(bits)), strict=True))


def test_lines_that_are_filled_at_once_hold_these_ranks_and_no_others():
    random, jobs = np.random.default_rng(5), 9000  # branches have more than one word each
    state = ClusterState.of(Cluster.from_spec("1x1"), Workload.of([0.0], [1.0], [1])).arrays
    state = state._replace(**empty_lines(3, jobs))
    for size in (jobs, 700, 1, 0):
        ranks, lines = random.permutation(jobs)[:size], random.integers(0, 3, size).astype(np.int32)
        fill(state, lines, ranks)
        for level, tree in enumerate((state.leaves, state.branches, state.roots)):
            assert members(tree) == sorted(set(zip(lines.tolist(), (ranks >> 6 * level).tolist(), strict=True)))

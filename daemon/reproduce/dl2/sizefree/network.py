"""The scorer: one small network for every job and task, so that nothing in it knows how many jobs there are."""

from __future__ import annotations

import numpy as np

from ....replay.arrays import Floats, Longs
from ..kernel import ArenaCluster, ArrivedJobs
from .kernel import HIDDEN, INPUTS, SIZE, by_score, look_ahead

_SAVED, _FIRST = INPUTS.index("future saved"), INPUTS.index("first")
FIRST, ANY = 5.0, 10.0
"""Scores that make first bundles go first, and every task worth giving as long as it fits."""


def initial(seed: int) -> Floats:
    """Return the weights that training sets out from: a bundle for everybody, then most slots saved for the task.

    Slots are counted at the speed of a job's full size. The hidden units are drawn, but say nothing yet.
    """
    weights = np.zeros(SIZE)
    weights[:len(INPUTS) * HIDDEN] = 0.3 * np.random.default_rng(seed).standard_normal(len(INPUTS) * HIDDEN)
    linear = weights[(len(INPUTS) + 1) * HIDDEN:]
    linear[_SAVED], linear[_FIRST], linear[-1] = 1.0, FIRST, ANY
    return weights


def fill(weights: Floats, cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, changes: Floats | None = None) -> int:
    """Give tasks by score, after looking ahead with ``changes`` [plan, job, what]; return the decisions it took."""
    if changes is not None:
        return int(look_ahead(cluster, jobs, used, weights, changes))
    blank = np.zeros((2, len(jobs.model), 3))
    return int(by_score(cluster, jobs, used, weights, blank[0], blank[1], np.empty(len(INPUTS))))

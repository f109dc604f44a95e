"""Chance: the row that every table needs, because a policy that does not beat it has shown nothing."""

import numpy as np

from ..replay.arrays import RANDOM, State
from ..replay.moves import scramble
from .registry import alias, order


@order("random")
def random(state: State, job: int) -> float:
    """Order by a draw per job that depends on the seed alone."""
    return np.float64(scramble(state.words[RANDOM] ^ np.uint64(np.int64(job) + 1)) >> np.uint64(11))


alias("random-feasible", "random+random-fit+greedy")

"""The scorer: the same small network for every job and every leaf, so that nothing in it knows how many there are."""

from __future__ import annotations

import numpy as np

from ....replay.arrays import Floats
from ..orders import CLOSE
from .kernel import ALL, HIDDEN, HIDE, INPUTS, LEAF, LINEAR, OUT, SIZE

_RUN, _SLOWER = INPUTS.index("run"), INPUTS.index("slower now")
STEEPNESS = 4.0
"""Of the gate at first, which starts no job that would be slower than ``CLOSE``."""


def initial(seed: int) -> Floats:
    """Return the weights that training sets out from: shortest first as things are now, and nobody starts far apart.

    That is the best rule that we know of. Convolution and hidden units are drawn, but say nothing yet.
    """
    draw, weights = np.random.default_rng(seed), np.zeros(SIZE)
    weights[LEAF:HIDE] = draw.standard_normal(HIDE - LEAF)
    weights[HIDE:OUT] = 0.3 * draw.standard_normal(ALL * HIDDEN)
    rank, gate = weights[LINEAR:LINEAR + ALL], weights[LINEAR + ALL:]
    rank[_RUN], rank[_SLOWER] = -2.0, -1.0
    gate[_SLOWER], gate[-1] = -STEEPNESS, -STEEPNESS * np.log(CLOSE)
    return weights

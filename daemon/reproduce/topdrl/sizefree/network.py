"""The scorer: the same small network for every job and every leaf switch, so that it is independent of their number."""

from __future__ import annotations

import numpy as np

from ....replay.arrays import Floats
from ..orders import CLOSE
from .kernel import ALL, HIDDEN, HIDE, INPUTS, LEAF, LINEAR, OUT, SIZE

_RUN, _SLOWER = INPUTS.index("run"), INPUTS.index("slower now")
STEEPNESS = 4.0
"""Initial steepness of the gate, which initially starts no job that would be slower than ``CLOSE``."""


def initial(seed: int) -> Floats:
    """Return the initial weights of training: shortest first at present speeds, and no start on distant GPUs.

    This is the best known rule. Convolution and hidden units are random, but have no effect yet.
    """
    draw, weights = np.random.default_rng(seed), np.zeros(SIZE)
    weights[LEAF:HIDE] = draw.standard_normal(HIDE - LEAF)
    weights[HIDE:OUT] = 0.3 * draw.standard_normal(ALL * HIDDEN)
    rank, gate = weights[LINEAR:LINEAR + ALL], weights[LINEAR + ALL:]
    rank[_RUN], rank[_SLOWER] = -2.0, -1.0
    gate[_SLOWER], gate[-1] = -STEEPNESS, -STEEPNESS * np.log(CLOSE)
    return weights

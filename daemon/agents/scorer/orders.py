"""Weights that nobody had to learn: where learning begins, and the orders that every scorer can fall back to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...replay.arrays import Floats
from .network import INPUTS, SIZE, TRAITS, layer

LOG_2 = float(np.log(2.0))


def blank(patience_s: float) -> Floats:
    """Return weights that choose the fullest node, and order by the first trait alone, which is nothing yet."""
    weights = np.zeros(SIZE)
    layer(weights, "mood.base")[0] = 1.0
    layer(weights, "place.linear")[0] = 1.0
    layer(weights, "patience")[:] = patience_s
    return weights


def initial(random: np.random.Generator, patience_s: float) -> Floats:
    """Return the same with hidden layers, and traits but the first, that learning can make something of."""
    weights = blank(patience_s)
    for name, fan_in in (("order.hidden", len(INPUTS)), ("mood.hidden", 4), ("place.hidden", 4)):
        part = layer(weights, name)
        part[:] = random.normal(0.0, 1.0 / np.sqrt(fan_in), part.shape)
    layer(weights, "order.linear")[:, 1:] = random.normal(0.0, 0.3, (len(INPUTS), TRAITS - 1))
    return weights


def plain(weights: Floats) -> Iterator[Floats]:
    """Yield weights that order exactly as FIFO, SJF by limit, SJF by prediction and QSSF do."""
    found = weights.copy()
    layer(found, "mood.base")[TRAITS] = 1.0
    yield found
    for parts in ({"requested limit": 1.0}, {"predicted run time": 1.0}, {"predicted run time": 1.0, "GPUs": LOG_2}):
        found = weights.copy()
        for name, value in parts.items():
            layer(found, "order.linear")[INPUTS.index(name), 0] = value
        yield found

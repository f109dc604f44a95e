"""Quantiles of few values, some of which are only lower bounds (right-censored)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .compiled import compiled_with_arrays

Floats = npt.NDArray[np.float64]


@compiled_with_arrays
def product_limit(values: Floats, open_ended: npt.NDArray[np.bool_], quantiles: Floats, out: Floats) -> None:
    """Fill in quantiles of values of which some are right-censored (Kaplan and Meier 1958)."""
    order = np.argsort(values)
    larger, filled = 1.0, 0
    for place in range(len(order)):
        if not open_ended[order[place]]:
            larger *= 1.0 - 1.0 / (len(order) - place)
            while filled < len(quantiles) and 1.0 - larger >= quantiles[filled] - 1e-9:
                out[filled] = values[order[place]]
                filled += 1
    out[filled:] = values[order[-1]]


@compiled_with_arrays
def centre(estimate: float, quantiles: Floats, out: Floats) -> None:
    """Put the estimate in the middle, and keep the quantiles in ascending order."""
    bound = estimate
    for place in range(len(quantiles) - 1, -1, -1):
        if quantiles[place] <= 0.5:
            bound = out[place] = estimate if quantiles[place] == 0.5 else min(out[place], bound)
    bound = estimate
    for place in range(len(quantiles)):
        if quantiles[place] > 0.5:
            bound = out[place] = max(out[place], bound)


@compiled_with_arrays
def quantiles_of(values: Floats, quantiles: Floats, out: Floats) -> None:
    """Fill in quantiles, linear between neighbours; numpy's own takes ten seconds to compile."""
    ordered = np.sort(values)
    for index in range(len(quantiles)):
        place = quantiles[index] * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        out[index] = ordered[below] + (place - below) * (ordered[above] - ordered[below])

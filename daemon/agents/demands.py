"""The resources that jobs request, as columns: groups of equal requests, and which nodes have enough for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..replay.arrays import Longs, Masks

Ranks = NDArray[np.uint8 | np.uint16 | np.int64]

POOL, CHUNK, CPUS, MEMORY, CHUNKS, REST, RESTS, WHOLE = range(8)
"""Columns of ``WaitingJobs.demands``."""
MANY = 64
"""The number of nodes from which comparing ranks is faster than comparing amounts."""


def kinds_of(demands: Longs) -> tuple[Longs, NDArray[np.intp]]:
    """Return the distinct demands, and for each job the index of its demand."""
    numbers: dict[bytes, int] = {}
    rows = np.ascontiguousarray(demands).view(f"V{demands.itemsize * demands.shape[1]}").ravel().tolist()
    kind = [numbers.setdefault(demand, len(numbers)) for demand in rows]
    return np.frombuffer(b"".join(numbers), np.int64).reshape(-1, demands.shape[1]), np.array(kind, np.intp)


def needs(kinds: Longs, gpus: int) -> Longs:
    """Return the GPUs, CPUs and bytes of each kind's chunk, or rest (column ``gpus``): its share, rounded up."""
    size, scale = kinds[:, gpus], np.maximum(1, kinds[:, CHUNK])
    unscaled = (kinds[:, CHUNK] == size) | (kinds[:, CHUNK] == 0)
    shares = [np.where(unscaled, kinds[:, column], -(-kinds[:, column] * size // scale)) for column in (CPUS, MEMORY)]
    return np.stack([size, *shares], axis=1)


def suffices(free: Longs, wanted: Longs) -> Masks:
    """Tell which node's free amount is enough for which kind of jobs, [kind, node]."""
    if len(free) < MANY:
        return np.asarray(free >= wanted[:, None])
    # Kinds want few different amounts, whose ranks fit into a byte or two and are compared many times as fast.
    amounts, rank = np.unique(wanted, return_inverse=True)
    small: type[np.uint8 | np.uint16 | np.int64] = (
        np.uint8 if len(amounts) < 256 else np.uint16 if len(amounts) < 65536 else np.int64)
    free_rank: Ranks = amounts.searchsorted(free, side="right").astype(small)
    wanted_rank: Ranks = rank.astype(small)
    return np.asarray(free_rank > wanted_rank[:, None])

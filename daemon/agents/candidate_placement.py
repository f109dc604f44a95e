"""Candidate placements of jobs: the nodes, how far apart they are, and when running jobs release resources there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..replay.arrays import Floats, Longs
from .observation import RunningJobs


@dataclass(frozen=True)
class CandidatePlacement:
    """Where a job could start now."""

    nodes: Longs
    level: int
    """How far apart its GPUs would be."""
    leftover: int
    """GPUs that stay free on the fullest of its nodes."""
    opens: bool
    """Whether one of its nodes was empty."""


def members(switch: Longs) -> NDArray[np.intp]:
    """Return [switch, place] the nodes of each switch, padded with the number of nodes, which is no node's index."""
    order = np.argsort(switch, kind="stable")
    of = switch[order]
    place = np.arange(len(of)) - np.searchsorted(of, of)
    by_switch = np.full((int(switch.max(initial=0)) + 1, int(place.max(initial=-1)) + 1), len(switch), np.intp)
    by_switch[of, place] = order
    return by_switch


def released(running: RunningJobs) -> tuple[Longs, Floats, Longs]:
    """Return the shares of running jobs by (node, end): node, end, and the total that the node has released by then."""
    end = running.latest[running.shares[:, 0]]
    order = np.lexsort((end, running.shares[:, 1]))
    node, freed = running.shares[order, 1], running.shares[order, 2:].cumsum(axis=0)
    first = np.searchsorted(node, node)
    before = np.vstack([np.zeros((1, 3), np.int64), freed])[first]
    return node, end[order], freed - before

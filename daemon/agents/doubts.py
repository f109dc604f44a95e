"""Why an agent's word should not be taken: it was trained on other clusters, other jobs, or by speeds nobody knows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...storage.records import ModelCard
from ..replay.arrays import Floats, Masks
from ..replay.state import ClusterState

STRANGE = 0.25
"""Share of waiting jobs that may be unlike what was learned from, or of which nothing is known that it goes by."""
SMALLER, LARGER = 0.5, 16.0
"""How much smaller or larger than in training the cluster may be. The scorer, trained on 8 nodes, was measured from 4
to 128 (``idlewatt reproduce scorer``)."""


def wrong_size(card: ModelCard, state: ClusterState) -> str | None:
    """Return that the cluster is of another size than any that an agent is known to hold for."""
    low, high = card.seen.get("nodes", (0.0, math.inf))
    nodes = int(state.arrays.nodes.open.sum())
    if low * SMALLER <= nodes <= high * LARGER:
        return None
    return (f"{nodes} nodes are open; trained on {low:.0f} to {high:.0f}, it is known to hold from "
            f"{low * SMALLER:.0f} to {high * LARGER:.0f}")


def outside(card: ModelCard, names: Sequence[str], rows: Floats) -> Masks:
    """Return [row, input] whether an input lies outside of what was seen in training."""
    bounds = np.array([card.seen.get(name, (-math.inf, math.inf)) for name in names])
    return np.asarray((rows < bounds[:, 0]) | (rows > bounds[:, 1]))


def strange_share(found: Masks) -> float:
    """Return the share of jobs, 0..1, that lie outside of what was seen in any input; 0 when there are none."""
    return float(found.any(axis=1).mean()) if len(found) else 0.0


def strange_jobs(found: Masks, names: Sequence[str]) -> str | None:
    """Return that too many jobs lie outside of what was seen, and by what most of them do."""
    share = strange_share(found)
    if share <= STRANGE:
        return None
    worst = names[int(found.sum(axis=0).argmax())]
    return f"{share:.0%} of the waiting jobs are unlike those it was trained on, most by their {worst}"


def groups_of(state: ClusterState, jobs: NDArray[np.intp]) -> str:
    """Return what the groups of jobs are called, those of no group by these words."""
    names = state.workload.application_names
    groups = np.unique(state.arrays.jobs.model[jobs]).tolist()
    told = dict.fromkeys((names[group] if group < len(names) else "") or "jobs of no known group" for group in groups)
    return ", ".join(told)

"""Why an agent's word should not be taken: it was trained on other clusters, other jobs, or by speeds nobody knows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...storage.records import ModelCard
from ..replay.arrays import Floats, Masks
from ..replay.cluster import Cluster
from ..replay.engine import Run
from ..replay.state import ClusterState

STRANGE = 0.25
"""Share of waiting jobs that may be unlike what was learned from, or of which nothing is known that it goes by."""
SMALLER, LARGER = 0.5, 2.0
"""How much smaller or larger than in training the cluster may be, and how much longer the queue: beyond, agents were
more than 1 % worse than what would have decided without them (``idlewatt reproduce agents``)."""
NODES, NODE_GPUS = "nodes", "GPUs of a node"
QUEUED_JOBS, QUEUED_GPUS = "waiting jobs of a node", "waiting GPUs of a GPU"
"""What a card tells of the clusters and the queues of a training, beside inputs."""


def sizes_seen(clusters: Iterable[Cluster]) -> dict[str, tuple[float, float]]:
    """Return what a card tells of the clusters that an agent learned on."""
    nodes, gpus = set[int](), set[int]()
    for cluster in clusters:
        nodes.add(len(cluster))
        gpus.update(np.unique(cluster.gpus).tolist())
    return {NODES: (float(min(nodes)), float(max(nodes))), NODE_GPUS: (float(min(gpus)), float(max(gpus)))}


def queues_seen(longest: Iterable[Floats]) -> dict[str, tuple[float, float]]:
    """Return what a card tells of the longest queues of some replays: anything from none to the longest of them."""
    jobs, gpus = np.max(list(longest), axis=0).tolist()
    return {QUEUED_JOBS: (0.0, jobs), QUEUED_GPUS: (0.0, gpus)}


def longest_queue(run: Run) -> Floats:
    """Return the most jobs that waited at a time, of each node, and the most GPUs that they asked for, of each GPU."""
    submit, start, gpus = run.workload.submit, np.sort(run.start), run.workload.gpus
    came, asked = np.arange(1, len(submit) + 1), np.cumsum(gpus)
    begun = np.searchsorted(start, submit, side="right")
    given = np.append(0, np.cumsum(gpus[np.argsort(run.start)]))[begun]
    return np.array([(came - begun).max(initial=0) / max(1, len(run.cluster)),
                     (asked - given).max(initial=0) / max(1, run.cluster.gpus.sum())])


def wrong_size(card: ModelCard, state: ClusterState) -> str | None:
    """Return that the cluster is of another size than any that an agent is known to hold for."""
    low, high = card.seen.get(NODES, (0.0, math.inf))
    nodes = state.arrays.nodes
    count = int(nodes.open.sum())
    if not low * SMALLER <= count <= high * LARGER:
        return (f"{count} nodes are open; trained on {low:.0f} to {high:.0f}, it is known to hold from "
                f"{low * SMALLER:.0f} to {high * LARGER:.0f}")
    low, high = card.seen.get(NODE_GPUS, (0.0, math.inf))
    other = [gpus for gpus in np.unique(nodes.gpus[nodes.open == 1]).tolist() if gpus and not low <= gpus <= high]
    return f"nodes of {other[0]} GPUs are open; it was trained on nodes of {low:.0f} to {high:.0f}" if other else None


def wrong_queue(card: ModelCard, state: ClusterState) -> str | None:
    """Return that the queue is much longer than any that an agent learned from."""
    gpus, nodes = state.arrays.jobs.gpus[state.waiting], state.arrays.nodes
    now = {QUEUED_JOBS: len(gpus) / max(1, len(nodes)), QUEUED_GPUS: gpus.sum() / max(1, nodes.gpus.sum())}
    for name, value in now.items():
        _, most = card.seen.get(name, (0.0, math.inf))
        if value > LARGER * most:
            return f"{value:.1f} {name}; in training there were {most:.1f} at most"
    return None


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

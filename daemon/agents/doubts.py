"""Reasons to distrust an agent: it was trained on other clusters or other jobs, or the speeds it needs are unknown."""

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
"""Share of waiting jobs that may be unlike the training data, or lack the inputs that the agent decides by."""
SMALLER, LARGER = 0.5, 2.0
"""How much smaller or larger than in training the cluster may be, and how much longer the queue: beyond, agents were
more than 1 % worse than what would have decided without them (``idlewatt reproduce agents``)."""
NODES, NODE_GPUS = "nodes", "GPUs of a node"
QUEUED_JOBS, QUEUED_GPUS = "waiting jobs of a node", "waiting GPUs of a GPU"
"""Keys of ``ModelCard.seen`` for the ranges of cluster sizes and queues in training; the other keys are inputs."""


def sizes_seen(clusters: Iterable[Cluster]) -> dict[str, tuple[float, float]]:
    """Return the ranges of cluster sizes in training, as a card stores them."""
    nodes, gpus = set[int](), set[int]()
    for cluster in clusters:
        nodes.add(len(cluster))
        gpus.update(np.unique(cluster.gpus).tolist())
    return {NODES: (float(min(nodes)), float(max(nodes))), NODE_GPUS: (float(min(gpus)), float(max(gpus)))}


def queues_seen(longest: Iterable[Floats]) -> dict[str, tuple[float, float]]:
    """Return the ranges of queue lengths in some replays, from 0 to the longest queue, as a card stores them."""
    jobs, gpus = np.max(list(longest), axis=0).tolist()
    return {QUEUED_JOBS: (0.0, jobs), QUEUED_GPUS: (0.0, gpus)}


def longest_queue(run: Run) -> Floats:
    """Return the peak of waiting jobs per node, and of the GPUs that they requested per GPU of the cluster."""
    submit, start, gpus = run.workload.submit, np.sort(run.start), run.workload.gpus
    submitted, requested = np.arange(1, len(submit) + 1), np.cumsum(gpus)
    started = np.searchsorted(start, submit, side="right")
    granted = np.append(0, np.cumsum(gpus[np.argsort(run.start)]))[started]
    return np.array([(submitted - started).max(initial=0) / max(1, len(run.cluster)),
                     (requested - granted).max(initial=0) / max(1, run.cluster.gpus.sum())])


def wrong_size(card: ModelCard, state: ClusterState) -> str | None:
    """Return how the cluster's size is outside the range that an agent is known to hold for; None when it is not."""
    low, high = card.seen.get(NODES, (0.0, math.inf))
    nodes = state.arrays.nodes
    count = int(nodes.open.sum())
    if not low * SMALLER <= count <= high * LARGER:
        return (f"{count} nodes are open; trained on {low:.0f} to {high:.0f}, it is known to hold from "
                f"{low * SMALLER:.0f} to {high * LARGER:.0f}")
    low, high = card.seen.get(NODE_GPUS, (0.0, math.inf))
    unusual = [gpus for gpus in np.unique(nodes.gpus[nodes.open == 1]).tolist() if gpus and not low <= gpus <= high]
    if not unusual:
        return None
    return f"nodes of {unusual[0]} GPUs are open; it was trained on nodes of {low:.0f} to {high:.0f}"


def wrong_queue(card: ModelCard, state: ClusterState) -> str | None:
    """Return by how much the queue is longer than any in an agent's training; None when it is not."""
    gpus, nodes = state.arrays.jobs.gpus[state.waiting], state.arrays.nodes
    queue = {QUEUED_JOBS: len(gpus) / max(1, len(nodes)), QUEUED_GPUS: gpus.sum() / max(1, nodes.gpus.sum())}
    for name, value in queue.items():
        _, most = card.seen.get(name, (0.0, math.inf))
        if value > LARGER * most:
            return f"{value:.1f} {name}; in training there were {most:.1f} at most"
    return None


def outside(card: ModelCard, names: Sequence[str], rows: Floats) -> Masks:
    """Return [row, input] whether an input lies outside its range in training."""
    bounds = np.array([card.seen.get(name, (-math.inf, math.inf)) for name in names])
    return np.asarray((rows < bounds[:, 0]) | (rows > bounds[:, 1]))


def strange_share(outside: Masks) -> float:
    """Return the share of jobs, 0..1, that have an input outside its range in training; 0 when there are none."""
    return float(outside.any(axis=1).mean()) if len(outside) else 0.0


def strange_jobs(outside: Masks, names: Sequence[str]) -> str | None:
    """Return the share of jobs outside the training range and their most frequent input there; None when few are."""
    share = strange_share(outside)
    if share <= STRANGE:
        return None
    worst = names[int(outside.sum(axis=0).argmax())]
    return f"{share:.0%} of the waiting jobs are unlike those it was trained on, most by their {worst}"


def groups_of(state: ClusterState, jobs: NDArray[np.intp]) -> str:
    """Return the names of the jobs' groups, comma separated; jobs without a group are "jobs of no known group"."""
    names = state.workload.application_names
    groups = np.unique(state.arrays.jobs.model[jobs]).tolist()
    labels = dict.fromkeys((names[group] if group < len(names) else "") or "jobs of no known group" for group in groups)
    return ", ".join(labels)

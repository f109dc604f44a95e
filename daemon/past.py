"""The daemon's own history as something to replay: the cluster as it was, with its outages, and the jobs it had."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from ..storage.reading import HistoryReader, NodeChange
from ..storage.records import Node, NodeState
from .replay.cluster import Cluster, ClusterError, NodeEvent

_USABLE = {NodeState.UP, NodeState.PLANNED, NodeState.POWERED_DOWN, NodeState.POWERING_UP}
"""A job may start there, if need be after a boot."""
_DRAINED = {NodeState.DRAINING, NodeState.DRAINED, NodeState.RESERVED, NodeState.MAINTENANCE}


def recorded_cluster(history: HistoryReader, since_s: float | None = None, until_s: float | None = None) -> Cluster:
    """Return the inventory as of ``since_s`` with what happened to its nodes until ``until_s``.

    Nodes that came later are there from the start, closed until they came; ClusterError when none is recorded.
    """
    changes = history.node_changes(since_s if since_s is not None else 0.0, until_s if until_s is not None else np.inf)
    known = {node.name: node for node in history.nodes(since_s)}
    for change in reversed(changes):
        known.setdefault(change.node.name, replace(change.node, state=NodeState.DOWN) if since_s else change.node)
    if not known:
        raise ClusterError("the history holds no nodes yet; describe the cluster with --cluster")
    nodes = [known[name] for name in sorted(known)]
    events = [NodeEvent(change.time_s, change.node.name, _kind(change)) for change in changes]
    cluster = Cluster.from_records([_open(node) for node in nodes])
    return cluster.with_events(_changing(events, cluster)) if since_s is not None else cluster


def _open(node: Node) -> Node:
    """Return the node in a state that says no more than whether jobs may start there."""
    return replace(node, state=NodeState.UP if node.state in _USABLE and not node.reservation else NodeState.DOWN)


def _kind(change: NodeChange) -> Literal["down", "drain", "up"]:
    state = change.node.state
    if change.present and state in _USABLE and not change.node.reservation:
        return "up"
    return "drain" if change.present and (state in _DRAINED or state in _USABLE) else "down"


def _changing(events: list[NodeEvent], cluster: Cluster) -> list[NodeEvent]:
    """Return the events that change what a node was before."""
    before = {name: "up" if up else "down" for name, up in zip(cluster.names, cluster.up, strict=True)}
    kept = []
    for event in events:
        if event.kind != before[event.node]:
            kept.append(event)
            before[event.node] = event.kind
    return kept

"""Scores of nodes for one pod that kube-scheduler is about to place: by the advice in force, else by what is left over.

A pod that is advised to start is sent where it is advised. For a pod without advice a node scores most where the pod
leaves the fewest GPUs free, and nothing where GPUs would be left without the CPUs and memory that one of them needs:
a pod without GPUs goes beside no free GPU where it can go elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...storage.recommendations import Recommendation
from ...storage.records import Node, SchedulerSnapshot

if TYPE_CHECKING:
    from ...exporters.kubernetes.extender import PodQuestion

HIGHEST, SECOND = 10, 5
_LEFT = 0.5
"""Share of a GPU's part of the node's CPUs and memory that has to be left with each free GPU."""


class NodeScores:
    """The nodes of a snapshot as arrays; made once for each, used by many threads."""

    def __init__(self, snapshot: SchedulerSnapshot, recommendations: Iterable[Recommendation]) -> None:
        self.snapshot = snapshot
        nodes = snapshot.nodes
        self._row = {node.name: row for row, node in enumerate(nodes)}
        self._gpus = np.array([node.gpus for node in nodes], np.float64)
        self._free = np.array([node.gpus - node.gpus_allocated for node in nodes], np.float64)
        self._hosts = np.array([_left(node) for node in nodes], np.float64).reshape(-1, 2)
        self._parts = np.array([_part(node) for node in nodes], np.float64).reshape(-1, 2)
        self._called = {f"{job.steering.namespace}/{batch}": job.job_id for job in snapshot.jobs
                        if job.steering is not None for batch in job.steering.batches}
        """Jobs by the names that their pods tell, where these are others."""
        self._advised = {advised.job_id: advised for advised in recommendations if not advised.shadow}

    def of(self, question: PodQuestion) -> Mapping[str, int]:
        """Return scores of the nodes in question, 0 to 10; nothing where none can be given."""
        advised = self._advised.get(self._called.get(question.job_id, question.job_id))
        if advised is not None:
            return self._as_advised(advised, question) if advised.action == "start" else {}
        return {} if question.slices else self._by_what_is_left(question)

    def _as_advised(self, advised: Recommendation, question: PodQuestion) -> dict[str, int]:
        first = set(advised.placement.nodes) if advised.placement else set()
        second = {node for other in advised.alternatives for node in other.placement.nodes}
        if first.isdisjoint(question.nodes):
            return {}  # the scheduler has ruled them out: what is advised is not to be had
        return {name: HIGHEST if name in first else SECOND if name in second else 0 for name in question.nodes}

    def _by_what_is_left(self, question: PodQuestion) -> dict[str, int]:
        names = [name for name in question.nodes if name in self._row]
        rows = np.fromiter((self._row[name] for name in names), np.int64, len(names))
        free = np.maximum(self._free[rows] - question.gpus, 0.0)
        left = self._hosts[rows] - (question.cpus, question.memory_bytes)
        strands = (free > 0) & (left < free[:, None] * self._parts[rows] * _LEFT).any(axis=1)
        emptiness = np.divide(free, self._gpus[rows], out=np.zeros(len(rows)), where=self._gpus[rows] > 0)
        scores = np.where(strands, 0, np.rint(HIGHEST * (1.0 - emptiness))).astype(int)
        return dict(zip(names, scores.tolist(), strict=True))


def _left(node: Node) -> tuple[float, float]:
    """Return CPUs and bytes that are free; an amount that the scheduler does not report is unlimited."""
    return (node.cpus - node.cpus_allocated if node.cpus else np.inf,
            node.memory_bytes - node.memory_allocated_bytes if node.memory_bytes else np.inf)


def _part(node: Node) -> tuple[float, float]:
    """Return the part of the node's CPUs and bytes that is one GPU's."""
    return (node.cpus / node.gpus, node.memory_bytes / node.gpus) if node.gpus else (0.0, 0.0)

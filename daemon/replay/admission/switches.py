"""Which nodes Slurm plans with below a tree of switches, after ``_eval_nodes_topo`` of cons_tres in Slurm 22.05.

Nodes are gathered by weight, the least first, until they are enough; all but those of the last weight are then taken.
The rest comes from the leaf switches that these are on, then from the smallest leaf that is large enough, else from the
largest, node after node. Of a job that takes several numbers of nodes fewer count as enough than it needs, so that it
may find none although there are some: it is planned for later then, as Slurm does it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .cons_tres import MOST_NODES, available, weigh
from .node_resources import Counts, Mask, NodeResources
from .resource_demand import ResourceDemand

Rows = NDArray[np.int64]


def below_switches(resources: NodeResources, demand: ResourceDemand, fits: Mask, gpus: Counts) -> list[int] | None:
    """Return the nodes that Slurm takes of those on which a part of a job fits; None where it finds none."""
    want, weights = _Want(resources, demand, gpus), weigh(resources, demand, fits)
    best = certain = np.zeros(len(fits), bool)
    for weight in np.unique(weights[fits]).tolist():
        certain, best = best, best | (fits & (weights == weight))
        if want.would_do(best):
            break
    else:
        return None
    want.take(np.flatnonzero(certain))
    for leaf in np.unique(resources.leaf[certain]).tolist():
        want.take(np.flatnonzero(best & ~certain & (resources.leaf == leaf)))
    for rows in _others(resources.leaf, best & ~np.isin(resources.leaf, resources.leaf[certain]), want):
        want.take(rows)
    return sorted(want.rows) if want.met else None


def _others(leaf: Counts, rows: Mask, want: _Want) -> Iterator[Rows]:
    """Yield the nodes of leaf switches: of the tightest that holds all that is missing, or of the largest."""
    leaves, sizes = np.unique(leaf[rows], return_counts=True)
    left = dict(zip(leaves.tolist(), sizes.tolist(), strict=True))
    while left and not want.done:
        able = {leaf: size for leaf, size in left.items() if size >= want.missing}
        chosen = min(able, key=lambda one: able[one]) if able else max(left, key=lambda one: left[one])
        del left[chosen]
        yield np.flatnonzero(rows & (leaf == chosen))


class _Want:
    """Nodes taken so far, and what is still to be found."""

    def __init__(self, resources: NodeResources, demand: ResourceDemand, gpus: Counts) -> None:
        self.rows: list[int] = []
        self._cpus, self._gpus = available(resources, demand), gpus
        by_job = demand.gpus > 0 and not demand.per_node
        wanted = demand.most or demand.least
        self.missing = demand.least if by_job else wanted
        """Nodes that it goes on looking for."""
        self._enough = self.missing - (wanted - demand.least)
        """Nodes that count as enough before any is taken."""
        self._least, self._most = demand.least, demand.widest or MOST_NODES
        self._cpus_missing = max(demand.tasks * demand.cpus_per_task, demand.cpus_per_node)
        self._gpus_missing = demand.gpus if by_job else 0

    def would_do(self, rows: Mask) -> bool:
        """Tell whether so many nodes count as enough."""
        return (int(rows.sum()) >= max(1, self._enough) and int(self._cpus[rows].sum()) >= self._cpus_missing
                and int(self._gpus[rows].sum()) >= self._gpus_missing)

    @property
    def done(self) -> bool:
        """Tell whether nothing is looked for any more."""
        return self.missing <= 0 and self._filled

    @property
    def met(self) -> bool:
        """Tell whether what was taken does."""
        return len(self.rows) >= self._least and self._filled

    @property
    def _filled(self) -> bool:
        return self._cpus_missing <= 0 and self._gpus_missing <= 0

    def take(self, rows: Rows) -> None:
        """Take nodes in order until all is found."""
        for row in rows.tolist():
            if self.done or len(self.rows) >= self._most:
                return
            self.rows.append(row)
            self.missing -= 1
            self._cpus_missing -= int(self._cpus[row])
            self._gpus_missing -= int(self._gpus[row])

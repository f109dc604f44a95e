"""Which nodes Slurm itself takes for a job, of those that would do: what it plans with for waiting jobs.

After ``_eval_nodes`` of cons_tres in Slurm 22.05. Nodes on which more of the wanted GPUs are free come first: each node
has a weight, less by one for each of them, and nodes side by side of the same weight are a set. Of the sets with the
least weight the tightest that is large enough is taken, and in it, for a job that fits on one node, the node with the
fewest CPUs free. A job without GPUs finds the weights that the last job with GPUs has left behind.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .node_resources import Counts, Mask, NodeResources
from .resource_demand import ResourceDemand

Rows = NDArray[np.int64]
MOST_NODES = 1 << 30
MOST_TRIES = 20
HEAVIEST = 255
"""The lowest byte of a node's weight, in which Slurm writes how few of the needed GPUs the node has free."""


def weigh(resources: NodeResources, demand: ResourceDemand, fits: Mask) -> Counts:
    """Return the weights of nodes as Slurm leaves them after it has looked at a job, and keep them.

    Each node that would do is weighed, even where these are fewer than the job needs.
    """
    if demand.gpus:
        near = resources.free_gpus
        if demand.per_node and not demand.per_socket and not demand.exclusive:
            near = np.minimum(near, demand.per_node)
        elif not demand.per_socket and not demand.exclusive:
            near = np.minimum(near, demand.gpus)
        resources.weights[:, fits] = (resources.weights[:, fits] | HEAVIEST) - near[fits]
    return np.asarray(resources.weights[resources.history])


def thinned(search: Callable[[Mask], list[int] | None], fits: Mask, room: Counts, least: int) -> list[int] | None:
    """Return what a search finds, without the nodes that have least room where it finds nothing among all.

    Slurm does so against knapsack problems (``choose_nodes`` of cons_tres).
    """
    left = fits.copy()
    for _ in range(MOST_TRIES):
        found = search(left)
        if found is not None or int(left.sum()) <= least:
            return found
        for row in np.flatnonzero(left & (room <= room[left].min())).tolist():
            left[row] = False
            if int(left.sum()) <= least:
                break
    return None


def picked(resources: NodeResources, demand: ResourceDemand, fits: Mask, gpus: Counts) -> list[int] | None:
    """Return the nodes that Slurm takes where no switches are known; None where it looks again in another way."""
    search = _NodeSearch(resources, demand, fits, gpus)
    weights = weigh(resources, demand, fits)
    sets = _sets(np.flatnonzero(fits), weights)
    while sets and not search.done and search.left > 0:
        weight = min(int(weights[rows[0]]) for rows in sets)
        alike = [rows for rows in sets if weights[rows[0]] == weight]
        best = min(alike, key=search.rank)
        sets = [rows for rows in sets if rows is not best]
        search.take(best)
    return sorted(search.rows) if search.done else None


def _sets(rows: Rows, weights: Counts) -> list[Rows]:
    """Return nodes side by side of the same weight."""
    if not rows.size:
        return []
    breaks = (np.diff(rows) > 1) | (np.diff(weights[rows]) != 0)
    return np.split(rows, np.flatnonzero(breaks) + 1)


class _NodeSearch:
    """Nodes taken so far, and what is still to be found."""

    def __init__(self, resources: NodeResources, demand: ResourceDemand, fits: Mask, gpus: Counts) -> None:
        self.rows: list[int] = []
        self._cpus, self._gpus = available(resources, demand), gpus
        self._by_job = demand.gpus > 0 and not demand.per_node
        """GPUs are counted over all nodes."""
        cores = int(resources.threads.max(initial=1))
        self._wanted = -(-max(demand.tasks * demand.cpus_per_task, demand.cpus_per_node) // cores) * cores
        self._missing_gpus = demand.gpus if self._by_job else 0
        self._least = demand.least
        self._spare = (demand.most or demand.least) - demand.least
        """How many nodes more than the fewest are requested."""
        self._missing = demand.least
        self.left = demand.widest or MOST_NODES

    @property
    def done(self) -> bool:
        """Tell whether all is found."""
        return self._missing <= 0 and self._wanted <= 0 and self._missing_gpus <= 0

    def rank(self, rows: Rows) -> tuple[bool, int]:
        """Return what to prefer one set to another by: large enough and tight, else the largest."""
        cpus = int(self._cpus[rows].sum())
        needed = self._missing - self._spare if self._by_job else self._missing
        enough = cpus >= self._wanted and rows.size >= needed and int(self._gpus[rows].sum()) >= self._missing_gpus
        return not enough, cpus if enough else -cpus

    def take(self, rows: Rows) -> None:
        """Take nodes of a set until all is found or the set is used up."""
        if self._missing <= 1:
            able = rows[(self._cpus[rows] >= self._wanted) & (self._gpus[rows] >= self._missing_gpus)]
            rows = able[[int(np.argmin(self._cpus[able]))]] if able.size else rows
        for row in rows.tolist():
            if self.done or self.left == 0:
                return
            if self.left == 1 and self._cpus[row] < self._wanted:
                continue
            self.rows.append(row)
            self._wanted -= int(self._cpus[row])
            self._missing_gpus -= int(self._gpus[row])
            self._missing, self.left = self._missing - 1, self.left - 1


def available(resources: NodeResources, demand: ResourceDemand) -> Counts:
    """Return the CPUs that count as available to a job on each node: those of whole tasks, in whole cores."""
    whole = resources.free_cpus // demand.cpus_per_task * demand.cpus_per_task
    cpus = np.asarray(-(-whole // resources.threads) * resources.threads)
    if demand.per_task:
        most = 1 if demand.tasks == 1 else demand.tasks_per_node or MOST_NODES
        tasks = np.minimum(resources.free_gpus // demand.per_task, most)
    elif demand.per_socket:
        tasks = np.full(len(cpus), demand.tasks)
    elif demand.tasks_per_node and demand.gpus:
        tasks = np.full(len(cpus), demand.tasks_per_node)
    else:
        return cpus
    return np.asarray(np.minimum(cpus, -(-(tasks * demand.cpus_per_task) // resources.threads) * resources.threads))

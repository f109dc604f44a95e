"""Find nodes for one job as it stands: the fewest that do, the fullest of them first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ....storage.recommendations import Placement
from ....storage.records import Job
from .cons_tres import picked, thinned, weigh
from .node_resources import Counts, Mask, NodeResources
from .resource_demand import ResourceDemand, choices, counts
from .switches import below_switches

Rows = NDArray[np.int64]
MOST_WINDOWS = 256


def find_nodes(resources: NodeResources, job: Job, demand: ResourceDemand, usable: Mask, switches: int = 0,
               ) -> Placement | None:
    """Return where a job can start on nodes that it may use; None where it cannot."""
    for features in choices(job.request.features):
        if demand.least > int((usable & resources.configured(job, demand)).sum()):
            continue  # Slurm gives up before it looks at any of so few nodes
        suited = usable & resources.suited(job, demand, features) & resources.shared(demand, job.user)
        for group in _groups(resources, demand, suited, switches):
            found = _placed(resources, job, demand, group, features)
            if found is not None:
                return found
    return None


def _groups(resources: NodeResources, demand: ResourceDemand, usable: Mask, switches: int) -> Iterator[Mask]:
    """Yield sets of nodes within which a job's nodes have to be."""
    if switches:
        yield from _under(resources, demand, usable, switches)
    elif demand.adjacent:
        for first in np.flatnonzero(usable)[:MOST_WINDOWS].tolist():
            window = np.zeros(len(usable), bool)
            window[first:first + demand.least] = True
            if int((window & usable).sum()) == demand.least:
                yield window & usable
    else:
        yield usable


def _under(resources: NodeResources, demand: ResourceDemand, usable: Mask, switches: int) -> Iterator[Mask]:
    """Yield the usable nodes of each leaf switch, the fullest first, and of several where so many are requested."""
    fits, _, most = resources.capacity(demand, usable, demand.least)
    leaves = np.unique(resources.leaf[fits])
    roomiest = sorted(leaves.tolist(), key=lambda leaf: -int((fits & (resources.leaf == leaf)).sum()))
    for leaf in reversed(roomiest):
        yield usable & (resources.leaf == leaf)
    if switches > 1:
        yield usable & np.isin(resources.leaf, roomiest[:switches])


def _placed(resources: NodeResources, job: Job, demand: ResourceDemand, usable: Mask, features: str,
            ) -> Placement | None:
    fits, tasks, gpus = resources.capacity(demand, usable, demand.least)
    if resources.as_planned:
        weigh(resources, demand, fits)
    forced = [resources.row[name] for name in dict.fromkeys(job.request.required_nodes) if name in resources.row]
    if len(forced) < len(set(job.request.required_nodes)) or not all(fits[row] for row in forced):
        return None
    fewer = 0 < demand.most < sum(number for _, number in counts(features)) and "[" not in job.request.features
    wanted = list(_counted(resources, fits, forced, counts(features), gpus, fewer=fewer))
    if None in wanted:
        return None
    chosen = [row for row in wanted if row is not None]
    if resources.as_planned and not chosen and resources.site.tree and not demand.contiguous:
        room = resources.free_cpus + gpus
        rows = thinned(lambda left: below_switches(resources, demand, left, gpus), fits, room, demand.least)
        return None if rows is None else _placement(resources, demand, rows, tasks, gpus)
    rows = picked(resources, demand, fits, gpus) if resources.as_planned and not chosen else None
    if rows is None or not _does(demand, np.array(rows), tasks, gpus):
        rows = _filled(resources, demand, fits, tasks, gpus, chosen)
    return None if rows is None else _placement(resources, demand, rows, tasks, gpus)


def _counted(resources: NodeResources, fits: Mask, forced: list[int], terms: tuple[tuple[str, int], ...],
             gpus: Counts, *, fewer: bool) -> Iterator[int | None]:
    """Yield nodes named, and as many of each feature as are requested; None where there are too few.

    Where the job takes fewer nodes than it counts features they are those that have most of them.
    """
    yield from forced
    taken = set(forced)
    have = sum((resources.featured(name, 1).astype(np.int64) for name, _ in terms if fewer), gpus * 0)
    for name, number in terms:
        able = [row for row in np.flatnonzero(fits & resources.featured(name, 1)).tolist()]
        already = [row for row in able if row in taken]
        fresh = sorted((row for row in able if row not in taken), key=lambda row: (-int(have[row]), int(gpus[row])))
        # The nodes of one term do not count for the next, in Slurm's backfill: they are apart.
        use = (already + fresh)[:number] if forced or fewer else (fresh + already)[:number]
        if len(use) < number:
            yield None
            return
        taken.update(use)
        yield from (row for row in use if row not in forced)


def _filled(resources: NodeResources, demand: ResourceDemand, fits: Mask, tasks: Counts, gpus: Counts,
            chosen: list[int]) -> list[int] | None:
    """Return rows that together have room for all tasks and GPUs, the fewest that the job takes."""
    rows = list(dict.fromkeys(chosen))
    most = min(demand.widest or int(fits.sum()), int(fits.sum()))
    for number in range(max(demand.least, len(rows), _fewest(demand, fits, tasks, gpus)), most + 1):
        found = _so_many(resources, demand, fits, tasks, gpus, rows, number)
        if found is not None:
            return found
    return None


def _fewest(demand: ResourceDemand, fits: Mask, tasks: Counts, gpus: Counts) -> int:
    """Return how many of the roomiest nodes it takes at least; more than there are where all together are too few."""
    fewest = 1
    amounts = [(tasks, demand.tasks)] + ([(gpus, demand.gpus)] if demand.gpus and not demand.per_node else [])
    for room, wanted in amounts:
        roomiest = np.sort(room[fits])[::-1]
        fewest = max(fewest, int(np.searchsorted(np.cumsum(np.minimum(roomiest, wanted)), wanted)) + 1)
    return fewest


def _so_many(resources: NodeResources, demand: ResourceDemand, fits: Mask, tasks: Counts, gpus: Counts,
             rows: list[int], number: int) -> list[int] | None:
    left = number - len(rows)
    others = fits.copy()
    others[rows] = False
    free = np.flatnonzero(others)
    if left > free.size:
        return None
    tightest = _in_turn(resources, free, number) if resources.as_planned else \
        free[np.lexsort((free, resources.free_cpus[free], resources.free_gpus[free]))]
    if number == 1 and left == 1:
        return next(([int(row)] for row in tightest if _does(demand, np.array([row]), tasks, gpus)), None)
    found = np.array([*rows, *tightest[:left]], np.int64)
    if _does(demand, found, tasks, gpus):
        return [int(row) for row in found]
    by = gpus if demand.gpus and not demand.per_node else tasks
    roomiest = free[np.lexsort((free, -by[free]))]
    found = np.array([*rows, *roomiest[:left]], np.int64)
    return [int(row) for row in found] if _does(demand, found, tasks, gpus) else None


def _in_turn(resources: NodeResources, free: Rows, number: int) -> Rows:
    """Return nodes as Slurm takes them: of the smallest leaf that is large enough, or of the row, the first."""
    if resources.site.tree:
        leaves, sizes = np.unique(resources.leaf[free], return_counts=True)
        size = sizes[np.searchsorted(leaves, resources.leaf[free])]
        weights = resources.weights[resources.history][free]
        smallest = np.where(size < number, len(resources.nodes), size)
        return free[np.lexsort((free, resources.leaf[free], smallest, weights))]
    if number > 1:
        return free
    rows = np.cumsum(np.diff(free, prepend=free[:1]) > 1)  # nodes side by side
    cpus = np.bincount(rows, resources.free_cpus[free])[rows]
    return free[np.lexsort((free, resources.free_cpus[free], cpus))]


def _does(demand: ResourceDemand, rows: Rows, tasks: Counts, gpus: Counts) -> bool:
    """Tell whether so many nodes together have room for all tasks and GPUs."""
    if int(tasks[rows].sum()) < demand.tasks:
        return False
    if demand.gpus == 0 or demand.per_node:
        return True
    return int(gpus[rows].sum()) >= demand.gpus and rows.size <= max(1, demand.gpus)


def _placement(resources: NodeResources, demand: ResourceDemand, rows: list[int], tasks: Counts, gpus: Counts,
               ) -> Placement:
    """Return nodes in the scheduler's order with GPUs on each."""
    rows = sorted(rows)
    names = tuple(resources.nodes[row].name for row in rows)
    if demand.exclusive:
        return Placement(names, tuple(int(resources.gpus[row]) for row in rows))
    if demand.per_socket:
        return Placement(names, tuple(resources.gpus_by_socket(demand)[rows].tolist()))
    if demand.per_node or demand.gpus == 0:
        return Placement(names, (demand.per_node,) * len(rows))
    step = demand.per_task or 1
    most = [int(min(gpus[row], tasks[row] * step) if demand.per_task else gpus[row]) for row in rows]
    first = step * (resources.first_tasks(demand, np.array(rows)) if demand.per_task else 1)
    return Placement(names, tuple(_split(demand.gpus, most, step, first)))


def _split(total: int, most: list[int], step: int, first: int) -> list[int]:
    """Return shares of GPUs, so many first on each node and then as many as there are, in order and in whole steps."""
    shares = [max(step, min(first, room // step * step)) for room in most]
    for place, room in enumerate(most):
        shares[place] += max(0, min(room - shares[place], total - sum(shares)) // step * step)
    return shares

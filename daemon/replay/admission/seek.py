"""Find nodes for one job as it stands: the fewest that do, the fullest of them first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ....storage.recommendations import Placement
from ....storage.records import Job
from .ground import Counts, Ground, Mask
from .pick import picked, thinned, weigh
from .switches import below_switches
from .wish import Wish, choices, counts

Rows = NDArray[np.int64]
MOST_WINDOWS = 256


def seek(ground: Ground, job: Job, wish: Wish, usable: Mask, switches: int = 0) -> Placement | None:
    """Return where a job can start on nodes that it may use; None where it cannot."""
    for features in choices(job.request.features):
        suited = usable & ground.suited(job, wish, features) & ground.shared(wish, job.user)
        if wish.least > int(suited.sum()):
            continue
        for group in _groups(ground, wish, suited, switches):
            found = _placed(ground, job, wish, group, features)
            if found is not None:
                return found
    return None


def _groups(ground: Ground, wish: Wish, usable: Mask, switches: int) -> Iterator[Mask]:
    """Yield sets of nodes within which a job's nodes have to be."""
    if switches:
        yield from _under(ground, wish, usable, switches)
    elif wish.contiguous and wish.least > 1:
        for first in np.flatnonzero(usable)[:MOST_WINDOWS].tolist():
            window = np.zeros(len(usable), bool)
            window[first:first + wish.least] = True
            if int((window & usable).sum()) == wish.least:
                yield window & usable
    else:
        yield usable


def _under(ground: Ground, wish: Wish, usable: Mask, switches: int) -> Iterator[Mask]:
    """Yield the usable nodes of each leaf switch, the fullest first, and of several where so many are asked for."""
    fits, _, most = ground.capacity(wish, usable, wish.least)
    leaves = np.unique(ground.leaf[fits])
    roomiest = sorted(leaves.tolist(), key=lambda leaf: -int((fits & (ground.leaf == leaf)).sum()))
    for leaf in reversed(roomiest):
        yield usable & (ground.leaf == leaf)
    if switches > 1:
        yield usable & np.isin(ground.leaf, roomiest[:switches])


def _placed(ground: Ground, job: Job, wish: Wish, usable: Mask, features: str) -> Placement | None:
    fits, tasks, gpus = ground.capacity(wish, usable, wish.least)
    if ground.as_planned:
        weigh(ground, wish, fits)
    forced = [ground.row[name] for name in dict.fromkeys(job.request.required_nodes) if name in ground.row]
    if len(forced) < len(set(job.request.required_nodes)) or not all(fits[row] for row in forced):
        return None
    fewer = 0 < wish.most < sum(number for _, number in counts(features)) and "[" not in job.request.features
    wanted = list(_counted(ground, fits, forced, counts(features), gpus, fewer=fewer))
    if None in wanted:
        return None
    chosen = [row for row in wanted if row is not None]
    if ground.as_planned and not chosen and ground.site.tree and not wish.contiguous:
        room = ground.free_cpus + gpus
        rows = thinned(lambda left: below_switches(ground, wish, left, gpus), fits, room, wish.least)
        return None if rows is None else _placement(ground, wish, rows, tasks, gpus)
    rows = picked(ground, wish, fits, gpus) if ground.as_planned and not chosen else None
    if rows is None or not _does(wish, np.array(rows), tasks, gpus):
        rows = _filled(ground, wish, fits, tasks, gpus, chosen)
    return None if rows is None else _placement(ground, wish, rows, tasks, gpus)


def _counted(ground: Ground, fits: Mask, forced: list[int], terms: tuple[tuple[str, int], ...], gpus: Counts, *,
             fewer: bool) -> Iterator[int | None]:
    """Yield nodes named, and as many of each feature as are asked for; None where there are too few.

    Where the job takes fewer nodes than it counts features they are those that have most of them.
    """
    yield from forced
    taken, have = set(forced), sum((ground.featured(name, 1).astype(np.int64) for name, _ in terms if fewer), gpus * 0)
    for name, number in terms:
        able = [row for row in np.flatnonzero(fits & ground.featured(name, 1)).tolist()]
        already = [row for row in able if row in taken]
        fresh = sorted((row for row in able if row not in taken), key=lambda row: (-int(have[row]), int(gpus[row])))
        # The nodes of one term do not count for the next, in Slurm's backfill: they are apart.
        use = (already + fresh)[:number] if forced or fewer else (fresh + already)[:number]
        if len(use) < number:
            yield None
            return
        taken.update(use)
        yield from (row for row in use if row not in forced)


def _filled(ground: Ground, wish: Wish, fits: Mask, tasks: Counts, gpus: Counts, chosen: list[int]) -> list[int] | None:
    """Return rows that together have room for all tasks and GPUs, the fewest that the job takes."""
    rows = list(dict.fromkeys(chosen))
    most = min(wish.most or int(fits.sum()), int(fits.sum()))
    for number in range(max(wish.least, len(rows), _fewest(wish, fits, tasks, gpus)), most + 1):
        found = _so_many(ground, wish, fits, tasks, gpus, rows, number)
        if found is not None:
            return found
    return None


def _fewest(wish: Wish, fits: Mask, tasks: Counts, gpus: Counts) -> int:
    """Return how many of the roomiest nodes it takes at least; more than there are where all together are too few."""
    fewest = 1
    amounts = [(tasks, wish.tasks)] + ([(gpus, wish.gpus)] if wish.gpus and not wish.per_node else [])
    for room, wanted in amounts:
        roomiest = np.sort(room[fits])[::-1]
        fewest = max(fewest, int(np.searchsorted(np.cumsum(np.minimum(roomiest, wanted)), wanted)) + 1)
    return fewest


def _so_many(ground: Ground, wish: Wish, fits: Mask, tasks: Counts, gpus: Counts, rows: list[int], number: int,
             ) -> list[int] | None:
    left = number - len(rows)
    others = fits.copy()
    others[rows] = False
    free = np.flatnonzero(others)
    if left > free.size:
        return None
    tightest = _in_turn(ground, free, number) if ground.as_planned else \
        free[np.lexsort((free, ground.free_cpus[free], ground.free_gpus[free]))]
    if number == 1 and left == 1:
        return next(([int(row)] for row in tightest if _does(wish, np.array([row]), tasks, gpus)), None)
    found = np.array([*rows, *tightest[:left]], np.int64)
    if _does(wish, found, tasks, gpus):
        return [int(row) for row in found]
    by = gpus if wish.gpus and not wish.per_node else tasks
    roomiest = free[np.lexsort((free, -by[free]))]
    found = np.array([*rows, *roomiest[:left]], np.int64)
    return [int(row) for row in found] if _does(wish, found, tasks, gpus) else None


def _in_turn(ground: Ground, free: Rows, number: int) -> Rows:
    """Return nodes as Slurm takes them: of the smallest leaf that is large enough, or of the row, the first."""
    if ground.site.tree:
        leaves, sizes = np.unique(ground.leaf[free], return_counts=True)
        size = sizes[np.searchsorted(leaves, ground.leaf[free])]
        weights = ground.weights[ground.history][free]
        return free[np.lexsort((free, ground.leaf[free], np.where(size < number, len(ground.nodes), size), weights))]
    if number > 1:
        return free
    rows = np.cumsum(np.diff(free, prepend=free[:1]) > 1)  # nodes side by side
    cpus = np.bincount(rows, ground.free_cpus[free])[rows]
    return free[np.lexsort((free, ground.free_cpus[free], cpus))]


def _does(wish: Wish, rows: Rows, tasks: Counts, gpus: Counts) -> bool:
    """Tell whether so many nodes together have room for all tasks and GPUs."""
    if int(tasks[rows].sum()) < wish.tasks:
        return False
    if wish.gpus == 0 or wish.per_node:
        return True
    return int(gpus[rows].sum()) >= wish.gpus and rows.size <= max(1, wish.gpus)


def _placement(ground: Ground, wish: Wish, rows: list[int], tasks: Counts, gpus: Counts) -> Placement:
    """Return nodes in the scheduler's order with GPUs on each."""
    rows = sorted(rows)
    names = tuple(ground.nodes[row].name for row in rows)
    if wish.exclusive:
        return Placement(names, tuple(int(ground.gpus[row]) for row in rows))
    if wish.per_socket:
        return Placement(names, tuple(ground.gpus_by_socket(wish)[rows].tolist()))
    if wish.per_node or wish.gpus == 0:
        return Placement(names, (wish.per_node,) * len(rows))
    step = wish.per_task or 1
    most = [int(min(gpus[row], tasks[row] * step) if wish.per_task else gpus[row]) for row in rows]
    first = step * (ground.first_tasks(wish, np.array(rows)) if wish.per_task else 1)
    return Placement(names, tuple(_split(wish.gpus, most, step, first)))


def _split(total: int, most: list[int], step: int, first: int) -> list[int]:
    """Return shares of GPUs, so many first on each node and then as many as there are, in order and in whole steps."""
    shares = [max(step, min(first, room // step * step)) for room in most]
    for place, room in enumerate(most):
        shares[place] += max(0, min(room - shares[place], total - sum(shares)) // step * step)
    return shares

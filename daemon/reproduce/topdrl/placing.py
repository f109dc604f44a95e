"""Compiled placement of jobs: the nearest free GPUs and other rules; the nearest GPUs now and in the future."""

from __future__ import annotations

from ...replay.compiled import compiled, compiled_apart
from ...replay.moves import draw
from .kernel import FREE, NOW, QUEUED, RUNNING, WINDOW, EpisodeJobs, EpisodeState, Site, extent, left, speed

NEAREST, FIRST, BALANCE, ANYWHERE = range(4)
"""Placements: the closest GPUs, the first free GPUs, the emptiest nodes of the emptiest leaf, random GPUs."""


@compiled_apart
def place_job(site: Site, cluster: EpisodeState, gpus: int, how: int) -> None:
    """Write the nodes for a number of GPUs to ``spot``; enough GPUs must be free."""
    if how == NEAREST:
        nearest(site, cluster, gpus)
    elif how == ANYWHERE:
        anywhere(site, cluster, gpus)
    else:
        count_room(site, cluster)
        taken = 0
        if how == FIRST:
            for node in range(site.nodes):
                taken = take(cluster, node, taken, gpus)
        while taken < gpus:
            taken = fill(site, cluster, roomiest(cluster), taken, gpus, False)


@compiled
def count_room(site: Site, cluster: EpisodeState) -> None:
    """Count the free GPUs of each leaf in ``room`` and copy those of nodes to ``then``."""
    for leaf in range(cluster.room.size):
        cluster.room[leaf] = 0
    for node in range(site.nodes):
        cluster.then[node] = cluster.free[node]
        cluster.room[node // site.per_leaf] += cluster.free[node]


@compiled
def nearest(site: Site, cluster: EpisodeState, gpus: int) -> None:
    """Take the tightest node that suffices, else the tightest leaf, else leaves with most room first."""
    best = -1
    for node in range(site.nodes):
        if cluster.free[node] >= gpus and (best < 0 or cluster.free[node] < cluster.free[best]):
            best = node
    if best >= 0:
        for gpu in range(gpus):
            cluster.spot[gpu] = best
        return
    count_room(site, cluster)
    leaf = tightest(cluster, gpus)
    taken = fill(site, cluster, leaf, 0, gpus, True) if leaf >= 0 else 0
    while taken < gpus:
        taken = fill(site, cluster, roomiest(cluster), taken, gpus, True)


@compiled
def tightest(cluster: EpisodeState, gpus: int) -> int:
    """Return the leaf with the fewest free GPUs that suffice, -1 for none."""
    best = -1
    for leaf in range(cluster.room.size):
        if cluster.room[leaf] >= gpus and (best < 0 or cluster.room[leaf] < cluster.room[best]):
            best = leaf
    return best


@compiled
def roomiest(cluster: EpisodeState) -> int:
    """Return the leaf with the most free GPUs."""
    best = 0
    for leaf in range(cluster.room.size):
        if cluster.room[leaf] > cluster.room[best]:
            best = leaf
    return best


@compiled
def fill(site: Site, cluster: EpisodeState, leaf: int, taken: int, gpus: int, tight: bool) -> int:
    """Take from a leaf, the roomiest nodes first; the last part, if ``tight``, from the tightest node that holds it."""
    first, last = leaf * site.per_leaf, min(site.nodes, (leaf + 1) * site.per_leaf)
    while taken < gpus:
        best, wanted = first, gpus - taken
        for node in range(first, last):
            here, there = cluster.then[node], cluster.then[best]
            both = tight and here >= wanted and there >= wanted
            best = node if (here < there if both else here > there) else best
        if cluster.then[best] == 0:
            break
        taken = take(cluster, best, taken, gpus)
    cluster.room[leaf] = 0
    return taken


@compiled
def take(cluster: EpisodeState, node: int, taken: int, gpus: int) -> int:
    """Take a node's free GPUs, up to the wanted number; return the number of GPUs taken so far."""
    while taken < gpus and cluster.then[node] > 0:
        cluster.spot[taken] = node
        cluster.then[node] -= 1
        taken += 1
    return taken


@compiled
def anywhere(site: Site, cluster: EpisodeState, gpus: int) -> None:
    """Take random free GPUs with equal probability, in the order of nodes."""
    left, missing, taken = cluster.counts[FREE], gpus, 0
    for node in range(site.nodes):
        for _ in range(cluster.free[node]):
            if draw(cluster.words, left) < missing:
                cluster.spot[taken] = node
                taken += 1
                missing -= 1
            left -= 1


@compiled_apart
def look(site: Site, jobs: EpisodeJobs, cluster: EpisodeState) -> None:
    """Compute ``near`` and ``soon`` for the sizes of the jobs in the window."""
    for gpus in range(cluster.near.shape[0]):
        cluster.near[gpus, 0] = 0.0
        cluster.soon[gpus] = -1.0
    for place in range(min(cluster.counts[QUEUED], WINDOW)):
        gpus = jobs.gpus[cluster.queue[place]]
        if gpus <= cluster.counts[FREE] and cluster.near[gpus, 0] == 0.0:
            place_job(site, cluster, gpus, NEAREST)
            nodes, most, leaves = extent(site, cluster, gpus)
            cluster.near[gpus, 0], cluster.near[gpus, 1], cluster.near[gpus, 2] = nodes, most, leaves
            cluster.near[gpus, 3] = cluster.free[cluster.spot[gpus - 1]]
    look_ahead(site, jobs, cluster)


@compiled
def look_ahead(site: Site, jobs: EpisodeJobs, cluster: EpisodeState) -> None:
    """Compute ``soon``: the time until a number of GPUs is free, if running jobs end and no job starts, s."""
    count_room(site, cluster)
    widest, now = cluster.near.shape[0] - 1, cluster.clock[NOW]
    on_node = on_leaf = 0
    for node in range(site.nodes):
        on_node = max(on_node, cluster.then[node])
        on_leaf = max(on_leaf, cluster.room[node // site.per_leaf])
    for gpus in range(1, widest + 1):
        if gpus <= on_node or site.gpus < gpus <= on_leaf:
            cluster.soon[gpus] = 0.0
    for index in range(cluster.counts[RUNNING]):
        job = cluster.running[index]
        for gpu in range(jobs.gpus[job]):
            node = jobs.held[job, gpu]
            cluster.then[node] += 1
            cluster.room[node // site.per_leaf] += 1
            on_node = cluster.then[node]
            on_leaf = cluster.room[node // site.per_leaf]
            if on_node <= widest and cluster.soon[on_node] < 0.0:
                cluster.soon[on_node] = left(jobs, job, now)
            if site.gpus < on_leaf <= widest and cluster.soon[on_leaf] < 0.0:
                cluster.soon[on_leaf] = left(jobs, job, now)


@compiled
def speed_now(site: Site, jobs: EpisodeJobs, cluster: EpisodeState, job: int) -> float:
    """Return the relative speed of a job on the nearest free GPUs; call :func:`look` first."""
    near = cluster.near[jobs.gpus[job]]
    return speed(site, jobs.application[job], jobs.gpus[job], int(near[0]), int(near[1]), int(near[2]))

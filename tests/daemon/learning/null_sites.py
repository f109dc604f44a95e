"""Made-up sites of any length on which nobody is better than anybody, and one on which somebody is.

Every order is given by a key, the smallest first, and backfilled by EASY with best fit. Two policies of one *null*
differ only in their random numbers: neither is better, and that is known without any replay.
"""

from typing import NamedTuple

import numpy as np
from one_node_easy import Jobs, replay

from idlewatt.daemon.learning.pairs import DAY_S, block_of, cuts, sums
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload

HOUR_S, USERS, KINDS = 3600.0, 40, 6
NULLS = ("fifo +- 1 h", "noisy limits", "noisy sjf", "user permutation", "time shift")


def site(days: float, nodes: int = 4, daily: int = 120, load: float = 0.9, seed: int = 0) -> tuple[Cluster, Workload]:
    """Return nodes of 8 GPUs and their jobs: 40 users of six recurring kinds each, log-normal, more by day."""
    random = np.random.default_rng([seed, nodes, daily])
    jobs = int(days * daily)
    kinds = random.integers(0, USERS * KINDS, jobs)
    median = np.clip(random.lognormal(np.log(0.5 * HOUR_S), 1.5, USERS * KINDS), 60.0, 20 * HOUR_S)[kinds]
    gpus = random.choice((1, 2, 4, 8), USERS * KINDS, p=(0.5, 0.2, 0.18, 0.12))[kinds]
    seconds = np.minimum(median * random.lognormal(0.0, 0.6, jobs), DAY_S)
    seconds *= load * nodes * 8 * days * DAY_S / (gpus * seconds).sum()
    limit = np.ceil(seconds * random.uniform(1.0, 3.0, jobs) / 900.0) * 900.0
    even = np.sort(random.uniform(0.0, days * DAY_S, jobs))
    submit = np.sort(even + 0.4 * DAY_S / (2 * np.pi) * (1.0 - np.cos(2 * np.pi * even / DAY_S)))
    return Cluster.from_spec(f"{nodes}x8"), Workload.of(submit, seconds, gpus, limit=limit,
                                                        user=(kinds // KINDS).astype(np.int32),
                                                        user_names=tuple(f"u{number}" for number in range(USERS)))


def key(null, work, random):
    """Return who goes first, the smallest first, under one draw of a null."""
    jobs = len(work)
    if null == "fifo +- 1 h":
        return work.submit + random.uniform(-HOUR_S, HOUR_S, jobs)
    if null == "noisy limits":
        return work.submit + 0.5 * work.limit * random.lognormal(0.0, 0.5, jobs)
    if null == "noisy sjf":
        return work.submit + 2.0 * work.run * random.lognormal(0.0, 1.0, jobs)
    week = (work.submit // (7 * DAY_S)).astype(int)
    if null == "user permutation":  # drawn anew each week: one that lasts for ever is better or worse for ever
        offset = np.argsort(random.random((week.max(initial=0) + 1, USERS)), axis=1) / USERS
        return work.submit + 8.0 * HOUR_S * offset[week, work.user]
    assert null == "time shift"  # of each day, all of its jobs but a random half
    day = (work.submit // DAY_S).astype(int)
    sooner = random.random(jobs) < 0.5
    return work.submit - sooner * random.uniform(0.0, 6.0 * HOUR_S, day.max(initial=0) + 1)[day]


class Ran(NamedTuple):
    """What came of a replay, row by row of its workload."""

    workload: Workload
    start: np.ndarray
    end: np.ndarray


def ran(cluster, work, keys):
    """Return what comes of jobs of which the smallest key goes first, under EASY with best fit."""
    start = replay(Jobs.of(work, keys), len(cluster.names)).start
    return Ran(work, start, start + work.run)


def pair(null, cluster, work, seed):
    """Return what the two policies of a null came to on the same jobs."""
    return tuple(ran(cluster, work, key(null, work, np.random.default_rng([seed, which]))) for which in (0, 1))


def looking_at_limits(work, weight, delay_s=0.0, third=0):
    """Return the keys of an agent that looks at limits a little, and lets a third of the users wait for the others."""
    return work.submit + weight * work.limit + delay_s * (thirds(work) == third)


def thirds(work):
    """Return whether each job is of the light, the middle or the heavy third of users, as the gate looks at them."""
    _, user = np.unique(work.user, return_inverse=True)
    used = np.bincount(user, weights=work.run * work.gpus)
    return (np.argsort(np.argsort(used, kind="stable")) * 3 // len(used))[user]


def better(cluster, work, *agent):
    """Return what came of ``looking_at_limits``, and of FIFO: the more weight, the better."""
    return ran(cluster, work, looking_at_limits(work, *agent)), ran(cluster, work, work.submit)


def blocks(ours, theirs, since_s=0.0, until_s=None):
    """Return the edges of the blocks and both sums of completion times by block."""
    submit = ours.workload.submit
    edges = cuts(submit, np.maximum(ours.start, theirs.start), since_s, submit[-1] if until_s is None else until_s)
    number = block_of(submit, edges)
    return edges, *(sums(np.nan_to_num(one.end - submit, nan=1e9), number, len(edges) - 1) for one in (ours, theirs))

"""Made-up sites of any length on which nobody is better than anybody, and one on which somebody is.

Every order is given by the recorded priority, so that all of them share one compiled policy. Two policies of one *null*
differ only in their random numbers: neither is better, and that is known without any replay.
"""

from dataclasses import replace

import numpy as np

from idlewatt.daemon.learning.pairs import DAY_S, block_of, cuts, sums
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.workload import Workload

HOUR_S, USERS, KINDS = 3600.0, 40, 6
POLICY = "priority+best-fit+easy"
NULLS = ("fifo +- 1 h", "noisy limits", "noisy sjf", "user permutation", "time shift")
FIFO = "fifo+best-fit+easy"


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


def keyed(work, keys):
    """Return the jobs with priorities that let the smallest key go first."""
    return replace(work, priority=-keys)


def pair(null, cluster, work, seed):
    """Return what the two policies of a null came to on the same jobs."""
    policy = named(POLICY)
    return tuple(run(cluster, keyed(work, key(null, work, np.random.default_rng([seed, which]))), policy)
                 for which in (0, 1))


def better(cluster, work, weight):
    """Return the run of an agent that looks at limits a little, and that of FIFO: the more weight, the better."""
    return (run(cluster, keyed(work, work.submit + weight * work.limit), named(POLICY)),
            run(cluster, work, named(FIFO)))


def turning(before, after, seed, quiet_days, days, **size):
    """Return the run of an agent that changes after a while, and that of FIFO; a weight below 0 makes it worse."""
    cluster, work = site(quiet_days + days, seed=seed, **size)
    weight = np.where(work.submit < quiet_days * DAY_S, before, after)
    return run(cluster, keyed(work, work.submit + weight * work.limit), named(POLICY)), run(cluster, work, named(FIFO))


def blocks(ours, theirs, since_s=0.0, until_s=None):
    """Return the edges of the blocks and both sums of completion times by block."""
    submit = ours.workload.submit
    edges = cuts(submit, np.maximum(ours.start, theirs.start), since_s, submit[-1] if until_s is None else until_s)
    number = block_of(submit, edges)
    return edges, *(sums(np.nan_to_num(one.end - submit, nan=1e9), number, len(edges) - 1) for one in (ours, theirs))

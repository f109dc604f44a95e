"""A recorded site whose true speeds are known: what is spread over leaf switches runs at half its speed."""

from contextlib import closing

import numpy as np

from idlewatt.daemon.agents.histories import DAY_S
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.recorded_work import levels
from idlewatt.daemon.replay.speed import SpeedTable
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.speeds import RunSpeed

SINCE = 1_795_219_200.0
NODES = tuple(Node(f"n{number}", ("default",), 4, cpus=32, leaf=f"leaf{number // 2}") for number in range(8))
TRUTH = SpeedTable(np.ones((1, 1)), np.array([[1, 1, 1, 0.5, 0.5]]))
USERS = ("ann", "bob", "cid")
INCUMBENT = "fifo+first-fit+easy"


def scattered(days=12.0, jobs=700, seed=0):
    """Return the cluster and the true work of three users on eight nodes, two at a leaf switch, and its life."""
    rng = np.random.default_rng(seed)
    submit = SINCE + np.sort(rng.uniform(0, days * DAY_S, jobs))
    work = rng.lognormal(np.log(days * DAY_S * 32 * 0.55 / jobs / 6), 0.8, jobs)
    workload = Workload.of(submit, work, rng.choice([1, 2, 4, 8, 8], jobs), limit=4 * work,
                           user=[USERS[number] for number in rng.integers(3, size=jobs)])
    cluster = Cluster.from_records(NODES)
    return cluster, workload, run(cluster, workload, named(INCUMBENT), speed=TRUTH)


def write(url, *, watched=True, noise=0.04, rate=None, **shape):
    """Write down how the site lived, with the throughput of its runs; return its cluster and true work."""
    cluster, workload, replayed = scattered(**shape)
    rng = np.random.default_rng(9)
    jobs, speeds = [], []
    for row in range(len(workload)):
        held = replayed.state.held(row)
        parts = tuple(Allocation(NODES[node].name, int(gpus), None, 4 * int(gpus))
                      for node, gpus in zip(held.node, held.gpus, strict=True))
        user, gpus = workload.user_names[workload.user[row]], int(workload.gpus[row])
        name, submit, start = f"ddp_{row}", float(workload.submit[row]), float(replayed.start[row])
        jobs.append(Job(str(row + 1), submit, JobState.COMPLETED, "default", Request(gpus, 1, cpus=4 * gpus), user,
                        name=name, start_s=start, end_s=float(replayed.end[row]), limit_s=float(workload.limit[row]),
                        allocations=parts))
        level = int(levels(cluster, held.node.astype(np.int64), np.zeros(1, np.int64))[0])
        throughput = 100 * gpus**0.9 * TRUTH.spread[0, level] * float(np.exp(noise * rng.standard_normal()))
        speeds.append(RunSpeed(str(row + 1), submit, start, user, "ddp_#", "", gpus, len(parts), "throughput",
                               throughput if rate is None else rate, 20, float(replayed.end[row])))
    first, last = float(workload.submit[0]), float(np.nanmax(replayed.end))
    with closing(History.open(url)) as history:
        partitions = (Partition("default", tuple(node.name for node in NODES)),)
        history.record_snapshot(SchedulerSnapshot(first - 1, NODES, partitions))
        history.record_snapshot(SchedulerSnapshot(last + 1, NODES, partitions, tuple(jobs)))
        if watched:
            history.record_speeds(speeds)
    return cluster, workload, replayed

"""Made-up sites to learn from."""

from contextlib import closing
from pathlib import Path

import numpy as np

from idlewatt.daemon.agents.histories import DAY_S, Material
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot

SINCE = 1_795_219_200.0


def site(days=20.0, jobs=2000, seed=0, since_s=SINCE, **columns):
    """A history of eight users on four nodes of eight GPUs."""
    rng = np.random.default_rng(seed)
    submit = since_s + np.sort(rng.uniform(0, days * DAY_S, jobs))
    ran = rng.lognormal(np.log(3600), 1.2, jobs)
    gpus, limit = rng.choice([1, 2, 4, 8], jobs), ran * rng.uniform(1, 3, jobs)
    users = [f"user{number}" for number in rng.integers(8, size=jobs)]
    columns = {"run": ran, "gpus": gpus, "limit": limit, "user": users, "dependency": np.arange(jobs) - 1, **columns}
    filled = {name: np.broadcast_to(columns.pop(name), (jobs,)) for name in ("run", "gpus")}
    return Material("site.csv", Cluster.from_spec("4x8"), Workload.of(submit, **filled, **columns))


def write_trace(material: Material, path: Path) -> Path:
    """Write a history as the plain CSV that people have."""
    work = material.workload
    rows = zip(work.ids, work.submit, work.run, work.gpus, work.limit, work.user, strict=True)
    path.write_text("job,submit_s,run_s,gpus,limit_s,user\n" + "".join(
        f"{job},{submit:.0f},{ran:.0f},{gpus},{limit:.0f},{work.user_names[user]}\n"
        for job, submit, ran, gpus, limit, user in rows))
    return path


def record(url: str, material: Material, incumbent: str = "fifo+first-fit+easy") -> None:
    """Write a history into the daemon's database as a site under the incumbent would have lived it."""
    work, nodes = material.workload, material.cluster.names
    replayed = run(material.cluster, work, named(incumbent))
    jobs = []
    for row in range(len(work)):
        held = replayed.state.held(row)
        parts = tuple(Allocation(nodes[node], int(gpus)) for node, gpus in zip(held.node, held.gpus, strict=True))
        jobs.append(Job(str(row + 1), float(work.submit[row]), JobState.COMPLETED, "default",
                        Request(int(work.gpus[row]), 1, cpus=1), work.user_names[work.user[row]], name="train",
                        start_s=float(replayed.start[row]), end_s=float(replayed.end[row]),
                        limit_s=float(work.limit[row]), allocations=parts))
    inventory = tuple(Node(name, ("default",), 8) for name in nodes)
    first, last = float(work.submit[0]), float(np.nanmax(replayed.end))
    with closing(History.open(url)) as history:
        partitions = (Partition("default", nodes),)
        history.record_snapshot(SchedulerSnapshot(first - 1, inventory, partitions))
        history.record_snapshot(SchedulerSnapshot(last + 1, inventory, partitions, tuple(jobs)))

"""Made-up sites to learn from."""

from pathlib import Path

import numpy as np

from idlewatt.daemon.agents.histories import DAY_S, Material
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload

SINCE = 1_795_219_200.0


def site(days=20.0, jobs=2000, seed=0, **columns):
    """A history of eight users on four nodes of eight GPUs."""
    rng = np.random.default_rng(seed)
    submit = SINCE + np.sort(rng.uniform(0, days * DAY_S, jobs))
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

"""The workload that replay simulators were compared on: Poisson arrivals, lognormal run times, 64 nodes of 8 GPUs."""

import numpy as np

from idlewatt.daemon.replay.workload import Workload


def synthetic(jobs: int, load: float, seed: int = 1) -> Workload:
    """Return the workload with the given offered load; all times are whole seconds."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8, 16], size=jobs, p=[.5, .15, .15, .15, .05])
    run = np.clip(np.rint(rng.lognormal(np.log(600.0), 1.6, jobs)), 30, 5 * 86400).astype(np.int64)
    rate = load * 512 / (gpus * run).mean()
    submit = np.rint(np.cumsum(rng.exponential(1 / rate, jobs))).astype(np.int64)
    limit = np.rint(run * rng.uniform(1, 3, jobs))
    return Workload.of(submit - submit[0], run, gpus, limit=limit)

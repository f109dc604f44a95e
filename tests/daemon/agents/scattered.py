"""A contended site where distance costs: nodes on leaves, jobs of several nodes, two applications."""

import numpy as np

from idlewatt.daemon.agents.kinds import Course, Stretch
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.speed import measured
from idlewatt.daemon.replay.workload import Workload

HOUR_S = 3600.0
INCUMBENT = "fifo+first-fit+easy"
SPEEDS = measured([{1: 1.0}, {1: 1.0}], 16, [{"node": 0.95, "leaf": 0.9, "spine": 0.45, "further": 0.4},
                                              {"leaf": 0.97, "spine": 0.95, "further": 0.95}])
NAMES = ("bert", "imagenet")


def cluster(leaves=3, nodes=3, gpus=4):
    return Cluster.from_mapping({"nodes": [
        {"name": f"leaf{leaf}-", "count": nodes, "gpus": gpus, "leaf": f"l{leaf}", "spine": "s"}
        for leaf in range(leaves)]})


def workload(jobs=120, seed=0, load=1.1, gpus=36, **columns):
    random = np.random.default_rng(seed)
    ran = random.lognormal(np.log(HOUR_S), 1.1, jobs)
    asked = random.choice([1, 2, 4, 8, 12], jobs, p=[0.3, 0.2, 0.2, 0.2, 0.1])
    span = float((ran * asked).sum() / gpus / load)
    submit = np.sort(random.uniform(0, span, jobs))
    columns = {"limit": ran * random.uniform(1.2, 3, jobs), "prediction": ran * random.lognormal(0, 0.3, jobs),
               "application": random.integers(2, size=jobs), "application_names": NAMES, **columns}
    return Workload.of(submit, ran, asked, **columns)


def stretch(number=0, jobs=120, speed=SPEEDS):
    work = workload(jobs, number)
    return Stretch(cluster(), work, float(work.submit[jobs // 8]), speed)


def course(folder, **changes):
    from dataclasses import replace

    made = Course(stretch, [stretch(100), stretch(101)], INCUMBENT, 0, 3600.0, folder)
    return replace(made, **changes)

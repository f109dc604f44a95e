"""A contended site where distance costs: nodes on leaves, jobs of several nodes, two applications."""

from dataclasses import replace

import numpy as np

from idlewatt.daemon.agents.histories import Material
from idlewatt.daemon.agents.kinds import TraceWindow, TrainingConfig
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.site_speeds import SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.workload import Workload

HOUR_S = 3600.0
INCUMBENT = "fifo+first-fit+easy"


def group(name, **spread):
    """A group of like jobs, whose spread was measured."""
    return SpeedGroup("*", name, 9, spread={level: SpeedCell(factor, factor, factor, "measured", 9)
                                            for level, factor in spread.items()})


SITE = SiteSpeeds("site", (group("bert", node=0.95, leaf=0.9, spine=0.45, further=0.4),
                           group("imagenet", leaf=0.97, spine=0.95, further=0.95)))
NAMES = SITE.labels
SPEEDS = SITE.table


def cluster(leaves=3, nodes=3, gpus=4):
    return Cluster.from_mapping({"nodes": [
        {"name": f"leaf{leaf}-", "count": nodes, "gpus": gpus, "leaf": f"l{leaf}", "spine": "s"}
        for leaf in range(leaves)]})


def workload(jobs=120, seed=0, load=1.1, gpus=36, hours=1.0, **columns):
    random = np.random.default_rng(seed)
    ran = random.lognormal(np.log(hours * HOUR_S), 1.1, jobs)
    asked = random.choice([1, 2, 4, 8, 12], jobs, p=[0.3, 0.2, 0.2, 0.2, 0.1])
    span = float((ran * asked).sum() / gpus / load)
    submit = np.sort(random.uniform(0, span, jobs))
    columns = {"limit": ran * random.uniform(1.2, 3, jobs), "prediction": ran * random.lognormal(0, 0.3, jobs),
               "application": 1 + random.integers(2, size=jobs), "application_names": NAMES, **columns}
    return Workload.of(submit, ran, asked, **columns)


def window(number=0, jobs=120, speeds=SITE):
    work = workload(jobs, number)
    return TraceWindow(cluster(), work, float(work.submit[jobs // 8]), speeds)


def material(jobs=280, hours=3.0):
    """A history of some days."""
    return Material("made-up.csv", cluster(), workload(jobs, hours=hours), speeds=SITE)


def config(folder, **changes):
    made = TrainingConfig(window, [window(100), window(101)], INCUMBENT, 0, 3600.0, folder)
    return replace(made, **changes)

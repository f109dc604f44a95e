"""A contended site where CPUs bind: some jobs ask for many that they do not use, others would be faster with more."""

from dataclasses import replace

import numpy as np
from distant import HOUR_S, INCUMBENT

from idlewatt.daemon.agents.histories import Material
from idlewatt.daemon.agents.kinds import TraceWindow, TrainingConfig
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.site_speeds import SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.workload import Workload

GB = 10**9


def cell(factor):
    return SpeedCell(factor, factor, factor, "measured", 9)


def group(name, memory=None, **cpus):
    """A group of like jobs whose speed by CPUs per GPU was measured."""
    return SpeedGroup("*", name, 9, cpus={float(points[1:]): cell(factor) for points, factor in cpus.items()},
                      memory={memory: cell(1.0)} if memory else {})


SITE = SiteSpeeds("site", (group("bert", 10.0 * GB, c1=0.9, c2=1.0), group("imagenet", c2=0.5, c4=1.0, c6=1.4)))


def cluster(nodes=4):
    return Cluster.from_mapping({"nodes": [{"name": "n", "count": nodes, "gpus": 8, "cpus": 48,
                                            "memory_bytes": 512 * GB}]})


def workload(jobs=120, seed=0, load=1.0, hours=1.0):
    """Language jobs ask for twelve CPUs a GPU and use two; image jobs ask for two and would use six."""
    random = np.random.default_rng(seed)
    ran, asked = random.lognormal(np.log(hours * HOUR_S), 1.0, jobs), random.choice([1, 2, 4], jobs)
    group = 1 + random.integers(2, size=jobs)
    submit = np.sort(random.uniform(0, float((ran * asked).sum() / 32 / load), jobs))
    return Workload.of(submit, ran, asked, limit=ran * 3, prediction=ran * random.lognormal(0, 0.3, jobs),
                       cpus=asked * np.where(group == 1, 12, 2), memory=asked * 40 * GB, application=group,
                       application_names=SITE.labels)


def window(number=0, jobs=120, speeds=SITE):
    work = workload(jobs, number)
    return TraceWindow(cluster(), work, float(work.submit[jobs // 8]), speeds)


def material(jobs=280, hours=3.5):
    """A history of some days."""
    return Material("made-up.csv", cluster(), workload(jobs, hours=hours), speeds=SITE)


def config(folder, **changes):
    return replace(TrainingConfig(window, [window(100), window(101)], INCUMBENT, 0, 3600.0, folder), **changes)

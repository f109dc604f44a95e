"""A contended site whose jobs can use several sizes; one application gains much from more GPUs, the other little."""

from dataclasses import replace

import numpy as np
from distant import HOUR_S, INCUMBENT

from idlewatt.daemon.agents.histories import Material
from idlewatt.daemon.agents.kinds import TraceWindow, TrainingConfig
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.site_speeds import SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.workload import Workload

CURVES = {"bert": {1: 1.0, 2: 1.95, 4: 3.7, 8: 6.8}, "ncf": {1: 1.0, 2: 1.4, 4: 1.7, 8: 1.8}}


def speeds(error=0.0):
    """What is known of them, off by so much."""
    return SiteSpeeds("site", tuple(
        SpeedGroup("*", name, 9, size={gpus: SpeedCell(factor * gpus ** error, 1e-3, 1e3, "measured", 9)
                                       for gpus, factor in curve.items()}) for name, curve in CURVES.items()))


SITE = speeds()


def workload(jobs=120, seed=0, load=0.9, hours=1.0):
    random = np.random.default_rng(seed)
    ran, asked = random.lognormal(np.log(hours * HOUR_S), 1.0, jobs), random.choice([1, 2, 4, 8], jobs)
    submit = np.sort(random.uniform(0, float((ran * asked).sum() / 32 / load), jobs))
    return Workload.of(submit, ran, asked, limit=ran * 4, prediction=ran * random.lognormal(0, 0.3, jobs),
                       minimum=np.maximum(1, asked // 4), maximum=np.minimum(8, 4 * asked),
                       application=1 + random.integers(2, size=jobs), application_names=SITE.labels)


def window(number=0, jobs=120, speeds=SITE):
    work = workload(jobs, number)
    return TraceWindow(Cluster.from_spec("4x8"), work, float(work.submit[jobs // 8]), speeds)


def material(jobs=300, hours=3.5):
    """A history of some days."""
    return Material("made-up.csv", Cluster.from_spec("4x8"), workload(jobs, hours=hours), speeds=SITE)


def config(folder, **changes):
    return replace(TrainingConfig(window, [window(100), window(101)], INCUMBENT, 0, 3600.0, folder), **changes)

"""Made-up work for the arena of fungible jobs, and what must hold in each of its rounds."""

import numpy as np

from idlewatt.daemon.agents.maifs.arena import Trace, site_of
from idlewatt.daemon.replay.fungible import MODELS

SITE = site_of(4)
ALEXNET, RESNET18, GNMT = (MODELS.index(model) for model in ("alexnet", "resnet18", "gnmt"))


def trace(*jobs):
    """Return jobs of (submit, work, GPUs, model)."""
    submit, work, gpus, model = zip(*jobs, strict=True)
    return Trace(np.array(submit, float), np.array(work, float), np.array(gpus), np.array(model))


def drawn(seed, jobs=40, most=17):
    draw = np.random.default_rng(seed)
    return Trace(np.sort(draw.uniform(0, 20_000, jobs)), draw.uniform(60, 20_000, jobs),
                 draw.choice([1, 1, 1, 2, 3, 4, 5, 8, 9, most], jobs), draw.integers(0, len(MODELS), jobs))


def check(round):
    """Assert that nobody has what somebody else has, and that what is free is what is left."""
    site, jobs, nodes = round.site, round.jobs, round.nodes
    taken = np.zeros_like(nodes.free)
    for job in round.live[jobs.node[round.live] >= 0].tolist():
        if jobs.gpus[job] > site.size:
            own = nodes.owner == job
            assert own.sum() == -(-jobs.gpus[job] // site.size)
            taken[own] += (site.size, site.shares, site.shares)
        else:
            assert jobs.cpus[job] >= 1
            assert jobs.memory[job] >= 1
            taken[jobs.node[job]] += (jobs.gpus[job], jobs.cpus[job], jobs.memory[job])
    assert (nodes.free >= 0).all()
    assert (taken + nodes.free == (site.size, site.shares, site.shares)).all()

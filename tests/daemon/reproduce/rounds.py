"""Made-up work for the arena of fungible jobs, and what must hold in each of its rounds."""

import gzip

import numpy as np

from idlewatt.daemon.reproduce.maifs.arena import ArenaTrace, site_of
from idlewatt.daemon.reproduce.maifs.models import MODELS

SITE = site_of(4)
ALEXNET, RESNET18, RESNET50, GNMT = (MODELS.index(model) for model in ("alexnet", "resnet18", "resnet50", "gnmt"))


def trace(*jobs):
    """Return jobs of (submit, work, GPUs, model)."""
    submit, work, gpus, model = zip(*jobs, strict=True)
    return ArenaTrace(np.array(submit, float), np.array(work, float), np.array(gpus), np.array(model))


def drawn(seed, jobs=40, most=17):
    draw = np.random.default_rng(seed)
    return ArenaTrace(np.sort(draw.uniform(0, 20_000, jobs)), draw.uniform(60, 20_000, jobs),
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


def write_traces(folder, *, days=(131, 26), helios_each=20):
    """Write a Philly and a Helios of few, large jobs under the names that the packaged ones have.

    Jobs of later days than ``days`` are left out; the rest is the same.
    """
    draw = np.random.default_rng(0)
    (folder / "philly").mkdir()
    (folder / "helios_venus").mkdir()
    rows = [f"{number},2017-08-14 23:27:00,{second},{gpus},{run},,{'0e4a51' if number % 40 == 0 else ''},"
            for number, (second, gpus, run) in enumerate(_jobs(draw, 131, 40)) if second < days[0] * 86400]
    with gzip.open(folder / "philly/philly_jobs.csv.gz", "wt") as file:
        file.write("\n".join(["job,submit,submit_s,gpus,run_s,run2_s,vc,vc_src", *rows]) + "\n")
    head = ("job_id,user,tenant,class,submit_time,num_chips,chip_type,num_nodes,duration_s,walltime_limit_s,"
            "final_status")
    rows = [f"{number},u,vcvGl,c,{int(second * 1e6)},{gpus},,{-(-gpus // 8)},{run},{run},COMPLETED"
            for number, (second, gpus, run) in enumerate(_jobs(draw, 26, helios_each)) if second < days[1] * 86400]
    (folder / "helios_venus/helios_venus_2vc_sept.csv").write_text("\n".join([head, *rows]) + "\n")
    return folder


def _jobs(draw, days, each):
    """Yield (submit, GPUs, run time), the first at once, then so many each day."""
    for second in np.sort(np.append(draw.uniform(0, days * 86400, days * each), 0.0)).tolist():
        yield int(second), int(draw.choice([4, 8, 16])), int(draw.uniform(20_000, 200_000))

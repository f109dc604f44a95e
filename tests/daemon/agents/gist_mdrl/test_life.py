"""GIST from training to demotion on more servers than the paper's, unequal ones, by the rules for every agent."""

import numpy as np
from life import FALLBACK, Life

from idlewatt.daemon.agents.histories import DAY_S, Material
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot

NOW_S, INCUMBENT = 1.8e9, "fifo+first-fit+easy"
SIZES = {"l": (12, 8), "s": (10, 4)}


def material(days=16, jobs=420):
    random = np.random.default_rng(0)
    submit, ran = np.sort(random.uniform(0, days * DAY_S, jobs)), random.lognormal(np.log(8 * 3600), 1.0, jobs)
    return Material("made-up.csv", Cluster.from_mapping({"nodes": [
        {"name": name, "count": count, "gpus": gpus, "partitions": ["gpu"]} for name, (count, gpus) in SIZES.items()]}),
        Workload.of(submit, ran, random.choice([1, 2, 4, 8], jobs), limit=2 * ran, partition=["gpu"] * jobs))


def snapshot(more=0):
    """Three jobs wait on those nodes, and on some more of 16 GPUs."""
    sizes = {**SIZES, "x": (more, 16)}
    nodes = tuple(Node(f"{name}{node:02d}", ("gpu",), gpus) for name, (count, gpus) in sizes.items()
                  for node in range(count))
    jobs = tuple(Job(str(number), NOW_S - 600 + number, JobState.PENDING, "gpu", Request(gpus), limit_s=4 * 3600.0)
                 for number, gpus in enumerate((8, 2, 4), 1))
    return SchedulerSnapshot(NOW_S, nodes, (Partition("gpu", tuple(node.name for node in nodes)),), jobs)


def test_it_is_trained_listened_to_promoted_advises_abstains_and_is_demoted(tmp_path):
    life = Life(tmp_path, "gist_mdrl")
    verdict = life.train(material(), INCUMBENT, steps=2)
    assert {row.policy for row in verdict.rows} >= {life.name, INCUMBENT, "random-feasible"}, verdict
    observed = snapshot()
    assert life.name in life.run("models")
    assert life.advise(observed).active == FALLBACK
    life.promote()
    advice = life.advise(observed)
    assert advice.active == life.name, advice.model_results
    own = [row for row in advice.recommendations if row.policy == life.name]
    assert any(row.action == "start" and row.placement.nodes[0][0] in SIZES for row in own)
    silent = life.advise(snapshot(more=2))
    assert silent.active == FALLBACK
    assert silent.model_results[0].cause == "doubt"
    assert "24 servers of up to 16 GPUs; trained on 22 of up to 8" in silent.model_results[0].reason
    life.run("demote", life.name, "--reason", "large jobs wait")
    after = life.advise(observed)
    assert after.active == FALLBACK
    assert life.name in {row.policy for row in after.recommendations if row.shadow}

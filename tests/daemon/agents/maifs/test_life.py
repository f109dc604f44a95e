"""MAIFS from training to demotion, by the rules that hold for every agent; live it tells what to ask for."""

import dataclasses

import fungible
from life import FALLBACK, Life

from idlewatt.daemon.agents.checkpoint import write_card
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot

NOW_S, GIB = 1.8e9, 1 << 30


def snapshot(*names):
    """Two empty nodes; jobs of two GPUs that ask for more CPUs than there are together wait, a group by its name."""
    nodes = tuple(Node(f"n{node}", ("gpu",), 8, cpus=32, memory_bytes=512 * GIB) for node in range(2))
    jobs = tuple(Job(str(number), NOW_S - 600 + number, JobState.PENDING, "gpu",
                     Request(2, cpus=24 if name == "bert" else 4, memory_bytes=80 * GIB), name=name,
                     limit_s=4 * 3600.0) for number, name in enumerate(names, 1))
    return SchedulerSnapshot(NOW_S, nodes, (Partition("gpu", ("n0", "n1")),), jobs)


def test_it_is_trained_listened_to_promoted_advises_abstains_and_is_demoted(tmp_path):
    life = Life(tmp_path, "maifs")
    verdict = life.train(fungible.material(), fungible.INCUMBENT, steps=1)
    assert {row.policy for row in verdict.rows} >= {life.name, fungible.INCUMBENT, "random-feasible",
                                                    "sjf-oracle+best-fit+easy"}
    model = life.store.find(life.name)
    assert {"objective_by_actor_critic", "objective_by_evolution", "days"} <= set(model.card.metrics)
    write_card(model.folder, dataclasses.replace(model.card, seen={"nodes": (4.0, 4.0)}))
    observed = snapshot("bert", "bert", "bert", "imagenet")
    assert life.advise(observed).active == FALLBACK
    life.promote()
    advice = life.advise(observed)
    assert advice.active == life.name, advice.model_results
    starts = {row.job_id: row for row in advice.recommendations if not row.shadow and row.action == "start"}
    assert set(starts) == {"1", "2", "3", "4"}  # as they ask, two of the three large ones fit
    assert sum(row.command == "" for row in starts.values()) >= 2
    other = [row for job, row in starts.items() if row.command == "" and job != "4"]
    assert all("--cpus-per-gpu=" in row.reason and "in place of 12" in row.reason for row in other)
    assert "it asks for 12 CPUs for each GPU, and its like use 2" in starts["1"].reasons
    for silent, message in ((life.advise(snapshot("gpt", "gpt")), "jobs of no known group"),
                            (life.advise(observed, FLAT_SPEEDS), "jobs of no known group")):
        assert silent.active == FALLBACK
        assert silent.model_results[0].reason == f"the speed of {message} by CPUs is not known"
    life.run("demote", life.name, "--reason", "data loaders starve")
    assert life.advise(observed).active == FALLBACK

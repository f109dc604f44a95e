"""DL2 from training to demotion, by the rules that hold for every agent; live it moulds jobs that wait."""

import dataclasses

import resizable
from life import FALLBACK, Life

from idlewatt.daemon.agents.checkpoint import write_card
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot

NOW_S = 1.8e9


def snapshot(*names):
    """Two empty nodes; jobs that ask for four GPUs wait, a group by its name."""
    nodes = tuple(Node(f"n{node}", ("gpu",), 8, cpus=64) for node in range(2))
    jobs = tuple(Job(str(number), NOW_S - 600 + number, JobState.PENDING, "gpu", Request(4, cpus=16), name=name,
                     limit_s=4 * 3600.0) for number, name in enumerate(names, 1))
    return SchedulerSnapshot(NOW_S, nodes, (Partition("gpu", ("n0", "n1")),), jobs)


def test_it_is_trained_listened_to_promoted_moulds_jobs_abstains_and_is_demoted(tmp_path):
    life = Life(tmp_path, "dl2")
    verdict = life.train(resizable.material(), resizable.INCUMBENT, steps=1)
    assert {row.policy for row in verdict.rows} >= {life.name, resizable.INCUMBENT, "random-feasible",
                                                    "sjf-oracle+best-fit+easy"}
    model = life.store.find(life.name)
    write_card(model.folder, dataclasses.replace(model.card, seen={"nodes": (4.0, 4.0)}))
    observed = snapshot("bert", "ncf")
    assert life.advise(observed).active == FALLBACK
    life.promote()
    advice = life.advise(observed)
    assert advice.active == life.name, advice.model_results
    starts = {row.job_id: row for row in advice.recommendations if not row.shadow and row.action == "start"}
    sizes = {job: sum(row.placement.gpus) for job, row in starts.items()}
    assert set(sizes) == {"1", "2"}
    assert all(1 <= size <= 8 for size in sizes.values())
    assert any(size != 4 for size in sizes.values())
    for job, row in starts.items():
        assert (row.command == "") == (sizes[job] != 4)
        assert ("submit it again" in row.reason) == (sizes[job] != 4)
        assert any("times as fast" in text for text in row.reasons)
    for silent, message in ((life.advise(snapshot("gpt", "gpt")), "jobs of no known group"),
                            (life.advise(observed, FLAT_SPEEDS), "jobs of no known group")):
        assert silent.active == FALLBACK
        assert silent.model_results[0].reason == f"the speed of {message} on other numbers of GPUs is not known"
    life.run("demote", life.name, "--reason", "too many small jobs")
    assert life.advise(observed).active == FALLBACK

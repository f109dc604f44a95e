"""The scorer from training to demotion, by the rules that hold for every agent."""

import dataclasses

from life import FALLBACK, Life
from sites import site

from idlewatt.daemon.agents.checkpoint import write_card
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot

NOW_S, INCUMBENT = 1.8e9, "fifo+first-fit+easy"


def snapshot(nodes=2, *, limit_s=4 * 3600.0):
    """Some nodes, and jobs of four GPUs that wait, of which the longest may take ``limit_s`` and the next a tenth."""
    known = tuple(Node(f"n{node}", ("gpu",), 8, cpus=64) for node in range(nodes))
    jobs = tuple(Job(str(number), NOW_S - 600 + number, JobState.PENDING, "gpu", Request(4, cpus=16), "user1",
                     name="train", limit_s=limit_s / 10.0 ** (3 - number)) for number in range(1, 4))
    return SchedulerSnapshot(NOW_S, known, (Partition("gpu", tuple(node.name for node in known)),), jobs)


def test_it_is_trained_listened_to_promoted_advises_abstains_and_is_demoted(tmp_path):
    life = Life(tmp_path, "scorer")
    verdict = life.train(site(days=12, jobs=1000), INCUMBENT, steps=1)
    assert verdict.model == life.name
    assert {row.policy for row in verdict.rows} >= {life.name, INCUMBENT, "random-feasible", "sjf-oracle+best-fit+easy"}
    card = life.store.find(life.name).card
    assert card.seen["nodes"] == (4.0, 4.0)
    # The made-up site has no queue like this one; what a limit may be it keeps.
    seen = {name: (-1e9, 1e9) for name in card.seen if name != "requested limit"}
    write_card(life.store.find(life.name).folder, dataclasses.replace(card, seen=card.seen | seen | {"nodes": (4, 4)}))
    waiting = snapshot()
    assert life.name in life.run("models")
    assert life.advise(waiting).active == FALLBACK
    life.promote()
    advice = life.advise(waiting)
    assert advice.active == life.name, advice.model_results
    starts = [row for row in advice.recommendations if row.policy == life.name and row.action == "start"]
    assert {row.job_id for row in starts} == {"1", "2", "3"}
    assert all(row.command for row in starts)
    for silent, message in ((life.advise(snapshot(1)), "1 nodes are open; trained on 4 to 4"),
                            (life.advise(snapshot(limit_s=3600.0 * 24 * 3000)), "unlike those it was trained on")):
        assert silent.active == FALLBACK
        assert silent.model_results[0].cause == "doubt"
        assert message in silent.model_results[0].reason
    life.run("demote", life.name, "--reason", "short jobs wait")
    after = life.advise(waiting)
    assert after.active == FALLBACK
    assert life.name in {row.policy for row in after.recommendations if row.shadow}  # it is still listened to

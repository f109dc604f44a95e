"""TopDRL from training to demotion, by the rules that hold for every agent."""

import dataclasses

import distant
from life import FALLBACK, Life

from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot

NOW_S = 1.8e9


def snapshot(*names):
    """Two leaves of three nodes; jobs of two nodes wait, a group by its name."""
    nodes = tuple(Node(f"n{node}", ("gpu",), 4, leaf=f"l{node // 3}", spine="s") for node in range(6))
    jobs = tuple(Job(str(number), NOW_S - 600 + number, JobState.PENDING, "gpu", Request(8, 2, gpus_per_node=4),
                     name=name, limit_s=4 * 3600.0) for number, name in enumerate(names, 1))
    return SchedulerSnapshot(NOW_S, nodes, (Partition("gpu", tuple(node.name for node in nodes)),), jobs)


def test_it_is_trained_listened_to_promoted_advises_abstains_and_is_demoted(tmp_path):
    life = Life(tmp_path, "topdrl")
    verdict = life.train(distant.material(), distant.INCUMBENT, steps=2)
    assert verdict.model == life.name
    assert {row.policy for row in verdict.rows} >= {life.name, distant.INCUMBENT, "random-feasible",
                                                    "sjf-oracle+best-fit+easy"}
    card = life.store.find(life.name).card
    _widened(life, card)
    observed = snapshot("bert", "bert")
    assert life.name in life.run("models")
    assert life.advise(observed).active == FALLBACK
    life.promote()
    advice = life.advise(observed)
    assert advice.active == life.name, advice.model_results
    starts = [row for row in advice.recommendations if row.policy == life.name and row.action == "start"]
    assert [len(row.placement.nodes) for row in starts] == [2, 2]
    assert all(len({int(node[1:]) // 3 for node in row.placement.nodes}) == 1 for row in starts)
    assert {row.instead.policy for row in starts} == {FALLBACK}
    for silent in (life.advise(snapshot("gpt", "gpt")), life.advise(observed, FLAT_SPEEDS)):
        assert silent.active == FALLBACK
        assert silent.model_results[0].cause == "doubt"
        assert silent.model_results[0].reason.endswith("when scattered is not known")
    life.run("demote", life.name, "--reason", "large jobs wait")
    after = life.advise(observed)
    assert after.active == FALLBACK
    assert life.name in {row.policy for row in after.recommendations if row.shadow}  # it is still listened to


def _widened(life, card):
    """Let the card say that it has seen any job: the made-up site has none that wait for minutes."""
    from idlewatt.daemon.agents.checkpoint import write_card

    seen = dict.fromkeys(card.seen, (-1e9, 1e9)) | {"nodes": card.seen["nodes"]}
    write_card(life.store.find(life.name).folder, dataclasses.replace(card, seen=seen))

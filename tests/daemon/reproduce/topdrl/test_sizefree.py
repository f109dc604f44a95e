"""The size-free agent learns, the same way each time, goes on where it was left, and comes back from disk."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from idlewatt.daemon.agents import checkpoint
from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.reproduce.evolution import card_of, train
from idlewatt.daemon.reproduce.topdrl.arena import MIXES, made_up, outcome
from idlewatt.daemon.reproduce.topdrl.sizefree import kernel
from idlewatt.daemon.reproduce.topdrl.sizefree.agent import SCHEMA, SizeFree
from idlewatt.daemon.reproduce.topdrl.sizefree.network import initial
from idlewatt.daemon.reproduce.topdrl.sizefree.train import QueueBench, evolution_config

SHORT, BENCH = replace(evolution_config(1, 4), pairs=3, at_once=2, pool=4, chosen_every=2), QueueBench(pool=4, judges=4)


def test_a_training_never_ends_worse_than_it_began_and_leaves_the_first_layers_as_they_were():
    steps = list(train(SHORT, BENCH))
    assert [step.round for step in steps] == [0, 2, 4]
    assert steps[0].score == 0.0
    least = min(steps, key=lambda step: step.score)
    assert np.array_equal(steps[-1].best, least.best)
    changed = BENCH.agent(steps[-1].best).weights != initial(1)
    assert not changed[:kernel.OUT].any()
    assert changed[kernel.OUT:].all()


def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(tmp_path):
    whole = list(train(SHORT, BENCH))[-1]
    list(islice(train(SHORT, BENCH, tmp_path), 2))
    resumed = list(train(SHORT, BENCH, tmp_path))
    assert [step.round for step in resumed] == [2, 4]
    assert np.array_equal(resumed[-1].best, whole.best)
    with pytest.raises(CheckpointError, match="other settings"):
        next(train(SHORT, replace(BENCH, throughput=2.0), tmp_path))


def test_an_agent_is_kept_whole_with_its_card(tmp_path):
    step = next(train(SHORT, BENCH))
    agent = BENCH.agent(step.best)
    card = agent.save(tmp_path, card_of("topdrl", SHORT, step, "worth_log", "made up"))
    assert card.metrics == {"worth_log": 0.0}
    kept, _ = checkpoint.load(tmp_path, SCHEMA, like={"scorer": initial(0)})
    assert np.array_equal(kept["scorer"], agent.weights)


@pytest.mark.parametrize("gpus", [16, 64, 256])
def test_the_same_weights_serve_clusters_of_any_size(gpus):
    drawn = made_up(4, 0, gpus, MIXES[1])
    agent = SizeFree()
    found = outcome(drawn, agent.replay(drawn))
    assert agent.decisions >= len(drawn.jobs.submit)
    assert 0 < found.throughput <= 1
    assert found.jct_s < np.inf


def test_an_agent_whose_gates_are_all_closed_still_ends_every_job():
    never = initial(0)
    never[kernel.LINEAR + kernel.ALL:] = 0.0
    never[-1] = -1.0
    drawn = made_up(4, 1, 16, MIXES[0])
    jobs = SizeFree(never).replay(drawn)
    assert np.isfinite(jobs.end).all()
    alone = np.sort(jobs.start)
    assert (alone[1:] >= np.sort(jobs.end)[:-1] - 1e-6).all()  # one after the other


def test_the_inputs_do_not_depend_on_the_order_of_leaf_switches():
    drawn = made_up(5, 0, 64, MIXES[0])
    _, cluster = drawn.begin()
    draw = np.random.default_rng(1)
    free = draw.integers(0, 5, (4, 4))
    seen = []
    for leaves in ((0, 1, 2, 3), (2, 0, 3, 1)):
        cluster.free[:] = free[list(leaves)].ravel()
        kernel.look_at_leaves(drawn.site, cluster, initial(3))
        seen.append(cluster.seen[len(kernel.INPUTS):kernel.ALL].copy())
    assert seen[0] == pytest.approx(seen[1])

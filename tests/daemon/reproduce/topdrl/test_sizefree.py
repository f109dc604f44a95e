"""The size-free agent learns, the same way each time, goes on where it was left, and comes back from disk."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from idlewatt.daemon.agents.checkpoint import WEIGHTS, CheckpointError
from idlewatt.daemon.reproduce.topdrl.arena import MIXES, made_up, outcome
from idlewatt.daemon.reproduce.topdrl.sizefree import kernel
from idlewatt.daemon.reproduce.topdrl.sizefree.agent import SizeFree
from idlewatt.daemon.reproduce.topdrl.sizefree.network import initial
from idlewatt.daemon.reproduce.topdrl.sizefree.train import QueueTrainingConfig, card_of, train

SHORT = QueueTrainingConfig(rounds=4, pairs=3, at_once=2, pool=4, chosen_by=4, chosen_every=2)


def test_a_training_never_ends_worse_than_it_began():
    steps = list(train(SHORT))
    assert [step.round for step in steps] == [0, 2, 4]
    assert steps[0].worth == 0.0
    assert [number for number, _ in steps[-1].curve] == [0, 2, 4]
    least = min(steps, key=lambda step: step.worth)
    assert np.array_equal(steps[-1].best, least.best)


def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(tmp_path):
    whole = list(train(SHORT))[-1]
    list(islice(train(SHORT, tmp_path), 2))
    resumed = list(train(SHORT, tmp_path))
    assert [step.round for step in resumed] == [2, 4]
    assert np.array_equal(resumed[-1].best, whole.best)
    assert resumed[-1].curve == whole.curve
    assert [step.round for step in train(SHORT, tmp_path)] == [4]
    with pytest.raises(CheckpointError, match="other settings"):
        next(train(replace(SHORT, noise=0.3), tmp_path))


def test_an_agent_comes_back_from_disk(tmp_path):
    step = next(train(SHORT))
    card = SizeFree(step.best).save(tmp_path, card_of(SHORT, step))
    assert card.metrics == {"worth_log": 0.0}
    assert np.array_equal(SizeFree.load(tmp_path).weights, step.best.astype(np.float64))
    (tmp_path / WEIGHTS).write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="digest differs"):
        SizeFree.load(tmp_path)


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


def test_leaves_are_seen_as_a_whole_whatever_their_order():
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

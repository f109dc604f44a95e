"""The literal network: numpy and torch agree, it learns from rewards of throughput, and knows one cluster only."""

import math

import numpy as np
import pytest
import torch

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.reproduce.topdrl import orders
from idlewatt.daemon.reproduce.topdrl.arena import MIXES, made_up, outcome
from idlewatt.daemon.reproduce.topdrl.literal import network
from idlewatt.daemon.reproduce.topdrl.literal.agent import WAIT, ActionEpisode, Literal, play
from idlewatt.daemon.reproduce.topdrl.literal.train import (
    CanvasLearner,
    CanvasTrainingConfig,
    Seat,
    advantages,
    card_of,
    episodes,
    rule,
    train,
)
from idlewatt.daemon.reproduce.topdrl.orders import CLOSE, Rule
from idlewatt.daemon.reproduce.topdrl.trial import by_rule

torch.set_num_threads(1)  # more of them only wait for each other on networks so small
SHORT = CanvasTrainingConfig(lessons=1, epochs=1, rounds=2, values_first=1, tables=2, steps=8, chosen_by=1,
                             chosen_every=1)


def views(count):
    table, found = ActionEpisode(made_up(1, 0, 64, MIXES[0])), []
    while len(found) < count:
        found.append(table.view())
        table.act(rule(found[-1]))
    return found


def test_numpy_acts_as_torch_was_trained():
    weights = {name: np.random.default_rng(1).standard_normal(array.shape).astype(np.float32) * 0.2
               for name, array in network.initial(0).items()}
    columns = [np.stack(column) for column in zip(*views(40), strict=True)][:3]
    ours = network.forward(weights, *columns)
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    theirs = network.forward(tensors, *map(torch.from_numpy, columns))
    for logits, expected in zip(ours, theirs, strict=True):
        assert np.abs(logits).max() > 0.1
        assert logits == pytest.approx(expected.numpy(), abs=1e-5)


def test_the_agent_takes_only_open_actions():
    drawn = made_up(2, 0, 64, MIXES[1])
    seen = []

    def watched(view):
        action = Literal().act(view)
        seen.append(view.open[action])
        return action

    jobs = play(drawn, watched)
    assert all(seen)
    assert np.isfinite(jobs.end).all()
    assert (jobs.start >= jobs.submit).all()


def test_the_imitated_rule_is_the_best_known_rule():
    drawn = made_up(3, 0, 64, MIXES[0])
    theirs = by_rule(Rule(orders.SJF_NOW, least=CLOSE))(drawn)
    assert outcome(drawn, play(drawn, rule)).jct_s == pytest.approx(outcome(drawn, theirs).jct_s, rel=0.05)


def test_the_canvas_shows_free_gpus_and_the_remaining_time_of_the_others():
    table = ActionEpisode(made_up(1, 0, 64, MIXES[0]))
    assert table.view().canvas[:, :4].sum() == 64
    assert not table.view().open[WAIT]  # nothing runs: there is nothing to wait for
    taken = int(table.jobs.gpus[table.cluster.queue[0]])
    table.act(0)
    view = table.view()
    assert view.canvas[:, :4].sum() == 64 - taken
    assert (view.canvas[:, 4:] > 0).sum() == taken


def test_another_cluster_is_refused():
    with pytest.raises(ValueError, match="64 GPUs with 4 nodes on a leaf"):
        ActionEpisode(made_up(1, 0, 128, MIXES[0]))


def test_a_training_keeps_the_best_and_is_repeatable(tmp_path):
    steps, again = list(train(SHORT)), list(train(SHORT))
    assert [step.round for step in steps] == [0, 1, 2]
    assert [step.worth for step in steps] == [step.worth for step in again]
    least = min(steps, key=lambda step: step.worth)
    assert all(np.array_equal(array, least.best[name]) for name, array in steps[-1].best.items())
    Literal(steps[-1].best).save(tmp_path, card_of(SHORT, steps))
    assert np.array_equal(Literal.load(tmp_path).weights["job.weight"], steps[-1].best["job.weight"])
    (tmp_path / "weights.safetensors").write_bytes(b"cut")
    with pytest.raises(CheckpointError):
        Literal.load(tmp_path)


def test_imitation_reproduces_the_teachers_actions():
    shown = views(60)
    actions = [rule(view) for view in shown]
    learner = CanvasLearner(CanvasTrainingConfig(epochs=25, batch=20, rate=1e-3))
    learner.imitate(shown, actions)
    agent = Literal(learner.weights)
    assert np.mean([agent.act(view) == action for view, action in zip(shown, actions, strict=True)]) > 0.9


def test_rewards_add_up_to_the_work_done_less_the_waiting():
    config = CanvasTrainingConfig(waiting=2.0, tables=1)
    seat = Seat(config, 0)
    jobs, earned = seat.table.jobs, 0.0
    while (table := seat.table).jobs is jobs:
        earned += seat.act(rule(table.view()))[0]
    hours = (jobs.run.sum() - 2.0 * (jobs.start - jobs.submit).sum()) / 3600.0
    assert earned == pytest.approx(hours / 64 / config.horizon_h, rel=0.02)


def test_advantages_look_as_far_ahead_as_discounts_allow():
    reward, discount = np.array([[0.0], [1.0], [5.0]]), np.array([[0.5], [0.0], [1.0]])
    found = advantages(reward, discount, np.zeros((4, 1)), 1.0)
    assert found[:, 0].tolist() == [0.5, 1.0, 5.0]  # the second step ended an episode


def test_a_loss_that_is_not_finite_is_an_error():
    learner = CanvasLearner(SHORT)
    with pytest.raises(FloatingPointError, match="lower rate"):
        learner._step(torch.tensor(math.nan, requires_grad=True), ())


def test_training_episodes_have_both_mixes_of_jobs():
    assert {drawn.mix for drawn in episodes(1, 4)} == set(MIXES)

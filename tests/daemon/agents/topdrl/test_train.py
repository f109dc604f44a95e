"""Training: as the best known rule at first, the same again by steps, on from where it was, clear about what is not."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from distant import HOUR_S, config, window
from scipy.optimize import check_grad

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.agents.choice import Choices, Net, loss
from idlewatt.daemon.agents.episodes import episode_of
from idlewatt.daemon.agents.kinds import TrainingError, kinds
from idlewatt.daemon.agents.policy_gradient import recorded
from idlewatt.daemon.agents.topdrl.train import RULES, SPEC, train
from idlewatt.daemon.agents.training_loop import STATE, TrainingEnvironment
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS


@pytest.mark.long
def test_it_becomes_better_than_the_incumbent_and_its_card_says_so(trained):
    folder, progress = trained
    assert progress[-1].done == 1.0
    assert progress[-1].score < 0.95
    card = kinds()["topdrl"].load(folder / "best").card
    assert card.metrics["objective_select"] == pytest.approx(progress[-1].score, rel=0.02)
    assert card.metrics["imitation_top1"] > 0.8
    assert card.seen["nodes"] == (9.0, 9.0)


@pytest.mark.long
def test_so_many_steps_give_the_same_weights_twice_interrupted_or_not(trained, tmp_path):
    again = config(tmp_path, steps=4)
    list(itertools.islice(train(again), 2))
    list(train(again))
    ours, theirs = (kinds()["topdrl"].load(folder / "best").weights for folder in (trained[0], tmp_path))
    assert np.array_equal(ours, theirs)


@pytest.mark.long
def test_a_training_that_is_done_has_nothing_left_to_do(trained):
    assert list(train(config(trained[0], steps=4))) == []


@pytest.mark.long
def test_another_training_does_not_go_on_in_the_same_folder(trained):
    with pytest.raises(CheckpointError, match="move it away"):
        next(train(config(trained[0], seed=1, steps=9)))


def test_a_damaged_unfinished_training_is_refused_by_name(tmp_path):
    (tmp_path / STATE).write_bytes(b"half a file")
    with pytest.raises(CheckpointError, match=STATE):
        next(train(config(tmp_path, steps=1)))


def test_a_history_whose_speeds_nobody_knows_is_refused(tmp_path):
    flat = config(tmp_path, fit=lambda number: window(number, speeds=FLAT_SPEEDS))
    with pytest.raises(TrainingError, match="when scattered is known"):
        next(train(flat))


@pytest.mark.long
def test_it_sets_out_from_a_model_where_that_is_better(trained, tmp_path):
    begun = next(train(config(tmp_path, steps=1, start=trained[0] / "best")))
    assert begun.score <= trained[1][0].score


def test_what_a_decision_cost_later_adds_up_to_what_the_replay_cost():
    episode = episode_of(window(), "fifo+first-fit+easy", config(None).objective, np.random.default_rng(0))
    done = episode.window.replayed(named("fifo+first-fit+easy"))
    assert episode.cost(done) == pytest.approx(1.0)
    whole = replace(episode, horizon_s=1e12).later(done, np.array([-1e9, 1e12]))
    assert whole == pytest.approx([1.0, 0.0])
    begun = episode.window.workload.submit[-1] + HOUR_S
    assert 0.0 <= episode.later(done, np.array([begun]))[0] <= 1.0


def test_waiting_for_closer_places_is_a_rule_of_its_own(tmp_path):
    environment = TrainingEnvironment(SPEC, config(tmp_path))
    episode = environment.episode(0)
    starts = {name: recorded(SPEC, environment, episode, rule).done.start for name, rule in RULES.items()}
    assert not np.array_equal(starts["sjf"], starts["sjf-close"])


def test_the_gradient_of_the_loss_is_that_of_differences():
    random, net = np.random.default_rng(0), Net(5, 3)
    choices = Choices.of([(random.normal(size=(count, 5)), count - 1) for count in (2, 4, 3)])
    worth, weights = random.normal(size=3), random.normal(size=net.size)
    assert check_grad(lambda x: loss(net, x, choices, worth, 0.1)[0], lambda x: loss(net, x, choices, worth, 0.1)[1],
                      weights) < 1e-5

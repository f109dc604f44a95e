"""MAIFS' training: better than the incumbent, the same again by steps, both ways of learning told, clear refusals."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from fungible import INCUMBENT, config, window

from idlewatt.daemon.agents.kinds import TrainingError, kinds
from idlewatt.daemon.agents.maifs import train as training
from idlewatt.daemon.agents.maifs.agent import Maifs
from idlewatt.daemon.agents.maifs.network import SIZE, forward, initial, unpacked
from idlewatt.daemon.agents.maifs.teachers import ORDERS, TEACHERS
from idlewatt.daemon.agents.maifs.train import train
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS
from idlewatt.storage.records import ModelCard


@pytest.mark.long
def test_it_becomes_better_than_the_incumbent_and_its_card_tells_both_ways_of_learning(trained):
    folder, progress = trained
    assert progress[-1].done == 1.0
    assert progress[-1].score < 0.9
    metrics = kinds()["maifs"].load(folder / "best").card.metrics
    assert metrics["imitation_top1"] > 0.6
    assert metrics["objective_select"] == min(metrics["objective_by_actor_critic"], metrics["objective_by_evolution"])


@pytest.mark.long
def test_so_many_steps_give_the_same_weights_twice_interrupted_or_not(trained, tmp_path):
    again = config(tmp_path, steps=2)
    list(itertools.islice(train(again), 1))
    list(train(again))
    ours, theirs = (kinds()["maifs"].load(folder / "best").weights for folder in (trained[0], tmp_path))
    assert np.array_equal(ours, theirs)


def test_history_in_which_no_use_of_cpus_is_known_is_refused(tmp_path):
    with pytest.raises(TrainingError, match="by CPUs or memory is known"):
        next(train(config(tmp_path, fit=lambda number: replace(window(number), speeds=FLAT_SPEEDS))))


def test_numpy_and_torch_run_the_same_network():
    random = np.random.default_rng(0)
    flat = initial(random) + 0.1 * random.standard_normal(SIZE)
    node_inputs, actions, present = random.standard_normal((5, 6)), random.standard_normal((5, 12, 17)), np.ones(5)
    ours = forward(unpacked(flat), node_inputs, actions, present)
    tensors = [torch.from_numpy(part) for part in (node_inputs, actions, present)]
    theirs = forward(unpacked(torch.from_numpy(flat)), *tensors)
    assert all(np.allclose(one, other.numpy()) for one, other in zip(ours, theirs, strict=True))


def test_what_jobs_use_and_not_what_they_ask_for_is_worth_more_than_any_order_alone():
    episode, card = window(3), ModelCard("maifs", "1", 1e9, 0, "0.1.0", "", "", kind="maifs")
    weights = np.concatenate([ORDERS["sjf"], np.zeros(SIZE - 3)])
    jct = {name: float(np.nanmean(episode.replayed(Maifs(weights, card, decide=teacher)).end - episode.workload.submit))
           for name, teacher in TEACHERS.items()}
    plain = float(np.nanmean(episode.replayed(named(INCUMBENT)).end - episode.workload.submit))
    assert jct["synergy-tune"] < jct["as asked"] < plain


def test_the_likelihood_of_a_joint_action_falls_where_two_agents_want_one_job():
    episode = training.TrainingEnvironment(training.SPEC, config("")).episode(0)
    recorder, _ = training._recorded(training.TrainingEnvironment(training.SPEC, config("")), episode, np.zeros(SIZE),
                                     TEACHERS["synergy-tune"], 200)
    joint, actions = next((joint, actions) for joint, actions in recorder.made
                          if joint.able[:, actions.max() - 1].sum() > 1)
    clash = actions.copy()
    clash[np.flatnonzero(joint.able[:, actions.max() - 1])] = actions.max()
    flat = torch.from_numpy(initial(np.random.default_rng(1))).float()
    likelihoods = []
    for choice in (actions, clash):
        batch = training._batch([(joint, choice)])
        odds, _ = training._conditionals(flat, batch, training._edges(flat, batch))
        likelihoods.append(float(training._likelihood(odds, batch)))
    assert likelihoods[1] < likelihoods[0] - 10

"""Algorithm 1 at work, on a few episodes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.agents.gist_mdrl.agent import IMPROVED, LITERAL, AgentChanges, Hyperparameters
from idlewatt.daemon.agents.gist_mdrl.environment import A100, Environment, play
from idlewatt.daemon.agents.gist_mdrl.train import TRAINING, DeepQ, PartitionTraining
from idlewatt.daemon.agents.memory import TransitionBatch

SMALL = Hyperparameters(hidden=(8,), batch=8, warm_up=8, memory=100, target_period=5, exploration_episodes=10)


def utilizations(training, episodes):
    return [episode.outcome.utilization for episode in itertools.islice(training.run(), episodes)]


def batch(**columns):
    whole = {"state": np.ones((1, 2), np.float32), "action": np.array([0]), "reward": np.array([1.0], np.float32),
             "discount": np.array([0.5], np.float32), "next_state": np.ones((1, 2), np.float32),
             "next_allowed": np.array([[True, True, False]])}
    return TransitionBatch(**whole | columns)


def deep_q(*, double):
    weights = {"q.weight": np.zeros((2, 3), np.float32), "q.bias": np.array([0.0, 2.0, 9.0], np.float32)}
    learner = DeepQ(weights, replace(SMALL, target_period=1000), double=double)
    learner.target["q.bias"][:] = learner.target["q.bias"].new_tensor([4.0, 1.0, 9.0])
    return learner


@pytest.mark.parametrize(("double", "next_value"), [(False, 4.0), (True, 1.0)])
def test_the_target_is_equation_6_over_the_open_actions(double, next_value):
    loss = deep_q(double=double).update(batch())
    assert loss == pytest.approx(1.0 + 0.5 * next_value - 0.5)  # Huber, beyond 1


def test_a_loss_that_is_no_number_stops_the_training():
    with pytest.raises(FloatingPointError, match="learning rate"):
        deep_q(double=False).update(batch(reward=np.array([np.nan], np.float32)))


@pytest.mark.parametrize("options", [LITERAL, IMPROVED, AgentChanges(steps=2, learns_on_dequeue=True)])
def test_the_same_seed_learns_the_same(options):
    one, other = (PartitionTraining(A100, options, SMALL, seed=5) for _ in range(2))
    assert utilizations(one, 20) == utilizations(other, 20)
    assert all((array == other.agent.weights[name]).all() for name, array in one.agent.weights.items())
    assert utilizations(PartitionTraining(A100, options, SMALL, seed=6), 20) != utilizations(
        PartitionTraining(A100, options, SMALL, seed=5), 20)


def test_a_resumed_training_goes_on_as_if_never_interrupted(tmp_path):
    whole, first, second = (PartitionTraining(A100, IMPROVED, SMALL, seed=3) for _ in range(3))
    expected = utilizations(whole, 30)
    begun = utilizations(first, 17)
    first.save(tmp_path)
    second.resume(tmp_path)
    assert begun + utilizations(second, 13) == expected
    assert all((array == second.agent.weights[name]).all() for name, array in whole.agent.weights.items())


def test_a_training_ends_with_its_best_weights_where_its_options_say_so(tmp_path):
    values = replace(SMALL, exploration_episodes=2, tested_every=3)
    training = PartitionTraining(A100, AgentChanges(keeps_best=True), values, seed=1)
    last = PartitionTraining(A100, LITERAL, values, seed=1)
    utilizations(training, 12)
    utilizations(last, 12)
    assert last.conclude() is last.agent
    training.save(tmp_path)
    resumed = PartitionTraining(A100, AgentChanges(keeps_best=True), values, seed=1)
    resumed.resume(tmp_path)
    before = worth(training.agent)
    assert worth(resumed.conclude()) == worth(training.conclude()) >= before == worth(last.agent)


def worth(agent):
    return np.mean([play(Environment(A100), flavors, agent.act).utilization
                    for flavors in itertools.product(range(3), repeat=4)])


def test_another_training_is_not_gone_on_with(tmp_path):
    PartitionTraining(A100, IMPROVED, SMALL, seed=3).save(tmp_path)
    with pytest.raises(CheckpointError, match="other options"):
        PartitionTraining(A100, IMPROVED, SMALL, seed=4).resume(tmp_path)
    (tmp_path / TRAINING).write_bytes(b"\x00" * 20)
    with pytest.raises(CheckpointError, match="not an unfinished training"):
        PartitionTraining(A100, IMPROVED, SMALL, seed=3).resume(tmp_path)
    with pytest.raises(CheckpointError, match="not an unfinished training"):
        PartitionTraining(A100, IMPROVED, SMALL, seed=3).resume(tmp_path / "nowhere")


def test_exploration_falls_and_rewards_hold_the_terminal_u():
    training = PartitionTraining(A100, LITERAL, SMALL, seed=0)
    episodes = list(itertools.islice(training.run(), 12))
    assert episodes[0].exploration == 1.0
    assert episodes[-1].exploration == pytest.approx(0.1)
    assert training.agent.statistics["memory"] == 48


def test_the_papers_agent_learns_something_in_150_episodes():
    training = PartitionTraining(A100, LITERAL, Hyperparameters(exploration_episodes=60), seed=0)
    utilization = utilizations(training, 150)
    assert np.mean(utilization[-50:]) > np.mean(utilization[:50]) + 0.05


def test_each_half_of_the_sequences_can_be_judged_with_weights_chosen_on_the_other():
    values = replace(SMALL, exploration_episodes=2, tested_every=2)
    training = PartitionTraining(A100, AgentChanges(keeps_best=True), values, seed=1)
    met = [[], []]
    for _ in training.run():
        if training.episodes > 2 and training.episodes % 2 == 0:
            worths = [play(Environment(A100), flavors, training.agent.act).utilization
                      for flavors in itertools.product(range(3), repeat=4)]
            for half in (0, 1):
                met[half].append(np.mean(worths[half::2]))
        if training.episodes == 14:
            break
    for half in (0, 1):
        training.agent.weights = training.best_without(half)
        worths = [play(Environment(A100), flavors, training.agent.act).utilization
                  for flavors in itertools.product(range(3), repeat=4)]
        assert np.mean(worths[1 - half::2]) >= max(met[1 - half])

"""What a second in the system costs: something by every objective, so that rules and teachers can be told apart."""

from dataclasses import replace

import numpy as np
import pytest
from distant import INCUMBENT, config, window

from idlewatt.daemon.agents.episodes import weighted
from idlewatt.daemon.agents.kinds import SMOOTHING_S, Objective, figures
from idlewatt.daemon.agents.policy_gradient import recorded
from idlewatt.daemon.agents.topdrl.train import RULES, SPEC
from idlewatt.daemon.agents.training_loop import TrainingEnvironment
from idlewatt.daemon.policies import named

SHORTEST_FIRST = "sjf-oracle+first-fit+easy"


def only(**weights):
    return Objective(**{"jct_mean": 0.0, "slowdown_mean": 0.0, "wait_p99": 0.0, **weights})


def weights(objective, part=None):
    return weighted(window() if part is None else part, INCUMBENT, objective).weight


@pytest.mark.parametrize("figure", list(Objective().weights))
def test_by_every_objective_shorter_waits_cost_less_than_the_incumbents(figure):
    episode = weighted(window(), INCUMBENT, only(**{figure: 1.0}))
    assert episode.cost(window().replayed(named(INCUMBENT))) == pytest.approx(1.0)
    assert 0.0 < episode.cost(window().replayed(named(SHORTEST_FIRST))) < 1.0


def test_an_objective_of_waits_alone_imitates_a_rule_by_which_jobs_wait_for_less(tmp_path):
    environment = TrainingEnvironment(SPEC.learner, replace(config(tmp_path), objective=only(wait_mean=1.0)))
    episode = environment.episode(0)
    costs = {name: recorded(SPEC, environment, episode, rule).cost for name, rule in RULES.items()}
    assert len(set(costs.values())) == len(costs)
    assert min(costs, key=costs.get) != "fifo"


def test_a_second_costs_what_it_adds_to_the_mean_wait_beside_what_it_adds_to_the_mean_slowdown():
    found = figures(window().replayed(named(INCUMBENT)), window().since_s)
    counted = window().workload.submit >= window().since_s
    cost = weights(only(slowdown_mean=1.0, wait_mean=3.0))[counted]
    short = np.maximum(window().workload.run, 10.0)[counted]
    expected = 1.0 / (short * found.slowdown_mean) + 3.0 / (found.wait_mean_s + SMOOTHING_S)
    assert cost / cost[0] == pytest.approx(expected / expected[0])


@pytest.mark.parametrize("objective", [only(utilization=1.0), only(makespan=1.0), only(energy=1.0)])
def test_what_has_no_cost_per_second_is_learned_by_the_default_and_a_tail_of_waits_by_their_mean(objective):
    assert np.array_equal(weights(objective), weights(Objective()))
    assert np.array_equal(weights(only(wait_p99=1.0)), weights(only(wait_mean=1.0)))


def test_a_tail_of_waits_changes_nothing_beside_what_has_a_cost_per_second():
    assert np.array_equal(weights(Objective()), weights(replace(Objective(), wait_p99=0.0, energy=1.0)))


def test_where_nobody_waits_and_where_nothing_counts_the_cost_is_a_number():
    idle = replace(window(), workload=replace(window().workload, submit=1e7 * np.arange(len(window().workload))))
    assert np.isfinite(weights(only(wait_mean=1.0), idle)).all()
    assert not weights(only(wait_mean=1.0), replace(window(), since_s=1e15)).any()

"""Exact values over all 81 sequences, and what bounds them."""

import pytest

from idlewatt.daemon.agents.gist_mdrl.environment import A100, FIGURE_3_HOURS, V100, Reading
from idlewatt.daemon.reproduce.gist.baselines import first_fit, naive, random_feasible
from idlewatt.daemon.reproduce.gist.exact import optimum, roots, stationary, value


@pytest.fixture(scope="module")
def table_2():
    return roots(A100)


def test_there_are_81_sequences(table_2):
    assert len(table_2) == 81


@pytest.mark.parametrize(("policy", "worth"), [(naive, 0.6284), (random_feasible, 0.7128), (first_fit, 0.7255)])
def test_the_simple_policies_have_their_enumerated_values(table_2, policy, worth):
    assert value(table_2, policy)["utilization"] == pytest.approx(worth, abs=5e-5)


def test_naive_reaches_the_papers_utilization_of_062():
    for partition in (A100, V100):
        assert value(roots(partition), naive)["utilization"] == pytest.approx(0.62, abs=0.01)


def test_figure_3_limits_change_the_values():
    nodes = roots(A100.with_limits(*FIGURE_3_HOURS))
    assert value(nodes, first_fit)["utilization"] == pytest.approx(0.7322, abs=5e-5)


def test_a_search_over_the_papers_state_improves_on_first_fit(table_2):
    worth, table = stationary(table_2, first_fit)
    assert worth > value(table_2, first_fit)["utilization"]
    assert worth == pytest.approx(0.7285, abs=5e-5)
    assert len(table) > 50


def test_a_policy_with_more_knowledge_is_not_worse():
    nodes = roots(A100, Reading(asks_again=False))
    known = value(nodes, first_fit)["utilization"]
    best, oracle = optimum(nodes) / 81, sum(optimum([node]) for node in nodes) / 81
    assert known < best < oracle
    assert best == pytest.approx(0.7262, abs=5e-5)
    assert oracle == pytest.approx(0.7389, abs=5e-5)

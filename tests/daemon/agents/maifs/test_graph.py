"""How nodes settle who takes what: joined who could clash, and a joint action that is seldom far from the best."""

from itertools import combinations, product

import numpy as np
import pytest

from idlewatt.daemon.agents.maifs.graph import (
    ITERATIONS,
    LEVELS,
    NEIGHBOURS,
    conflicts,
    edges,
    repair,
    settle,
    worth_of,
)

RANK = 4


@pytest.mark.parametrize("seed", [0, 1, 2, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 20))])
def test_max_plus_is_never_worse_than_everybody_alone_and_mostly_the_best_there_is(seed):
    draw = np.random.default_rng(seed)
    utility = draw.standard_normal((3, 1 + 2 * LEVELS))
    factors = draw.standard_normal((3, 1 + 2 * LEVELS, RANK)) * 0.3
    joined = np.array([[0, 1], [1, 2]])  # a tree, on which max-plus is exact once messages have crossed it
    payoffs = conflicts(factors, joined)
    worth = {actions: worth_of(np.array(actions), utility, joined, payoffs)
             for actions in product(range(utility.shape[1]), repeat=3)}
    found = worth_of(settle(utility, joined, payoffs, ITERATIONS), utility, joined, payoffs)
    assert found >= worth[tuple(utility.argmax(axis=1).tolist())]
    assert found == pytest.approx(max(worth.values()))


def test_edges_join_only_those_who_could_take_the_same_task_and_at_most_four_each_asks_for():
    able = np.zeros((12, 2, LEVELS))
    able[:10, 0], able[10:, 1] = 1.0, 1.0
    attention = np.random.default_rng(0).random((12, 12))
    joined = edges(attention, able, np.zeros(12, np.int64)).tolist()
    assert [10, 11] in joined
    assert all((one < 10) == (other < 10) for one, other in joined)
    for agent in range(12):
        asked = sorted((other for other in range(12) if other != agent and (other < 10) == (agent < 10)),
                       key=lambda other: -attention[agent, other])[:NEIGHBOURS]
        assert all([min(agent, other), max(agent, other)] in joined for other in asked)
    assert len(joined) <= 12 * NEIGHBOURS


def test_a_graph_without_edges_leaves_everybody_to_themselves():
    utility = np.random.default_rng(1).standard_normal((5, 1 + 2 * LEVELS))
    none = np.zeros((0, 2), np.int64)
    alone = settle(utility, none, conflicts(np.zeros((5, 1 + 2 * LEVELS, RANK)), none), 4)
    assert alone.tolist() == utility.argmax(axis=1).tolist()
    able = np.zeros((5, 2, LEVELS))
    assert edges(np.ones((5, 5)), able, np.zeros(5, np.int64)).shape == (0, 2)


def test_max_plus_and_repair_come_close_to_the_best_joint_action():
    random, every = np.random.default_rng(0), np.array(list(combinations(range(3), 2)))
    found, best = 0.0, 0.0
    for _ in range(30):
        utility, factors = random.standard_normal((3, 7)), 0.3 * random.standard_normal((3, 7, RANK))
        payoffs = conflicts(factors, every)
        given = repair(settle(utility, every, payoffs, ITERATIONS), utility, 2)
        actions = np.zeros(3, np.int64)
        actions[given[:, 0]] = 1 + np.arange(2) * LEVELS + given[:, 1]
        assert sorted((actions[actions > 0] - 1) // 3) == [0, 1]
        worth = {one: worth_of(np.array(one), utility, every, payoffs) for one in product(range(7), repeat=3)
                 if sorted((action - 1) // 3 for action in one if action) == [0, 1]}
        found += worth[tuple(actions.tolist())]
        best += max(worth.values())
    assert found > 0.8 * best

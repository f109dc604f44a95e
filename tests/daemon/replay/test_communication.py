"""What a placement costs in communication."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.replay.communication import PREDECESSOR, Weights, cost, pairs_apart

RACK = {(rack, machine): rack for rack in range(2) for machine in range(4)}


def by_shortest_paths(gpus):
    """Unite the edges of shortest paths between all GPUs and the centre, edge by edge."""
    edges = {}
    for rack, machine, gpu in gpus:
        edges |= {("centre", rack): 1 / 2, (rack, (rack, machine)): 1 / 4}
        edges[(rack, machine), (rack, machine, gpu)] = 1 / 40
    edges |= {pair: 1 / 40 for pair in combinations(sorted(gpus), 2) if pair[0][:2] == pair[1][:2]}
    return sum(edges.values())


@given(st.sets(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 3)), min_size=1))
def test_the_formula_is_the_union_of_shortest_paths(gpus):
    assert cost(Counter(gpu[:2] for gpu in gpus), RACK) == pytest.approx(by_shortest_paths(gpus))


def test_closer_is_cheaper():
    one_node, one_rack, two_racks = {(0, 0): 4}, {(0, 0): 2, (0, 1): 2}, {(0, 0): 2, (1, 0): 2}

    assert cost(one_node, RACK) < cost(one_rack, RACK) < cost(two_racks, RACK)


def test_another_spine_costs_more_than_another_leaf():
    leaf = {"a": "l1", "b": "l2", "c": "l3"}
    spine = {"l1": "s1", "l2": "s1", "l3": "s2"}

    assert cost({"a": 8, "c": 8}, leaf, spine) - cost({"a": 8, "b": 8}, leaf, spine) == Weights().spine


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
def test_pairs_on_different_islands_are_those_that_nvlink_does_not_join(islands, data):
    size = len(islands)
    taken = data.draw(st.sets(st.integers(0, size - 1)))
    divided = tuple(tuple(gpu for gpu in range(size) if islands[gpu] == one) for one in set(islands))
    apart = sum(islands[one] != islands[other] for one, other in combinations(sorted(taken), 2))

    assert pairs_apart(taken, divided) == apart
    assert pairs_apart(taken, ()) == 0


def test_gpus_of_two_islands_cost_more_than_of_one():
    dearer = cost({"n": 4}, {"n": "l"}, apart=4) - cost({"n": 4}, {"n": "l"})

    assert dearer == pytest.approx(4 * (PREDECESSOR.apart - PREDECESSOR.gpu))

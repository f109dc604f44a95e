"""What placements cost, and which nodes are close together."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.topology_cost import TopologyCost, compared
from idlewatt.storage.recommendations import Placed, Placement
from idlewatt.storage.records import Node


def cluster(*switches: str) -> TopologyCost:
    """Return nodes n0, n1, … that hang on these switches, each ``leaf`` or ``spine/leaf``."""
    hung = [switch.rpartition("/") for switch in switches]
    return TopologyCost([Node(f"n{row}", ("all",), 8, leaf=leaf, spine=spine)
                         for row, (spine, _, leaf) in enumerate(hung)])


@pytest.mark.parametrize(("nodes", "cost"), [
    (("n0",), 36 / 40 + 1 / 4 + 1 / 2), (("n0", "n1"), 72 / 40 + 2 / 4 + 1 / 2), (("n0", "n2"), 72 / 40 + 2 / 4 + 1)])
def test_a_placement_costs_the_edges_between_its_gpus(nodes, cost):
    assert cluster("a", "a", "b").cost(Placement(nodes, (8,) * len(nodes))) == pytest.approx(cost)


def test_spines_cost_only_where_they_are_known():
    near, far = (cluster("s/a", "s/b", "t/c").cost(Placement(nodes, (1, 1))) for nodes in (("n0", "n1"), ("n0", "n2")))

    assert far - near == pytest.approx(1.0)


def test_gpus_on_two_islands_cost_more_where_it_is_known_which_they_are():
    topology_cost = TopologyCost([Node("n0", ("all",), 4, islands=((0, 1), (2, 3))), Node("n1", ("all",), 4)])
    pair = Placement(("n0",), (2,))

    assert topology_cost.cost(pair, ((0, 2),)) > topology_cost.cost(pair, ((2, 3),)) == topology_cost.cost(pair)
    assert topology_cost.cost(Placement(("n1",), (2,)), ((0, 2),)) == topology_cost.cost(Placement(("n1",), (2,)))


@pytest.mark.parametrize("placement", [None, Placement(("n0", "gone"), (1, 1))])
def test_what_is_nowhere_costs_nothing_that_is_known(placement):
    assert cluster("a").cost(placement) is None


def test_leaves_of_one_name_below_two_spines_are_two():
    topology_cost = cluster("s/a", "t/a")

    assert topology_cost.cost(Placement(("n0", "n1"), (1, 1))) == pytest.approx(2 / 40 + 2 / 4 + 2 / 2 + 2)


def test_the_closest_are_on_the_switch_with_the_least_room_that_suffices():
    topology_cost = cluster("s/a", "s/a", "s/a", "s/b", "s/b", "t/c", "t/d")
    names = [f"n{row}" for row in range(7)]

    assert topology_cost.closest(names, 2) == ("n3", "n4")
    assert topology_cost.closest(names, 4) == ("n0", "n1", "n2", "n3")
    assert topology_cost.closest(names[3:], 3) == ("n3", "n4", "n5")
    assert topology_cost.closest(names, 8) == tuple(names)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["s/a", "s/b", "s/c", "t/d", "t/e", "t/f"]), min_size=2, max_size=8), st.integers(2, 5))
def test_no_nodes_are_on_fewer_switches_where_one_spine_suffices(switches, count):
    topology_cost, names = cluster(*switches), [f"n{row}" for row in range(len(switches))]
    if max(sum(switch[0] == spine for switch in switches) for spine in "st") < count:
        return

    def cost(nodes):
        return topology_cost.cost(Placement(tuple(nodes), (1,) * count))

    assert cost(topology_cost.closest(names, count)) == min(map(cost, itertools.combinations(names, count)))


def test_runs_are_compared_by_partition_where_both_places_are_known():
    near, far, gone = (Placement(nodes, (1, 1)) for nodes in (("n0", "n1"), ("n0", "n2"), ("n0", "n9")))
    runs = [Placed("p", far, near), Placed("p", near, near), Placed("q", gone, near)]

    costs = compared(runs, cluster("a", "a", "b"))

    assert costs.keys() == {("p", "actual"), ("p", "advised")}
    assert costs["p", "actual"] - costs["p", "advised"] == pytest.approx(0.5)


def deep(*paths: str, domains: str = "") -> TopologyCost:
    """Return nodes n0, n1, … below switches, each ``core/pod/spine/leaf``, in domains of one letter each."""
    nodes = list[Node]()
    for row, path in enumerate(paths):
        switches = tuple(reversed(path.split("/")))
        domain = domains[row] if domains else ""
        switches = (domain, *switches) if domain else switches
        nodes.append(Node(f"n{row}", ("all",), 8, leaf=switches[0], spine=switches[1], above=switches[2:],
                          domain=domain))
    return TopologyCost(nodes)


def test_each_level_of_a_deep_tree_weighs_twice_the_one_below():
    tree = deep("c/p/s/l", "c/p/s/l", "c/p/s/m", "c/p/t/n", "c/q/u/o", "d/r/v/w")
    near, *farther = (tree.cost(Placement(("n0", f"n{row}"), (1, 1))) for row in range(1, 6))

    assert [cost - near for cost in farther] == pytest.approx([0.5, 1.5, 3.5, 7.5])


def test_the_closest_of_a_deep_tree_are_below_the_lowest_switch_that_has_enough():
    tree = deep("c/p/s/l", "c/p/t/m", "c/q/u/n", "c/q/u/n", "c/q/v/o", "d/r/w/x")

    assert tree.closest([f"n{row}" for row in range(6)], 2) == ("n2", "n3")
    assert tree.closest(["n0", "n1", "n2", "n5"], 2) == ("n0", "n1")
    assert set(tree.closest([f"n{row}" for row in range(6)], 4)) == {"n2", "n3", "n4", "n0"}


def test_leaving_an_nvlink_domain_weighs_far_more_than_leaving_a_leaf():
    tree = deep("s/l", "s/l", "s/l", "s/m", domains="aabb")
    inside, other_domain, other_leaf = (tree.cost(Placement(nodes, (1, 1)))
                                        for nodes in (("n0", "n1"), ("n1", "n2"), ("n2", "n3")))

    assert other_leaf - inside == pytest.approx(0.5)
    assert other_domain - inside == pytest.approx(9.0)
    assert tree.closest(["n1", "n2", "n3"], 2) == ("n2", "n3")


def test_nodes_in_no_domain_have_none_to_leave():
    assert deep("s/l", "s/l").cost(Placement(("n0", "n1"), (8, 8))) == cluster("s/l", "s/l").cost(
        Placement(("n0", "n1"), (8, 8)))

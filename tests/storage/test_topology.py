"""Switches above nodes, links between GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.storage.records import Node
from idlewatt.storage.topology import Fabric, GpuLinks, NodeLinks, Switch, TopologyError

TREE = (Switch("leaf1", ("a", "b")), Switch("leaf2", ("c",)), Switch("spine1", (), ("leaf1", "leaf2")),
        Switch("core", (), ("spine1",)))


def test_nodes_hang_on_their_leaf_and_its_spine():
    fabric = Fabric.of(TREE)

    placed = {node.name: (node.leaf, node.spine) for node in fabric.placed([Node("a", (), 8), Node("c", (), 8)])}

    assert placed == {"a": ("leaf1", "spine1"), "c": ("leaf2", "spine1")}
    assert fabric.above("leaf1") == ("spine1", "core")


def test_a_node_that_the_fabric_does_not_know_stays_as_it_is():
    fabric, stranger = Fabric.of(TREE), Node("z", (), 8, leaf="elsewhere")

    assert list(fabric.placed([stranger])) == [stranger]
    assert fabric.loose([stranger]) == ("z",)
    assert fabric.strangers([Node("a", (), 8)]) == ("b", "c")


@pytest.mark.parametrize(("switches", "words"), [
    ((Switch("l1", ("a",)), Switch("l2", ("a",))), "node a hangs on two switches: l1 and l2"),
    ((Switch("l1", ("a",)), Switch("s1", (), ("l1",)), Switch("s2", (), ("l1",))), "switch l1 hangs on two switches"),
    ((Switch("s1", (), ("s2",)), Switch("s2", (), ("s1",))), "is above itself"),
    ((Switch("s1", (), ("s1",)),), "switch s1 is above itself"),
    ((Switch("s1", (), ("l9",)),), "l9, which is not described"),
])
def test_a_tree_that_cannot_be_says_what_is_wrong(switches, words):
    with pytest.raises(TopologyError, match=words):
        Fabric.of(switches)


def dgx(pairs, gpus=range(8)):
    return GpuLinks(tuple(gpus), {(one, other): pairs(one, other) for one in gpus for other in gpus if one < other})


def test_gpus_behind_an_nvswitch_are_one_island():
    assert dgx(lambda one, other: "NVLINK").islands() == (tuple(range(8)),)


def test_without_nvlink_the_islands_are_the_numa_nodes():
    links = dgx(lambda one, other: "PIX" if one // 4 == other // 4 else "SYS")

    assert links.islands() == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert links.distance(3, 0) < links.distance(3, 4)


def test_pairs_of_bonded_gpus_are_islands_of_two():
    links = dgx(lambda one, other: "NVLINK" if one // 2 == other // 2 else "SYS")

    assert links.islands() == ((0, 1), (2, 3), (4, 5), (6, 7))


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5, 6, 7), (0, 4, 1, 5, 2, 6, 3, 7), (7, 2, 5, 0, 3, 6, 1, 4)])
def test_the_mesh_of_a_dgx_1_falls_into_its_halves_however_it_is_numbered(order):
    half = {gpu: int(place > 3) for place, gpu in enumerate(order)}
    twin = dict(zip(order, (*order[4:], *order[:4]), strict=True))
    links = dgx(lambda one, other: "NVLINK" if half[one] == half[other] or twin[one] == other else "SYS").links
    halves = tuple(sorted(tuple(sorted(gpu for gpu in order if half[gpu] == side)) for side in (0, 1)))

    assert GpuLinks(tuple(range(8)), links, numa=half).islands() == halves


@given(st.sets(st.integers(0, 15), min_size=1), st.randoms(use_true_random=False))
def test_every_gpu_is_on_exactly_one_island(gpus, random):
    links = dgx(lambda one, other: random.choice(["NVLINK", "PIX", "NODE", "SYS"]), sorted(gpus))

    assert sorted(gpu for island in links.islands() for gpu in island) == sorted(gpus)


STATION = GpuLinks((0, 1, 2, 4), {pair: "NVLINK" if pair in ((0, 1), (2, 4)) else "SYS"
                               for pair in ((0, 1), (0, 2), (0, 4), (1, 2), (1, 4), (2, 4))})
"""A DGX Station: its fourth GPU is number 4, since number 3 drives the display."""


def test_the_scheduler_counts_gpus_over_the_holes_that_the_driver_leaves():
    assert STATION.islands() == ((0, 1), (2, 4))
    assert STATION.numbered() == ((0, 1), (2, 3))


def test_nodes_learn_how_their_gpus_are_linked_by_name_or_pattern():
    links = NodeLinks(("dgx-*", "odd"), ((0, 1), (2, 3)))
    nodes = [Node("dgx-1", (), 4), Node("odd", (), 4), Node("other", (), 4)]

    assert [node.islands for node in links.placed(nodes)] == [((0, 1), (2, 3)), ((0, 1), (2, 3)), ()]


def test_a_node_that_hands_out_mig_slices_or_lacks_a_gpu_has_no_such_links():
    links = NodeLinks(("*",), (tuple(range(8)),))
    nodes = [Node("whole", (), 8), Node("sliced", (), 56, "1g.5gb"), Node("broken", (), 7)]

    assert [bool(node.islands) for node in links.placed(nodes)] == [True, False, False]
    assert links.misfits(nodes) == ("broken", "sliced")


@pytest.mark.parametrize("islands", [(), ((),), ((0, 1), (1, 2)), ((0, 2),), ((0, 1), (-1,)), ((1, 2), (3, 4))])
def test_islands_that_share_or_lack_a_gpu_are_refused(islands):
    with pytest.raises(TopologyError, match="each GPU from 0 on once"):
        NodeLinks(("n",), islands)

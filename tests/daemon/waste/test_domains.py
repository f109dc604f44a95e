"""Broken NVLink domains: what owners of racks call fragmentation."""

from dataclasses import replace

from idlewatt.daemon.waste.domains import domain_states, domain_totals
from idlewatt.storage.records import Node, NodeState


def rack(name, taken, **changes):
    return [Node(f"{name}-{number}", ("gpu",), 4, domain=name, gpus_allocated=held, **changes)
            for number, held in enumerate(taken)]


def test_domains_are_free_full_or_broken_and_the_free_gpus_of_broken_ones_are_counted():
    nodes = [*rack("a", (0, 0, 0)), *rack("b", (4, 4, 4)), *rack("c", (1, 0, 0)), Node("plain", ("gpu",), 8)]
    states, lost = domain_states(nodes)
    assert states == {("gpu", "free"): 1, ("gpu", "full"): 1, ("gpu", "broken"): 1, ("gpu", "out"): 0}
    assert lost == {"gpu": 11}


def test_a_node_that_is_down_breaks_a_free_domain_and_no_node_up_is_out():
    down = replace(rack("a", (0,))[0], state=NodeState.DOWN)
    assert domain_states([down, *rack("a", (0, 0))[1:]])[0]["gpu", "broken"] == 1
    assert domain_states([down])[0]["gpu", "out"] == 1


def test_a_domain_of_several_partitions_counts_in_each_of_them_and_once_in_all():
    nodes = [replace(node, partitions=("batch", "interactive")) for node in rack("a", (2, 0, 0))]
    states, lost = domain_states(nodes)
    assert (states["batch", "broken"], states["interactive", "broken"]) == (1, 1)
    assert lost == {"batch": 10, "interactive": 10}
    assert domain_totals(nodes) == ({"free": 0, "broken": 1, "full": 0, "out": 0}, 10)
    assert domain_totals([*nodes, *rack("b", (0, 0))]) == ({"free": 1, "broken": 1, "full": 0, "out": 0}, 10)


def test_without_domains_nothing_is_said():
    assert domain_states([Node("plain", ("gpu",), 8)]) == ({}, {})
    assert domain_totals([Node("plain", ("gpu",), 8)]) == ({}, None)

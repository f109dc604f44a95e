"""Nodes of snapshots, hung on switches."""

import logging

from idlewatt.daemon.topology import Hanging
from idlewatt.storage.records import Node, SchedulerSnapshot
from idlewatt.storage.topology import Fabric, Switch

SNAPSHOT = SchedulerSnapshot(0.0, (Node("n1", ("all",), 8), Node("n2", ("all",), 8)))
FABRIC = Fabric.of([Switch("leaf", ("n1", "n9")), Switch("spine", (), ("leaf",))])


def test_the_snapshot_learns_the_switches_of_its_nodes_and_others_are_far_from_all():
    nodes = Hanging().hang(SNAPSHOT, [FABRIC]).nodes

    assert [(node.leaf, node.spine) for node in nodes] == [("leaf", "spine"), ("n2", "n2")]


def test_what_does_not_fit_together_is_said_once(caplog):
    hanging = Hanging()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            hanging.hang(SNAPSHOT, [FABRIC])

    assert [record.getMessage().split(":")[-1].strip() for record in caplog.records] == ["n9", "n2"]


def test_without_a_topology_nothing_is_changed_or_said(caplog):
    assert Hanging().hang(SNAPSHOT, []) == SNAPSHOT
    assert not caplog.records

"""Nodes and settings are recorded as they change, whichever schedulers are in a snapshot and whatever its time is."""

from dataclasses import replace

import pytest

from idlewatt.storage.history import History
from idlewatt.storage.records import NodeState, SchedulerSnapshot
from idlewatt.storage.rules import SchedulerRules, SchedulerSettings


def weighing(weight):
    return SchedulerRules(site=SchedulerSettings(priority=(("PriorityWeightAge", weight),)))


def see(history, time_s, *nodes, whole=True, weight="1"):
    history.record_snapshot(SchedulerSnapshot(time_s, nodes, rules=weighing(weight), whole=whole))


def present(history):
    return [(change.time_s, change.node.name, change.present) for change in history.node_changes(0.0, 1e9)]


def weights(history):
    return dict(history.scheduler_configuration().rules.site.priority)["PriorityWeightAge"]


def test_a_node_is_gone_only_when_every_scheduler_is_in_the_snapshot(history, make):
    a, b = make.node("a"), make.node("b")
    see(history, 100.0, a, b)
    see(history, 200.0, a, whole=False)
    assert present(history) == [(100.0, "a", True), (100.0, "b", True)]
    see(history, 300.0, a)
    assert present(history)[2:] == [(300.0, "b", False)]


def test_what_changes_of_a_node_is_recorded_whichever_schedulers_are_there(history, make):
    a, b = make.node("a"), make.node("b")
    see(history, 100.0, a, b)
    see(history, 200.0, replace(a, state=NodeState.DRAINED), make.node("c"), whole=False)
    assert [(node.name, node.state) for node in history.nodes()] == [
        ("a", NodeState.DRAINED), ("b", NodeState.UP), ("c", NodeState.UP)]


def test_a_restart_with_one_scheduler_away_takes_no_node_away(url, make):
    a, b = make.node("a"), make.node("b")
    with History.open(url) as history:
        see(history, 100.0, a, b)
    with History.open(url) as history:
        see(history, 200.0, a, whole=False)
        see(history, 200.0, a, b)
        assert present(history) == [(100.0, "a", True), (100.0, "b", True)]


def test_a_node_that_was_taken_for_gone_is_there_at_the_next_time(history, make):
    """As the history of an earlier version has it."""
    a, b = make.node("a"), make.node("b")
    see(history, 100.0, a, b)
    see(history, 200.0, a)
    see(history, 200.0, a, b)
    see(history, 300.0, a, b)
    assert present(history)[2:] == [(200.0, "b", False), (300.0, "b", True)]


@pytest.mark.parametrize("last", [NodeState.UP, NodeState.DOWN])
def test_of_several_changes_at_one_time_the_last_is_recorded_at_the_next(history, make, last):
    """One scheduler is silent, and the time of the joint snapshot its last answer's."""
    a, b = make.node("a"), make.node("b")
    see(history, 100.0, a, b)
    see(history, 200.0, a, b)
    see(history, 200.0, a, replace(b, state=NodeState.DRAINED))
    see(history, 200.0, a, replace(b, state=last))
    see(history, 300.0, a, replace(b, state=last))
    assert [node.state for node in history.nodes()] == [NodeState.UP, last]


def test_settings_of_some_schedulers_are_not_recorded_as_those_of_the_site(history, make):
    see(history, 100.0, make.node("a"), weight="1")
    see(history, 200.0, make.node("a"), weight="2", whole=False)
    assert weights(history) == "1"
    see(history, 300.0, make.node("a"), weight="3")
    assert weights(history) == "3"


def test_of_settings_that_change_twice_at_one_time_the_last_are_recorded_at_the_next(history, make):
    see(history, 100.0, make.node("a"), weight="1")
    see(history, 200.0, make.node("a"), weight="1")
    for weight in ("2", "1"):
        see(history, 200.0, make.node("a"), weight=weight)
    see(history, 300.0, make.node("a"), weight="1")
    assert weights(history) == "1"

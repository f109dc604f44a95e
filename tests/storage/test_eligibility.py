import pytest

from idlewatt.storage.eligibility import Constraint, has_features, same_model
from idlewatt.storage.records import Request


@pytest.mark.parametrize(("expression", "nodes", "a", "b", "neither"), [
    ("[a*2&b*1]", 3, True, True, False), ("[a*2&b*1]", 4, True, True, True), ("a*2&b*1", 3, True, True, True),
    ("a*3&b*1", 3, True, False, False), ("[a*1&b*1]&c", 3, False, False, False), ("a*3", 3, True, False, False),
    ("a*2", 3, True, True, True), ("a*2", 1, True, False, False), ("c&a*1", 2, False, False, False),
    ("(a|b)*1", 2, True, True, True), ("(a|b)*2", 2, True, True, False), ("[(a)*1&(b)*1]", 2, True, True, False),
    ("(a)*1&(b)*1", 2, True, True, True), ("a*1|b*2", 2, True, True, True), ("!a*2", 2, False, True, True)])
def test_a_count_below_the_number_of_nodes_is_met_by_some_of_them(expression, nodes, a, b, neither):
    assert has_features({"a"}, expression, nodes) is a
    assert has_features({"b"}, expression, nodes) is b
    assert has_features(set(), expression, nodes) is neither


@pytest.mark.parametrize("expression", ["(a", "[a", "(a&(a", "a)", "(a)*", "a|(a"])
def test_brackets_that_do_not_match_are_read_as_far_as_they_go(expression):
    assert has_features({"a"}, expression)
    assert not has_features({"b"}, expression)


def test_a_constraint_counts_the_nodes_asked_for_and_only_where_it_must():
    counted = Constraint.of(Request(gpus=24, nodes=3, features="[a*2&b*1]"))
    assert counted.admits("n", {"b"})
    assert not counted.admits("n", {"c"})
    assert Constraint.of(Request(1, 3, features="a")) == Constraint.of(Request(1, 1, features="a"))


def test_a_node_that_names_no_model_is_not_ruled_out():
    assert same_model("A100", "a100")
    assert same_model("a100", "")
    assert same_model("", "a100")
    assert not same_model("a100", "v100")

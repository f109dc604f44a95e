"""All candidates in one list, agents and heuristics: what each is, how good it was, and why."""

import pytest

from idlewatt.daemon.learning.candidates import MOST_AGENTS, STATES, candidates
from idlewatt.daemon.learning.trials import COMBINATIONS, LISTED, TRIED, Prospect, listed
from idlewatt.storage.promotions import Decision, Promotion

DAY_S = 86400.0
LIMIT, QSSF = "sjf-limit+best-fit+easy", "qssf+best-fit+easy"


def decided(model, decision, time_s=DAY_S, **figures):
    return Promotion(time_s, model, decision, "nightly", f"why {model}", figures)


def known(*decisions, now_s=2 * DAY_S):
    return {one.name: one for one in candidates(decisions, now_s)}


def test_before_any_night_every_heuristic_is_a_candidate_that_was_not_tried():
    found = known()
    assert set(found) == set(COMBINATIONS)
    assert {one.state for one in found.values()} == {"candidate"}
    assert {(one.estimate, one.decided_s) for one in found.values()} == {(None, None)}


@pytest.mark.parametrize(("decision", "figures", "state"), [
    (Decision.PROMOTE, {}, "active"), (Decision.DEMOTE, {}, "demoted"), (Decision.REFUSE, {}, "not a candidate"),
    (Decision.SHADOW, {TRIED: 0.0}, "on trial"), (Decision.SHADOW, {}, "candidate")])
@pytest.mark.parametrize("name", ["scorer@1", LIMIT])
def test_a_decision_makes_the_same_of_agents_and_heuristics(name, decision, figures, state):
    found = known(decided(name, decision, **figures))
    assert (found[name].state, found[name].reason) == (state, f"why {name}")
    assert found[name].learned is ("@" in name)
    assert set(found) == {name, *COMBINATIONS}


def test_a_trial_that_has_lasted_as_long_as_one_may_is_over():
    begun = decided(LIMIT, Decision.SHADOW, **{TRIED: 0.0})
    assert known(begun, now_s=100 * DAY_S)[LIMIT].state == "candidate"


def test_the_estimate_of_the_last_judgement_stays_with_its_interval():
    against = {"fifo": {"estimate": 0.9, "low": 0.85, "high": 0.95}}
    judged = decided(LIMIT, Decision.PROMOTE, incumbent="fifo", against=against)
    one = known(judged, decided(LIMIT, Decision.DEMOTE, 1.5 * DAY_S))[LIMIT]
    assert (one.state, one.estimate, one.low, one.high) == ("demoted", 0.9, 0.85, 0.95)
    few = {"fifo": {"estimate": 0.9, "low": None, "high": None}}
    one = known(decided(LIMIT, Decision.SHADOW, incumbent="fifo", against=few))[LIMIT]
    assert (one.estimate, one.low, one.high) == (0.9, None, None)


def test_what_the_last_night_found_is_said_of_those_that_nothing_was_decided_on_since():
    night = listed([Prospect(LIMIT, "limits leak"), Prospect(QSSF, "", 1.02, "too slow")])
    agent = decided("scorer@1", Decision.SHADOW, **{LISTED: night})
    found = known(agent)
    assert (found[LIMIT].state, found[LIMIT].reason) == ("not a candidate", "limits leak")
    assert (found[QSSF].state, found[QSSF].reason) == ("candidate", "too slow")
    active = known(decided(LIMIT, Decision.PROMOTE, 0.5 * DAY_S), agent)
    assert active[LIMIT].state == "active", "it stays where it is until another one is surely better"
    again = known(decided(QSSF, Decision.REFUSE, 0.5 * DAY_S), agent)
    assert again[QSSF].state == "candidate", "a later night found nothing against it"
    refused = known(agent, decided(QSSF, Decision.REFUSE, 1.5 * DAY_S))
    assert (refused[QSSF].state, refused[QSSF].reason) == ("not a candidate", f"why {QSSF}")


@pytest.mark.parametrize("damaged", [7, {LIMIT: "text"}, {LIMIT: {}}, {"other": {"fit": False}}])
def test_a_damaged_list_makes_no_trouble(damaged):
    found = known(decided("scorer@1", Decision.SHADOW, **{LISTED: damaged}, against={"x": None}))
    assert set(found) == {"scorer@1", *COMBINATIONS}
    assert found["scorer@1"].estimate is None


def test_their_number_is_bounded_and_those_that_matter_are_among_them():
    old = [decided(f"scorer@{number}", Decision.REFUSE, float(number)) for number in range(500)]
    leader = decided("scorer@a", Decision.PROMOTE, 0.0)
    tried = decided("scorer@t", Decision.SHADOW, 0.0, **{TRIED: 0.0})
    found = list(known(leader, tried, *old))
    assert len(found) == 2 + MOST_AGENTS + len(COMBINATIONS)
    assert found[:2] == ["scorer@a", "scorer@t"]
    assert "scorer@499" in found
    assert "scorer@1" not in found
    assert STATES[0] == "active"

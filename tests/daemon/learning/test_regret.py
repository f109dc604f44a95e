"""Regret by day, streaks of bad days, and what follows: on days made by hand."""

import pytest

from idlewatt.daemon.learning.regret import COOLING_S, DAY_S, demotion, regrets, too_soon
from idlewatt.storage.promotions import Decision, Promotion, ShadowResult


def days(*ratios: float, policy: str = "a@1", hours: int = 24) -> list[ShadowResult]:
    """Return the hours of days with these regrets."""
    return [ShadowResult(policy, day * DAY_S + hour * 3600, day * DAY_S + (hour + 1) * 3600, 100 * (1 + ratio),
                         100.0, 0, 0)
            for day, ratio in enumerate(ratios) for hour in range(hours)]


def streak(*ratios: float, **more) -> int:
    return regrets(days(*ratios, **more), 1e9)["a@1"].streak


def test_a_days_regret_is_the_time_in_the_system_over_the_incumbents_less_one():
    found = regrets(days(0.1, -0.25), 1e9)["a@1"]
    assert (found.day_s, found.ratio) == (DAY_S, pytest.approx(-0.25))


@pytest.mark.parametrize(("ratios", "expected"), [
    ((0.1, 0.1, 0.1), 3), ((0.1, 0.1, -0.1), 0), ((0.1, -0.1, 0.1), 1),
    ((0.1, 0.01, 0.1, 0.01), 2), ((0.01, 0.01, 0.01), 0), ((0.1, 0.0, 0.1), 1)])
def test_bad_days_add_up_good_ones_forgive_and_what_lies_between_does_neither(ratios, expected):
    assert streak(*ratios) == expected


def test_a_day_that_has_not_closed_does_not_count():
    assert regrets(days(0.1, 0.1), 2 * DAY_S - 1)["a@1"].streak == 1


def test_a_day_that_was_hardly_replayed_or_had_no_jobs_does_not_count():
    assert regrets(days(0.1, hours=11), 1e9) == {}
    assert regrets([ShadowResult("a@1", 0.0, DAY_S, 0.0, 0.0, 0.0, 0.0)], 1e9) == {}


def test_three_bad_days_end_an_agents_time_in_charge_and_two_do_not():
    assert demotion("a@1", regrets(days(0.1, 0.1), 1e9), 1e9) is None
    decision = demotion("a@1", regrets(days(0.1, 0.1, 0.3), 1e9), 1e9)
    assert (decision.model, decision.decision, decision.by) == ("a@1", Decision.DEMOTE, "daemon")
    assert decision.reason == ("jobs spent 30.0% more time in the system than under the incumbent on the last of 3 bad "
                               "days in a row")
    assert demotion("b@1", regrets(days(0.1, 0.1, 0.3), 1e9), 1e9) is None


def test_after_a_demotion_nothing_is_promoted_by_itself_for_a_week():
    demoted = Promotion(0.0, "a@1", Decision.DEMOTE, "daemon", "")
    assert "demoted 1.0 days ago" in too_soon([demoted], DAY_S)
    assert too_soon([demoted], COOLING_S) == ""
    assert too_soon([], DAY_S) == ""
    by_hand = Promotion(0.0, "a@1", Decision.DEMOTE, "operator", "")
    assert too_soon([by_hand], DAY_S) == "", "an operator knows"

"""Regret by day, rows of bad days, and evidence of having become worse: on days made by hand."""

import numpy as np
import pytest

from idlewatt.daemon.learning.promotion_criteria import ERROR
from idlewatt.daemon.learning.regret import COOLING_S, DAY_S, become_worse, demotion, regrets, too_soon
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


def test_evidence_of_being_worse_ends_an_agents_time_in_charge_and_three_bad_days_do_not():
    assert demotion("a@1", regrets(days(0.1, 0.1, 0.3), 1e9), 1e9) is None
    worse = regrets(days(*[-0.05] * 20, *[0.2] * 25), 1e9)
    decision = demotion("a@1", worse, 1e9)
    assert (decision.model, decision.decision, decision.by) == ("a@1", Decision.DEMOTE, "daemon")
    assert "on the last day jobs spent 20.0% more time in the system" in decision.reason
    assert demotion("b@1", worse, 1e9) is None


def first_day(ratios) -> int | None:
    """Return on which day an agent with these regrets is demoted; None when never."""
    return next((day for day in range(1, len(ratios) + 1)
                 if become_worse(ratios[max(0, day - 60):day]) >= -np.log(ERROR)), None)


@pytest.mark.parametrize("spread", [0.05, 0.15])
def test_one_that_is_no_worse_keeps_its_place_for_a_year_of_days(spread):
    random = np.random.default_rng(1)
    years = np.exp(spread * random.standard_t(5, (12, 365))) - 1.0
    assert sum(first_day(list(year)) is not None for year in years) <= 1


@pytest.mark.parametrize(("spread", "within"), [(0.05, 21), (0.10, 28)])
def test_one_that_has_become_a_fifth_worse_is_out_within_weeks(spread, within):
    random = np.random.default_rng(2)
    late = [first_day([0.0] * 10 + list(1.2 * np.exp(spread * random.standard_t(5, 60)) - 1.0)) for _ in range(10)]
    assert sum(day is not None and day - 10 <= within for day in late) >= 9, late


def test_after_a_demotion_nothing_is_promoted_by_itself_for_a_week():
    demoted = Promotion(0.0, "a@1", Decision.DEMOTE, "daemon", "")
    assert "demoted 1.0 days ago" in too_soon([demoted], DAY_S)
    assert too_soon([demoted], COOLING_S) == ""
    assert too_soon([], DAY_S) == ""
    by_hand = Promotion(0.0, "a@1", Decision.DEMOTE, "operator", "")
    assert too_soon([by_hand], DAY_S) == "", "an operator knows"

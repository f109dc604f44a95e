"""Regret by day, rows of bad days, and evidence of having become worse: on days made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from gate_trials import NEVER, demoted

from idlewatt.daemon.learning import regret
from idlewatt.daemon.learning.promotion_criteria import ERROR
from idlewatt.daemon.learning.regret import DAY_S, demotion, measured_against, regrets
from idlewatt.storage.promotions import Decision, ShadowResult


def days(*ratios: float, policy: str = "a@1", hours: int = 24) -> list[ShadowResult]:
    """Return the hours of days with these regrets."""
    return [ShadowResult(policy, day * DAY_S + hour * 3600, day * DAY_S + (hour + 1) * 3600, 100 * (1 + ratio),
                         100.0, 0, 0)
            for day, ratio in enumerate(ratios) for hour in range(hours)]


def streak(*ratios: float, **more) -> int:
    return regrets(days(*ratios, **more), 1e9)["a@1"].streak


def test_days_against_another_incumbent_are_no_evidence():
    former = [replace(one, incumbent="fifo") for one in days(*[0.3] * 30)]
    since = [replace(one, incumbent="easy") for one in days(*[0.0] * 30)[24 * 29:]]
    assert measured_against("easy", (*former, *since, *days(0.3))) == tuple(since)
    assert regrets(measured_against("fifo", former), 1e9)["a@1"].evidence > 8.0
    assert regrets(measured_against("easy", (*former[:24 * 29], *since)), 1e9)["a@1"].evidence < 0.0


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


def test_evidence_of_being_worse_ends_an_agents_active_time_and_three_bad_days_do_not():
    assert demotion("a@1", regrets(days(0.1, 0.1, 0.3), 1e9), 1e9) is None
    worse = regrets(days(*[-0.05] * 20, *[0.2] * 25), 1e9)
    decision = demotion("a@1", worse, 1e9)
    assert (decision.model, decision.decision, decision.by) == ("a@1", Decision.DEMOTE, "daemon")
    assert "on the last day jobs spent 20.0% more time in the system" in decision.reason
    assert demotion("b@1", worse, 1e9) is None


def first_day(ratios, trial: int = 0) -> int | None:
    """Return on which day an agent with these regrets is demoted, which was on trial before; None when never."""
    (day,) = demoted(np.log1p(ratios), trial, (ERROR,))
    return None if day == NEVER else day


def regrets_of(mean: float, spread: float, days: int, random: np.random.Generator) -> np.ndarray:
    return mean * np.exp(spread * random.standard_t(5, days)) - 1.0


@pytest.mark.parametrize("spread", [0.05, 0.15])
@pytest.mark.parametrize("mean", [0.92, 1.0])
def test_one_that_stays_as_it_was_keeps_its_place_for_a_year_of_days(mean, spread):
    random = np.random.default_rng(1)
    assert sum(first_day(regrets_of(mean, spread, 395, random), 30) is not None for _ in range(6)) <= 1


@pytest.mark.parametrize(("spread", "within"), [(0.05, 5), (0.10, 14)])
def test_one_that_was_better_and_has_become_a_fifth_worse_is_out_within_days(spread, within):
    random = np.random.default_rng(2)
    late = [first_day(np.append(regrets_of(0.92, spread, 45, random), regrets_of(1.2, spread, 30, random)), 30)
            for _ in range(10)]
    assert all(day is None or day > 45 for day in late)
    assert sum(day is not None and day - 45 <= within for day in late) >= 9, late


@pytest.mark.parametrize(("spread", "within"), [(0.05, 22), (0.10, 36)])
def test_one_of_which_nothing_is_known_from_before_is_out_within_weeks(spread, within):
    random = np.random.default_rng(2)
    late = [first_day(regrets_of(1.2, spread, 45, random)) for _ in range(10)]
    assert sum(day is not None and day <= within for day in late) >= 9, late


def test_days_before_it_was_active_tell_what_to_expect_and_are_no_evidence():
    bad = days(*[0.2] * 40)
    assert regrets(bad, 1e9)["a@1"].evidence > 8.0
    assert regrets(bad, 1e9, 40 * DAY_S)["a@1"].evidence == 0.0
    turned = days(*[-0.1, -0.05] * 15, *[0.2] * 6)
    assert demotion("a@1", regrets(turned, 1e9, 30 * DAY_S), 1e9) is not None
    assert demotion("a@1", regrets(turned[30 * 24:], 1e9), 1e9) is None, "of six days alone nobody can tell"


def test_one_that_is_less_better_than_it_was_and_no_worse_than_the_incumbent_keeps_its_place():
    random = np.random.default_rng(4)
    late = [first_day(np.append(regrets_of(0.75, 0.05, 45, random), regrets_of(0.95, 0.05, 60, random)), 30)
            for _ in range(20)]
    assert sum(day is not None for day in late) <= 1


def test_a_spread_that_is_known_from_few_days_counts_as_wider_than_it_looks():
    known, gap = [0.1, -0.1] * 7, [0.0] * 7
    (evidence,) = regret._lost(np.array([*known, *gap, 0.2]), 0)
    spread = 0.1 * np.sqrt(15 / 13)  # of 14 days, as the next day's distance from their mean has it
    assert evidence == pytest.approx(2.0 * 0.2 / spread - 2.0)


def test_an_agent_that_does_what_the_incumbent_does_is_not_out_for_one_odd_day():
    assert demotion("a@1", regrets(days(*[0.0] * 40, 0.04), 1e9), 1e9) is None

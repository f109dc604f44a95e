"""What pairs of blocks prove: intervals, evidence, and the gate's errors on made-up years, a few of them.

``tests/benchmarks/gate.py`` has a thousand years of each.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from gate_trials import LEAST_DAYS, Looks, Year, upper
from hypothesis import given
from hypothesis import strategies as st
from null_sites import NULLS

from idlewatt.daemon.learning.evidence import (
    FEWEST_BLOCKS,
    NOTHING,
    RATES,
    compared,
    log_evidence,
    log_evidence_since,
)
from idlewatt.daemon.learning.pairs import DAY_S
from idlewatt.daemon.learning.promotion_criteria import ERROR, TRIALS
from idlewatt.daemon.learning.trials import error_of_each
from idlewatt.daemon.settings.training import TRIAL_S

SMALL = {"nodes": 2, "daily": 40}
YEARS = 24
"""Of each null; a year takes a thirtieth of a second."""

pytestmark = pytest.mark.xdist_group("years")  # made once, for all tests that look at them


def test_against_itself_nothing_differs_and_there_is_nothing_to_be_unsure_of():
    found = compared(np.ones(10), np.ones(10))
    assert found.same
    assert found.words == "the same"
    assert found.evidence == found.against == 0.0
    assert "in every block" in found.said


def test_from_few_blocks_nothing_is_said():
    few = compared(np.full(FEWEST_BLOCKS - 1, 0.5), np.ones(FEWEST_BLOCKS - 1))
    assert (few.words, few.known, few.below(0.5), few.above(0.5)) == ("not enough yet", False, False, False)
    assert "too few for an interval" in few.said
    assert NOTHING.said == "not known"


def test_an_interval_wholly_on_the_worse_side_is_called_worse():
    ours = np.random.default_rng(1).lognormal(np.log(1.067), 0.05, 12)
    found = compared(ours, np.ones(12))
    assert 1.0 < found.low < 1.1 < found.high
    assert found.words == "worse"
    assert compared(1 / ours, np.ones(12)).words == "better"
    assert compared(np.tile([0.9, 1.1], 6), np.ones(12)).words == "not distinguishable"


@given(st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=6))
def test_evidence_of_all_signs_of_the_same_ratios_has_a_mean_of_one(sizes):
    """It is a fair bet whatever the ratios: exactly, over all the ways in which chance could have signed them."""
    signs = 1 - 2 * ((np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes))) & 1)
    worth = [np.exp(log_evidence(row)[-1]) for row in signs * np.array(sizes)]
    assert np.mean(worth) == pytest.approx(1.0, rel=1e-9)


def test_evidence_is_that_of_the_best_bet_less_the_price_of_several():
    logs = np.full(20, -0.1)
    best = max(20 * np.log(2 / (1 + np.exp(-2 * rate * 0.1))) for rate in RATES)
    assert best - np.log(len(RATES)) <= log_evidence(logs)[-1] <= best
    assert len(log_evidence(np.zeros(0))) == 0


def test_blocks_without_jobs_under_one_of_both_tell_nothing():
    found = compared(np.array([0.0, np.nan, *[0.5] * 6]), np.array([1.0, 1.0, *[1.0] * 6]))
    assert (found.blocks, found.total) == (6, 0.5)


def test_evidence_of_lying_within_a_bound_is_that_of_being_better_than_so_much_more():
    ours = np.random.default_rng(2).lognormal(0.0, 0.1, 30)
    found, more = compared(ours, np.ones(30), bound=1.2), compared(ours, np.full(30, 1.2))
    assert found.within == pytest.approx(more.evidence)
    assert found.bounded(0.01)
    assert not found.below(0.01)
    assert not compared(ours, np.ones(30), bound=1.01).bounded(0.01)
    assert not replace(found, total=1.21).bounded(0.01), "in all it is worse"
    assert compared(ours, np.ones(30)).within == compared(ours, np.ones(30)).evidence


def test_all_looks_of_the_benchmark_at_once_say_what_the_gate_does_at_each():
    random = np.random.default_rng(3)
    ours, theirs = random.lognormal(-0.05, 0.1, 30), np.where(np.arange(30) % 7 == 3, 0.0, 1.0)
    looks = Looks.at(ours, theirs, 1.1)
    for look in range(5, 30):
        found = compared(ours[:look + 1], theirs[:look + 1], bound=1.1)
        told = [one[look] for one in looks]
        assert told == pytest.approx([found.low, found.high, found.total, found.within], nan_ok=True)
        assert looks.below(0.1, 1.1)[look] == found.bounded(0.1)


def test_the_shares_of_a_years_error_add_up_to_it():
    assert error_of_each(TRIALS) * TRIALS + error_of_each(10) * 10 == pytest.approx(ERROR)


@cache
def years(null):
    """Return years on which neither of two policies is better."""
    return [Year.of_null(null, seed, **SMALL) for seed in range(YEARS)]


@pytest.mark.parametrize("null", NULLS)
def test_four_agents_in_turn_that_are_no_better_are_hardly_ever_promoted_in_a_year_of_nights(null):
    promoted = sum(any(year.promoted(error_of_each(TRIALS), number * TRIAL_S, (number + 1) * TRIAL_S) is not None
                       for number in range(TRIALS)) for year in years(null))
    assert promoted <= 1, "2.5 % at most are shown with a thousand years, by the benchmark"


def test_of_all_years_no_more_see_a_wrong_promotion_than_the_error_of_a_year_allows():
    every = [year for null in NULLS for year in years(null)]
    in_turn = sum(any(year.promoted(error_of_each(TRIALS), number * TRIAL_S, (number + 1) * TRIAL_S) is not None
                      for number in range(TRIALS)) for year in every)
    assert in_turn <= ERROR * len(every)
    alone = sum(year.promoted(ERROR) is not None for year in every)
    assert alone <= 2 * ERROR * len(every), "one agent with the whole error: blocks are not quite independent"
    hasty = sum(bool((Looks.at(year.ours, year.theirs).high[year.edges[1:] >= LEAST_DAYS * DAY_S] < 1.0).any())
                for year in every)
    assert hasty > 4 * ERROR * len(every), "which a rule by the interval of each night would not keep"


@pytest.mark.parametrize(("days", "windows", "reach"), [(14, 200, 0.03), (28, 600, 0.02)])
def test_the_interval_covers_the_truth_as_often_as_it_says(days, windows, reach):
    told = [one for null in NULLS for year in years(null) for one in year.windows(days)]
    covered = [covers for known, covers in told if known]
    assert len(covered) > windows
    assert abs(np.mean(covered) - 0.95) <= reach, "two standard errors"


def test_an_upper_limit_is_that_of_clopper_and_pearson():
    assert upper(0, 1000) == pytest.approx(0.003, abs=1e-3)
    assert upper(5, 5) == 1.0


def test_a_better_agent_is_promoted_within_weeks_on_a_larger_site():
    found = [Year.of_better(0.3, seed, nodes=16, daily=600) for seed in range(3)]
    assert all(0.8 < year.ours.sum() / year.theirs.sum() < 0.95 for year in found)
    days = [year.promoted(error_of_each(TRIALS)) for year in found]
    assert sum(day is not None and day <= 60 for day in days) >= 2, days
    assert [year.promoted(error_of_each(TRIALS), worse=True) for year in found] == [None] * 3


def test_evidence_since_a_block_is_that_of_bets_that_begin_with_it():
    logs = np.random.default_rng(2).normal(-0.1, 0.3, 7)
    since = log_evidence_since(logs)
    assert since == pytest.approx([log_evidence(logs[first:])[-1] for first in range(7)])

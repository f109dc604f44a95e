import time

import numpy as np
import pytest
from cost import slowness
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from idlewatt.daemon.advice.scaling.curves import _nearest, learned
from idlewatt.daemon.replay.speed import SpeedError


def speed(gpus, a=1.0, b=0.1, d=0.0):
    return 100.0 / (a / gpus + b + d * gpus)


def ratio(now, then, *truth):
    return speed(then, *truth) / speed(now, *truth) - 1


def watched(sizes, truth, spread, chance):
    """Return the rates of runs of these sizes."""
    return [speed(size, *truth) * np.exp(spread * chance.standard_normal()) for size in sizes]


def test_a_curve_without_noise_is_found():
    sizes = (1, 2, 4, 8)
    curve = learned(sizes, [speed(size, 1.0, 0.1, 0.002) for size in sizes])
    estimate, (low, high) = curve.ratio(4, 8)
    assert estimate == pytest.approx(ratio(4, 8, 1.0, 0.1, 0.002), rel=1e-3)
    assert low < estimate < high
    assert curve.error < 1e-6
    assert (curve.sizes, curve.runs) == (sizes, 4)


@pytest.mark.parametrize("gpus", [[], [4], [4, 4, 4]])
def test_fewer_than_two_sizes_make_no_curve(gpus):
    with pytest.raises(SpeedError, match="two different sizes"):
        learned(gpus, [100.0] * len(gpus))


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_rates_that_cannot_be_make_no_curve(rate):
    with pytest.raises(SpeedError, match="positive"):
        learned([2, 4], [100.0, rate])


def test_runs_that_have_nothing_in_common_make_no_curve():
    with pytest.raises(SpeedError, match="off its own measurements"):
        learned([2, 2, 4, 4, 8, 8], [10.0, 100.0, 10.0, 100.0, 10.0, 100.0])


def test_a_curve_that_falls_says_where_and_that_more_is_later():
    sizes, truth = (1, 2, 4, 8, 16), (1.0, 0.05, 0.05)
    curve = learned(sizes, [speed(size, *truth) for size in sizes])
    estimate, (_, high) = curve.ratio(8, 16)
    assert estimate < 0
    assert high < 0
    assert 5 <= curve.falls_at <= 7  # its top is at 4.5


def test_a_curve_that_may_or_may_not_fall_says_nothing_of_it():
    assert learned((2, 4), [speed(size) for size in (2, 4)]).falls_at is None


def test_sizes_far_from_the_measured_are_out_of_reach():
    curve = learned((4, 8), [speed(4), speed(8)])
    assert [size for size in range(40) if curve.reaches(size)] == list(range(2, 17))


def test_with_two_sizes_a_cost_that_grows_and_one_that_does_not_are_both_possible():
    for truth in ((1.0, 0.2, 0.0), (1.0, 0.0, 0.02), (1.0, 0.1, 0.01)):
        curve = learned((2, 4), [speed(size, *truth) for size in (2, 4)])
        _, (low, high) = curve.ratio(4, 8)
        assert low - 1e-9 <= ratio(4, 8, *truth) <= high + 1e-9


@pytest.mark.parametrize(("sizes", "spread"), [
    ((2, 4), 0.02), ((2, 4, 8), 0.06), ((1, 1, 2, 4, 4, 8), 0.02), ((4, 4, 4, 16), 0.06),
    *(pytest.param(*each, marks=pytest.mark.long) for each in (  # two seconds each: every size, every spread above
        ((2, 4), 0.06), ((2, 4, 8), 0.02), ((1, 1, 2, 4, 4, 8), 0.06), ((4, 4, 4, 16), 0.02)))])
def test_intervals_hold_the_truth_as_often_as_they_say(sizes, spread):
    chance, held, cases = np.random.default_rng(3), 0, 40
    for case in range(cases):
        truth = 1.0, chance.choice([0.0, 0.1, 0.4]), chance.choice([0.0, 0.004, 0.02])
        curve = learned(sizes, watched(sizes, truth, spread, chance), seed=case)
        now = sizes[-1]
        _, (low, high) = curve.ratio(now, 2 * now)
        held += low - 1e-9 <= ratio(now, 2 * now, *truth) <= high + 1e-9
    assert held >= 0.9 * cases  # of 95 % intervals, by chance of 40


sizes = st.lists(st.integers(1, 64), min_size=2, max_size=6, unique=True)
costs = st.floats(0, 1)


@settings(max_examples=25, deadline=None)
@given(sizes, st.floats(0.01, 100), costs)
def test_more_never_loses_on_a_curve_that_never_falls(sizes, a, b):
    curve = learned(sizes, [speed(size, a, b) for size in sizes])
    now = max(sizes) // 2 or 1
    estimate, (low, high) = curve.ratio(now, max(sizes))
    assert low <= estimate <= high
    assert estimate >= -1e-6
    assert curve.ratio(max(sizes), now)[0] <= 1e-6


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 1 << 40) | st.integers(1, 64),
                          st.floats(-1, 1e300) | st.floats(1, 1e6)), max_size=6))
def test_hostile_runs_give_a_curve_with_finite_ratios_or_none(runs):
    gpus, rates = [size for size, _ in runs], [rate for _, rate in runs]
    try:
        curve = learned(gpus, rates)
    except SpeedError:
        return
    estimate, (low, high) = curve.ratio(curve.sizes[0], curve.sizes[-1])
    assert np.isfinite([estimate, low, high]).all()
    assert estimate > -1
    assert curve.falls_at is None or 2 <= curve.falls_at <= 2 * curve.sizes[-1]


@given(st.integers(2, 3), st.integers(0, 2**32 - 1))
def test_coefficients_are_those_of_scipys_nnls(columns, seed):
    draw = np.random.default_rng(seed)
    terms, target = draw.uniform(0.1, 1.0, (6, columns)), draw.uniform(0.1, 1.0, 6)
    both = np.stack([terms, terms[::-1]])  # each matrix of a stack for itself
    for matrix, ours, left in zip(both, *_nearest(both, target), strict=True):
        theirs, off = nnls(matrix, target)
        assert ours == pytest.approx(theirs, abs=1e-7)
        assert left == pytest.approx(off ** 2, abs=1e-9)


def test_hundreds_of_curves_are_fitted_within_a_round():
    chance = np.random.default_rng(1)
    runs = [(sizes, watched(sizes, (1.0, 0.1, 0.01), 0.05, chance)) for sizes in ((2, 4), (1, 2, 4, 8)) * 25]
    learned(*runs[0])
    began = time.process_time()
    for gpus, rates in runs:
        learned(gpus, rates)
    assert time.process_time() - began < 0.6 * slowness()  # 0.1 s; matrix by matrix it took 1.5

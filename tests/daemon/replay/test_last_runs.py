"""The last runs of a group tell its next: the narrower the group and the more its runs, the more they count."""

import numpy as np
import pytest

from idlewatt.daemon.replay.last_runs import (
    BLIND,
    FEW,
    MEMORIES,
    MEMORY,
    PAUSE_S,
    SEEING,
    Bursts,
    LastRuns,
    end_in_burst,
    expect,
    expect_quantiles,
    learn_run,
    submit_to_burst,
)

QUANTILES = np.array([0.2, 0.5, 0.8])


def after(values, groups=None):
    """Return rings that have learnt all values but leave out the last job, of which is asked."""
    groups = np.zeros((1, len(values) + 1), np.int32) if groups is None else np.asarray(groups, np.int32)
    runs = LastRuns.of(groups)
    for job, value in enumerate(values):
        learn_run(job, value, runs)
    return runs


def expected(runs):
    """Return what is expected of the last job: level, runs, medians, and quantiles by few and by many."""
    medians, few, many = np.full(len(MEMORIES), np.nan), np.full(3, np.nan), np.full(3, np.nan)
    level, count = expect(runs.groups.shape[1] - 1, runs, QUANTILES, medians, few, many)
    return level, count, medians, few, many


def test_medians_are_those_of_so_many_last_runs():
    values = np.random.default_rng(4).normal(size=50)
    level, count, medians, _, _ = expected(after(values))
    assert (level, count) == (0, MEMORY)
    assert medians == pytest.approx([np.median(values[-memory:]) for memory in MEMORIES])


def test_as_many_of_the_next_runs_as_should_are_below_a_quantile():
    _, _, _, few, many = expected(after([4.0, 2.0, 1.0, 3.0]))
    assert few.tolist() == many.tolist() == [1.0, 2.5, 4.0]  # the lowest of four: one in five lies below
    values = np.arange(100.0)
    _, _, _, few, many = expected(after(values))
    assert few == pytest.approx(np.quantile(values[-FEW:], QUANTILES, method="weibull"))
    assert many == pytest.approx(np.quantile(values[-MEMORY:], QUANTILES, method="weibull"))


def test_a_narrow_group_pulls_by_how_many_runs_it_has():
    values, groups = [0.0] * 30 + [9.0], [[-1] * 30 + [0, 0], [0] * 32]
    runs = after(values, groups)
    level, count, medians, _, many = expected(runs)
    assert (level, count) == (0, 1)
    assert medians[-1] == many[1] == pytest.approx(4.5)
    alone = np.full(3, np.nan)
    assert expect_quantiles(31, runs, QUANTILES, alone)
    np.testing.assert_array_equal(alone, many)


def test_of_nothing_nothing_is_expected():
    runs = LastRuns.of(np.zeros((2, 1), np.int32))
    assert expected(runs)[0] == -1
    assert not expect_quantiles(0, runs, QUANTILES, np.empty(3))


def test_a_burst_is_blind_until_one_of_it_has_ended():
    bursts = Bursts.of(np.zeros(4, np.int64))
    assert [submit_to_burst(job, 10.0 * job, bursts) for job in range(3)] == [BLIND] * 3
    end_in_burst(1, bursts)
    assert submit_to_burst(3, 40.0, bursts) == SEEING
    assert bursts.place.tolist() == [0, 1, 2, 3]


def test_after_a_pause_a_burst_begins_of_which_earlier_ends_tell_nothing():
    bursts = Bursts.of(np.zeros(3, np.int64))
    submit_to_burst(0, 0.0, bursts)
    submit_to_burst(1, PAUSE_S + 1.0, bursts)
    end_in_burst(0, bursts)
    assert submit_to_burst(2, PAUSE_S + 2.0, bursts) == BLIND
    assert bursts.place.tolist() == [0, 0, 1]


def test_groups_have_bursts_of_their_own():
    bursts = Bursts.of(np.array([0, 1, 0, 1]))
    for job in range(2):
        submit_to_burst(job, 0.0, bursts)
    end_in_burst(0, bursts)
    assert [submit_to_burst(job, 1.0, bursts) for job in (2, 3)] == [SEEING, BLIND]

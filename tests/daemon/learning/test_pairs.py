"""Blocks that share no queue: where they are cut, and which job lies in which."""

import numpy as np
import pytest

from idlewatt.daemon.learning.pairs import DAY_S, MOST_S, OUTSIDE, block_of, cuts, sums


def every(hours: float, days: float, wait_s: float = 0.0):
    """Return submissions at this distance, and when each has started."""
    submit = np.arange(0.0, days * DAY_S, hours * 3600.0)
    return submit, submit + wait_s


def test_where_nobody_waits_each_day_is_a_block():
    assert cuts(*every(6, 4.5), 0.0, 4.5 * DAY_S).tolist() == [0, DAY_S, 2 * DAY_S, 3 * DAY_S, 4 * DAY_S]


def test_a_block_ends_only_when_the_queue_is_empty_under_both():
    submit, clear = every(6, 4)
    clear[3] = 2.1 * DAY_S  # somebody waits over two midnights
    assert cuts(submit, clear, 0.0, 4 * DAY_S)[:2].tolist() == [0.0, 2.25 * DAY_S]


@pytest.mark.parametrize("never", [np.nan, 1e12])
def test_where_the_queue_never_empties_a_block_ends_after_a_week(never):
    submit, clear = every(6, 30)
    clear[0] = never
    assert np.diff(cuts(submit, clear, 0.0, 30 * DAY_S)).tolist() == [MOST_S] * 4


def test_a_block_that_has_not_closed_is_none():
    assert cuts(*every(6, 1.9), 0.0, 1.9 * DAY_S).tolist() == [0.0, DAY_S]
    assert cuts(*every(6, 0.9), 0.0, 0.9 * DAY_S).tolist() == [0.0]


def test_blocks_do_not_change_when_more_of_the_history_is_known():
    submit = np.sort(np.random.default_rng(1).uniform(0, 40 * DAY_S, 3000))
    clear = submit + np.random.default_rng(2).exponential(3000.0, 3000)
    whole = cuts(submit, clear, 0.0, 40 * DAY_S)
    before = submit < 25 * DAY_S
    part = cuts(submit[before], clear[before], 0.0, 25 * DAY_S)
    assert part.tolist() == whole[:len(part)].tolist()
    assert len(part) > 10


def test_jobs_lie_in_the_block_in_which_they_were_submitted():
    number = block_of(np.array([-1.0, 0.0, 5.0, 10.0, 19.0, 20.0]), np.array([0.0, 10.0, 20.0]))
    assert number.tolist() == [OUTSIDE, 0, 0, 1, 1, OUTSIDE]
    assert sums(np.arange(6.0), number, 2).tolist() == [3.0, 7.0]

"""Blocks that share no queue: where they are cut, and which job lies in which."""

import numpy as np
import pytest
from null_sites import site

from idlewatt.daemon.agents.histories import subset
from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.learning.pairs import DAY_S, MOST_S, OUTSIDE, Exam, Pair, block_of, cuts, replayed, sums
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.timeline import Reserved
from idlewatt.daemon.replay.workload import Workload


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


def test_a_block_that_was_looked_at_stays_as_it_was_when_long_jobs_end_later():
    cluster, work = site(16.0, seed=3, nodes=4, daily=40)
    ended = work.submit + np.where(np.arange(len(work)) % 20 == 0, 3 * DAY_S, work.run)
    changed = False
    whole = looked_at(cluster, work, np.inf)
    for night in (10.5 * DAY_S, 14.5 * DAY_S):
        known = np.flatnonzero((work.submit < night) & (ended < night))
        running = work.submit[(work.submit < night) & (ended >= night)]
        then = looked_at(cluster, subset(work, known), running.min())
        assert 1 < len(then) < night / DAY_S - 3
        assert then == whole[:len(then)]
        unsettled = looked_at(cluster, subset(work, known), np.inf)
        changed |= unsettled != whole[:len(unsettled)]
    assert changed, "which they did where those that still run were not waited for"


def looked_at(cluster, work, settled_s):
    """Return the sums of completion times of two orders in each block."""
    exam = Exam.of((TraceWindow(cluster, work, 0.0, settled_s=settled_s),))
    pair = Pair.of(*(replayed(named(order), exam, 0) for order in ("fifo+best-fit+easy", "sjf-limit+best-fit+easy")),
                   exam)
    return [tuple(sums(one.jct, pair.block, pair.blocks)[[number]].tolist()[0] for one in (pair.candidate, pair.rival))
            for number in range(pair.blocks)]


def test_three_users_are_enough_for_a_third_each_and_two_are_not():
    def groups(users):
        work = Workload.of([0.0, 1.0, 2.0], [50.0, 9.0, 70.0], [1, 1, 4], limit=100.0, user=users,
                           user_names=("ada", "bob", "eve"))
        exam = Exam.of((TraceWindow(Cluster.from_spec("2x4"), work, 0.0),))
        return {name: members.tolist() for name, members in exam.groups() if name.endswith("users")}

    assert groups([0, 1, 2]) == {"light users": [False, True, False], "middle users": [True, False, False],
                                 "heavy users": [False, False, True]}
    assert groups([0, 1, 0]) == {}


def test_who_judges_keeps_jobs_off_nodes_that_were_reserved_for_others():
    work = Workload.of([0.0, 1.0], [50.0, 50.0], [4, 4], limit=100.0)
    window = TraceWindow(Cluster.from_spec("2x4"), work, 0.0, reserved=(Reserved(0.0, "node0001", "course"),))
    judged = replayed(named("fifo+first-fit+easy"), Exam.of((window,)), 0)
    assert judged.wait.tolist() == [0.0, 49.0]
    assert window.replayed(named("fifo+first-fit+easy")).start.tolist() == [0.0, 50.0]


def test_energy_is_compared_with_no_less_than_the_rivals_own_unless_more_is_asked_for():
    cluster, work = site(16.0, seed=3, nodes=4, daily=40)
    exam = Exam.of((TraceWindow(cluster, work, 0.0),))
    pair = Pair.of(*(replayed(named("fifo+best-fit+easy"), exam, 0) for _ in range(2)), exam)
    same = pair.energy(down=False)
    assert (same.low, same.high) == (1.0, 1.0)
    assert same == pair.energy(down=False, bound=1.0)

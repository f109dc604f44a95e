"""When an empty node is needed again, from the recorded past."""

import numpy as np
import pytest

from idlewatt.daemon.advice.node_demand import DAY_S, HORIZON, STEP_S, STEPS, demands, in_use
from idlewatt.storage.placements import PlacementColumns

SINCE, NOON = 100 * DAY_S, 43_200.0
FLOATS = ("submit_s", "start_s", "end_s", "gpus", "cpus", "memory_bytes")


def held(*runs):
    """Return runs as (node, start, end) in seconds of the day."""
    names = tuple(dict.fromkeys(node for node, _, _ in runs))
    starts, ends = (np.array([SINCE + run[column] for run in runs]) for column in (1, 2))
    zero = np.zeros(len(runs))
    columns = dict.fromkeys(FLOATS, zero) | {"start_s": starts, "end_s": ends}
    codes = np.array([names.index(node) for node, _, _ in runs], np.int32)
    return PlacementColumns(job_id=zero.astype(object), node=codes, user=codes, name=codes,
                            vocabularies={"node": names, "user": (), "name": ()}, **columns)


def test_a_node_is_in_use_in_every_step_that_a_run_touches_and_counts_once():
    used = in_use(held(("a", 310.0, 590.0), ("a", 400.0, 1000.0), ("b", -900.0, np.nan), ("gone", 0.0, 900.0)),
                  {"a": 0, "b": 1}, SINCE)
    assert used.shape == (2, STEPS)
    assert np.flatnonzero(used[0]).tolist() == [1, 2, 3]
    assert used[1].all()


def test_a_past_without_runs_uses_nothing():
    assert not in_use(held(), {"a": 0}, SINCE).any()


def days(*patterns):
    return [np.array(pattern, np.int_) for pattern in patterns]


def test_a_demand_that_comes_every_day_at_the_same_time_is_foretold_to_the_step():
    day = np.zeros(STEPS, np.int_)
    day[int(54_000 / STEP_S):int(57_600 / STEP_S)] = 3  # three nodes from 15:00 to 16:00
    now_s = SINCE + 20 * DAY_S + NOON
    first, all_four = demands(days(*[day] * 20, day[:144]), SINCE, now_s, 4, np.array([1, 4]))
    assert first.days >= 14
    # Moments lie up to two hours to either side of noon: at 10:00 it comes in five hours, at 14:00 in one.
    assert first.after_s[0] == pytest.approx(3600.0, abs=STEP_S)
    assert first.after_s[1] == pytest.approx(3 * 3600.0, abs=STEP_S)
    assert first.after_s[2] == pytest.approx(5 * 3600.0, abs=STEP_S)
    assert all_four.after_s == (np.inf,) * 3  # four were never needed at once


@pytest.mark.parametrize(("past", "holds"), [(10, True), (30, False)])
def test_of_few_days_the_interval_holds_all_and_of_many_it_leaves_out_the_moment_that_was_like_no_other(past, holds):
    quiet, early = np.zeros(STEPS, np.int_), np.zeros(STEPS, np.int_)
    quiet[int(72_000 / STEP_S):] = 1  # from 20:00 on
    early[int(32_400 / STEP_S):] = 1
    early[int(48_600 / STEP_S):int(52_200 / STEP_S)] = 0  # on one day it is empty for an hour, from 13:30 to 14:30
    counts = days(*[early if day == 4 else quiet for day in range(past)], quiet[:144])
    [found] = demands(counts, SINCE, SINCE + past * DAY_S + NOON, 1, np.array([1]))
    assert (found.after_s[0] == pytest.approx(1800.0, abs=STEP_S)) is holds
    assert found.after_s[1] == pytest.approx(8 * 3600.0, abs=STEP_S)


def test_a_past_that_is_too_short_and_more_nodes_than_there_are_foretell_nothing():
    busy = np.full(STEPS, 3, np.int_)
    assert demands(days(*[busy] * 5), SINCE, SINCE + 5 * DAY_S, 4, np.array([1])) == [None]
    assert demands(days(*[busy] * 20), SINCE, SINCE + 20 * DAY_S, 4, np.array([2])) == [None]
    assert demands([], SINCE, SINCE, 4, np.array([1])) == [None]


def test_the_interval_holds_in_about_nine_of_ten_moments_that_it_has_not_seen():
    chance = np.random.default_rng(7)
    steps = 90 * STEPS
    arrivals = np.flatnonzero(chance.random(steps) < 0.02)
    change = np.zeros(steps + 1, np.int_)
    for start, long in zip(arrivals, chance.integers(6, 120, len(arrivals)), strict=True):
        change[start] += 1
        change[min(steps, start + long)] -= 1
    used = np.minimum(change.cumsum()[:-1], 8).reshape(90, STEPS)
    within = []
    for day in range(30, 87):
        now_s = SINCE + day * DAY_S + NOON
        demand, = demands([*used[day - 28:day], used[day][:STEPS // 2]], SINCE + (day - 28) * DAY_S, now_s, 8,
                          np.array([2]))
        flat, here = used.reshape(-1), day * STEPS + STEPS // 2 - 1
        later = flat[here + 1:here + 1 + HORIZON]
        if demand is None or flat[here] + 2 > 8:
            continue
        found = np.flatnonzero(later >= flat[here] + 2)
        after_s = (found[0] + 1) * STEP_S if len(found) else np.inf
        within.append(demand.after_s[0] <= after_s <= demand.after_s[2])
    assert len(within) > 40
    assert 0.8 <= np.mean(within) <= 1.0

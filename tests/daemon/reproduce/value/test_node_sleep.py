"""Which empty nodes are powered down, from how often how many more were wanted."""

import numpy as np

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.timeline import begun, proceed
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.value.node_sleep import FEWEST, STEP_S, Forecast, Keeper


def seen(*busy, starts=1):
    """Return a forecast that saw these numbers of busy nodes over and over."""
    found = Forecast(wake_s=STEP_S)
    for number in range(2 * FEWEST):
        found.note(busy[number % len(busy)], starts)
    return found


def test_where_demand_never_grows_no_empty_node_stays_on():
    assert seen(3).reserve(jct_mean_s=1000.0, nodes=8) == 0


def test_so_many_stay_on_as_are_wanted_at_once():
    assert seen(1, 1, 1, 3).reserve(jct_mean_s=1000.0, nodes=8) == 2


def test_where_jobs_are_so_long_that_waiting_for_a_node_is_nothing_none_stays_on():
    assert seen(1, 1, 1, 3).reserve(jct_mean_s=1e6, nodes=8) == 0


def test_what_no_job_starts_on_needs_no_reserve():
    assert seen(1, 1, 1, 3, starts=0).reserve(jct_mean_s=1000.0, nodes=8) == 0


def test_before_a_day_was_seen_a_node_sleeps_after_half_an_hour_and_keeps_its_books():
    cluster, work = Cluster.from_spec("2x8"), Workload.of([0.0, 8000.0], [10000.0, 100.0], [8, 8])
    done, event_list = begun(cluster, work, named("fifo"), wake_s=300.0)
    keeper = Keeper(300.0)
    for moment in np.arange(0.0, 12000.0, STEP_S).tolist():
        proceed(done.state, event_list, named("fifo"), moment)
        keeper.attend(done.state.arrays, moment)
    meters = done.state.arrays.meters
    assert done.end.tolist() == [10000.0, 8400.0]
    assert meters.woken.tolist() == [0, 1]
    assert (meters.empty + meters.down + meters.busy).tolist() == meters.changed.tolist()

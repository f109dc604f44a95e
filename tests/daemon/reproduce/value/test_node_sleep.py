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


def test_without_growth_of_demand_no_empty_node_stays_on():
    assert seen(3).reserve(jct_mean_s=1000.0, nodes=8) == 0


def test_as_many_empty_nodes_stay_on_as_jobs_need_at_once():
    assert seen(1, 1, 1, 3).reserve(jct_mean_s=1000.0, nodes=8) == 2


def test_with_very_long_jobs_no_empty_node_stays_on():
    assert seen(1, 1, 1, 3).reserve(jct_mean_s=1e6, nodes=8) == 0


def test_without_starts_of_jobs_no_reserve_is_needed():
    assert seen(1, 1, 1, 3, starts=0).reserve(jct_mean_s=1000.0, nodes=8) == 0


def test_without_a_day_of_data_a_node_is_powered_down_after_half_an_hour_and_its_energy_is_counted():
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

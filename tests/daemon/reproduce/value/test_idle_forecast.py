"""Whether the forecast of idle nodes came true: every miss is counted, and nothing is told that was not known."""

import numpy as np

from idlewatt.daemon.advice.node_demand import HORIZON, LEAST_DAYS, STEPS
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.value.idle_forecast import ForecastCheck, checked, in_use

NODES = 4
DAY = np.repeat([1, 3], STEPS // 2)
"""One node by night, three by day."""


def test_forecasts_of_identical_days_are_within_the_interval():
    found = checked(np.tile(DAY, 30), NODES)
    assert found.estimated > 400
    assert found.early + found.late < 0.02 * found.estimated
    assert found.asked > found.estimated  # of the first week nothing is


def test_unprecedented_demand_is_counted_as_a_miss():
    usual = checked(np.tile(DAY, 30), NODES)
    asked_for_all = np.tile(DAY, 30)
    asked_for_all[25 * STEPS:] = NODES
    asked_for_all[25 * STEPS:27 * STEPS] = 1
    found = checked(asked_for_all, NODES)
    assert found.early + found.late > usual.early + usual.late


def test_without_a_week_of_data_there_is_no_forecast():
    found = checked(np.tile(DAY, LEAST_DAYS - 1), NODES)
    assert found.asked > 0
    assert found.estimated == 0
    assert found.cells == (str(found.asked), "0", "", "")


def test_a_node_is_in_use_while_a_job_runs_on_it():
    work = Workload.of([0, 300, 3000], [900, 900, 60], [8, 4, 1])
    used = in_use(Cluster.from_spec("2x8"), work)
    assert used.tolist() == [1, 2, 2, 1, 0, 0, 0, 0, 0, 0]


def test_shares_are_relative_to_the_forecasts_with_an_estimate():
    assert ForecastCheck(20, 10, 1, 2).cells == ("20", "10", "70%", "10%, 20%")
    assert HORIZON == 2 * STEPS

"""Jobs without a time limit: what they count as, and what that does to reservations and forecasts."""

import numpy as np
import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.engine import forecast
from idlewatt.daemon.replay.learned_limits import learned
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import PREDICTED_COLUMNS, Workload
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

HOUR, NOW = 3600.0, 1e9
KNOWN = dict(zip(("prediction_low", "prediction", "prediction_high"), (0.5 * HOUR, HOUR, 2 * HOUR), strict=True))


def work(**columns):
    return Workload.of([0.0], [HOUR], [8], **(KNOWN | columns))


def state(known, *waiting):
    """A node on which a job without a limit has run for an hour, and one that is free."""
    jobs = (Job("1", NOW - HOUR, JobState.RUNNING, "all", Request(8), start_s=NOW - HOUR,
                allocations=(Allocation("a", 8),)), *waiting)
    nodes = (Node("a", ("all",), 8, gpus_allocated=8), Node("b", ("all",), 8))
    return ClusterState.from_snapshot(SchedulerSnapshot(NOW, nodes, jobs=jobs), NOW, predictor=lambda some: {
        name: np.full(len(some), known.get(name, np.nan)) for name in PREDICTED_COLUMNS})


def test_a_job_without_a_limit_has_the_time_within_which_nine_in_ten_of_its_like_end():
    assert learned(work(), np.zeros(1)) == pytest.approx([4 * HOUR])  # log-logistic quartiles a factor of 2 apart
    assert np.isinf(learned(work(prediction=np.nan), np.zeros(1)))


def test_who_has_outlived_its_like_is_given_longer():
    at = [float(learned(work(), np.array([lasted]))[0]) for lasted in (1.0, HOUR, 4 * HOUR, 40 * HOUR)]
    assert at == sorted(at)
    assert at[1] == pytest.approx(HOUR * 2 ** (np.log(19) / np.log(3)))
    assert at[3] > 40 * HOUR


def test_a_gang_is_not_passed_by_a_job_without_a_limit_that_would_delay_it():
    gang = Job("2", NOW - 60, JobState.PENDING, "all", Request(16))
    other = Job("3", NOW - 30, JobState.PENDING, "all", Request(8))
    easy = named("fifo+best-fit+easy")
    assert not easy.decide(state(KNOWN | {"prediction_high": HOUR + 60}, gang, other))
    assert [start.job for start in easy.decide(state({}, gang, other))] == [2], "nobody knows, so nothing protects it"


def test_who_has_a_limit_keeps_it():
    short = Job("2", NOW, JobState.PENDING, "all", Request(8), limit_s=600.0)
    assert state(KNOWN, short).arrays.jobs.limit[1] == 600.0


def test_a_forecast_has_a_time_where_no_job_has_a_limit():
    wide = Job("2", NOW, JobState.PENDING, "all", Request(16))
    expected = forecast(state(KNOWN, wide), named("fifo+best-fit+easy"))
    assert NOW + 3 * HOUR < expected[1].start < NOW + 8 * HOUR
    assert not forecast(state({}, wide), named("fifo+best-fit+easy"))

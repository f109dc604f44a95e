"""Jobs without a time limit: what they count as, and what that does to reservations and forecasts."""

import numpy as np
import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import forecast, run
from idlewatt.daemon.replay.learned_limits import limits
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import FORESIGHT, Workload
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

HOUR, NOW = 3600.0, 1e9
KNOWN = dict(zip(("prediction_low", "prediction", "prediction_high"), (0.5 * HOUR, HOUR, 2 * HOUR), strict=True))


def told(jobs, **columns):
    return Workload.of([0.0] * jobs, [HOUR] * jobs, [8] * jobs, **(KNOWN | columns))


def test_a_job_without_a_limit_has_the_time_within_which_nine_in_ten_of_its_like_end():
    assert limits(told(1)) == pytest.approx([4 * HOUR])  # log-logistic quartiles a factor of 2 apart
    assert limits(told(2, limit=[600.0, np.inf])) == pytest.approx([600.0, 4 * HOUR])
    assert np.isinf(limits(told(1, prediction=np.nan)))


def test_a_gang_is_not_passed_by_jobs_without_limits_that_would_delay_it():
    cluster = Cluster.from_spec("2x8")
    work = Workload.of([0.0, 1.0, 2.0, 3.0], [2 * HOUR, HOUR, 5 * HOUR, 5 * HOUR], [8, 16, 8, 8], **KNOWN)
    start = run(cluster, work, named("fifo+best-fit+easy")).start
    assert start[1] == 2 * HOUR, "the gang starts when the first job ends"
    blind = run(cluster, Workload.of(work.submit, work.run, work.gpus), named("fifo+best-fit+easy")).start
    assert blind[1] > 4 * HOUR, "where nothing is known of run times nothing protects it"


def test_a_forecast_has_a_time_where_no_job_has_a_limit():
    jobs = (Job("1", NOW - HOUR, JobState.RUNNING, "all", Request(8), start_s=NOW - HOUR,
                allocations=(Allocation("a", 8),)), Job("2", NOW, JobState.PENDING, "all", Request(8)))
    snapshot = SchedulerSnapshot(NOW, (Node("a", ("all",), 8, gpus_allocated=8),), jobs=jobs)

    def expected(known):
        state = ClusterState.from_snapshot(snapshot, NOW, foresight=lambda some: {
            name: np.full(len(some), known.get(name, np.nan)) for name in FORESIGHT})
        return forecast(state, named("fifo+best-fit+easy"))

    assert expected(KNOWN)[1].start == pytest.approx(NOW + 3 * HOUR)
    assert not expected({})

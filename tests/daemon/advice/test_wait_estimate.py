"""What a policy is expected to change in waiting: paired, with an interval where run times are known."""

import numpy as np
import pytest

from idlewatt.daemon.advice import wait_estimate
from idlewatt.daemon.advice.wait_estimate import PolicyComparison, compared, futures
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.state import ClusterState, Start
from idlewatt.daemon.replay.workload import PREDICTED_COLUMNS
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

NOW, HOUR = 1e9, 3600.0
SJF, FIFO = named("sjf-limit+best-fit+easy"), named("fifo+best-fit+easy")


def foresight(jobs):
    limits = np.array([job.limit_s for job in jobs])
    shares = {"prediction_low": 0.2, "prediction": 0.5, "prediction_high": 0.9}
    return {name: limits * shares.get(name, np.nan) for name in PREDICTED_COLUMNS}


def state(predictor=foresight) -> ClusterState:
    """A node that a job holds for an hour more; then either a long job comes first, or a short one."""
    jobs = (Job("1", NOW - HOUR, JobState.RUNNING, "all", Request(8), start_s=NOW - HOUR, limit_s=2 * HOUR,
                allocations=(Allocation("a", 8),)),
            Job("2", NOW - 900, JobState.PENDING, "all", Request(8), limit_s=10 * HOUR),
            Job("3", NOW - 600, JobState.PENDING, "all", Request(8), limit_s=HOUR))
    snapshot = SchedulerSnapshot(NOW, (Node("a", ("all",), 8, gpus_allocated=8),), jobs=jobs)
    return ClusterState.from_snapshot(snapshot, NOW, predictor=predictor)


def test_who_is_let_pass_gains_what_the_other_takes_and_the_other_loses_what_it_takes():
    long, short = (compared(state(), SJF, FIFO, 20).waits[job] for job in (1, 2))
    assert 2 * HOUR < -short.mean_s < 10 * HOUR
    assert 0.1 * HOUR < long.mean_s < HOUR
    assert short.interval_s[0] < short.mean_s < short.interval_s[1] < 0
    assert 0 < long.interval_s[0] < long.mean_s < long.interval_s[1]


def test_jobs_end_sooner_in_the_mean_when_the_short_one_goes_first_and_later_when_the_long_one_does():
    sooner, later = compared(state(), SJF, FIFO, 20), compared(state(), FIFO, SJF, 20)
    assert 0.5 < sooner.completion_ratio < 0.9
    assert later.completion_ratio * sooner.completion_ratio == pytest.approx(1.0)


def test_the_ratio_is_that_of_means_until_the_end_from_now():
    exactly = dict.fromkeys(("prediction_low", "prediction", "prediction_high"), 1.0)
    sure = state(lambda jobs: {name: np.array([job.limit_s * exactly.get(name, np.nan) for job in jobs])
                               for name in PREDICTED_COLUMNS})
    # After an hour the short job runs for an hour and the long one for ten, or the other way round.
    assert compared(sure, SJF, FIFO, 4).completion_ratio == pytest.approx((2 + 12) / (11 + 12), rel=0.01)


def test_a_service_that_never_ends_does_not_count_in_the_ratio():
    jobs = (Job("1", NOW - HOUR, JobState.RUNNING, "all", Request(8), start_s=NOW - HOUR, limit_s=2 * HOUR,
                allocations=(Allocation("a", 8),)),
            Job("2", NOW - 900, JobState.PENDING, "all", Request(8)),)
    snapshot = SchedulerSnapshot(NOW, (Node("a", ("all",), 8, gpus_allocated=8),), jobs=jobs)
    endless = ClusterState.from_snapshot(snapshot, NOW)
    assert compared(endless, SJF, FIFO, 4).completion_ratio == 1.0


def test_a_policy_changes_nothing_against_itself_and_no_future_is_drawn_for_that(monkeypatch):
    monkeypatch.setattr(wait_estimate, "followed", None)
    found = compared(state(), FIFO, FIFO, 20).waits
    # An interval whose ends are equal is none.
    assert [(change.mean_s, change.interval_s) for change in found.values()] == [(0, None)] * 2


def test_where_nothing_is_known_of_run_times_the_interval_is_as_wide_as_the_limits():
    low_s, high_s = compared(state(None), SJF, FIFO, 20).waits[2].interval_s
    assert -10 * HOUR < low_s < -8 * HOUR
    assert -2 * HOUR < high_s < 0


def test_a_large_queue_has_fewer_futures_and_a_huge_one_no_interval(monkeypatch):
    assert futures(state(), 20) == 20
    monkeypatch.setattr(wait_estimate, "WORK", 24)
    assert futures(state(), 20) == 6
    monkeypatch.setattr(wait_estimate, "WORK", 8)
    assert futures(state(), 20) == 1
    assert compared(state(), SJF, FIFO, 1).waits[1].interval_s is None


def test_nobody_waits_or_nothing_is_to_be_drawn():
    assert compared(state(), SJF, FIFO, 0) == PolicyComparison()


def test_a_policy_in_plain_python_starts_what_fits_at_once():
    class First:
        name = "first"

        def decide(self, state):
            return [Start(int(job), (0,), (8,)) for job in state.waiting[:1] if state.arrays.nodes.free_gpus[0] == 8]

    jobs = (Job("2", NOW - 900, JobState.PENDING, "all", Request(8), limit_s=10 * HOUR),)
    free = ClusterState.from_snapshot(SchedulerSnapshot(NOW, (Node("a", ("all",), 8),), jobs=jobs), NOW)
    assert compared(free, First(), FIFO, 1).waits[0].mean_s == 0

"""Futures: run times drawn from their quantiles, everything else as it is."""

from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.replay.monte_carlo import drawn
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import PREDICTED_COLUMNS
from idlewatt.storage.owners import OwnerKind
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

NOW, HOUR = 1e9, 3600.0


def foresight(jobs):
    """A quarter of like jobs ran for less than ten minutes, half for half an hour, a quarter for over two hours."""
    quantiles = dict(zip(("prediction_low", "prediction", "prediction_high"), (600.0, 1800.0, 7200.0), strict=True))
    known = np.array([job.user != "new" for job in jobs])
    return {name: np.where(known, quantiles.get(name, np.nan), np.nan) for name in PREDICTED_COLUMNS}


def scene(*, waiting: int = 400, running: int = 400, lasted_s: float = 0.0, limit_s: float = 24 * HOUR, user: str = ""):
    nodes = tuple(Node(f"n{number:03}", ("all",), 1, gpus_allocated=1) for number in range(running))
    jobs = [Job(f"r{number}", NOW - lasted_s, JobState.RUNNING, "all", Request(1), start_s=NOW - lasted_s,
                limit_s=limit_s, user=user, allocations=(Allocation(f"n{number:03}", 1),))
            for number in range(running)]
    jobs += [Job(str(number), NOW, JobState.PENDING, "all", Request(1), limit_s=limit_s, user=user)
             for number in range(waiting)]
    return ClusterState.from_snapshot(SchedulerSnapshot(NOW, nodes, jobs=tuple(jobs)), NOW, predictor=foresight)


def test_waiting_jobs_run_as_like_jobs_did():
    state = scene(waiting=4000, running=1)
    runs = drawn(state, np.random.default_rng(1)).arrays.jobs.run[state.waiting]
    assert np.quantile(runs, [0.25, 0.5, 0.75]) == pytest.approx([600, 1800, 7200], rel=0.15)


def futures(user):
    """Return [future, job] run times of twenty jobs that wait."""
    state = scene(waiting=20, running=1, user=user)
    return np.array([drawn(state, np.random.default_rng(seed)).arrays.jobs.run[state.waiting] for seed in range(1500)])


def likeness(runs):
    """Return the mean rank correlation of two jobs over the futures."""
    ranks = runs.argsort(axis=0).argsort(axis=0)
    return float(np.corrcoef(ranks.T)[np.triu_indices(runs.shape[1], 1)].mean())


def test_a_users_jobs_share_an_error_and_over_many_futures_each_runs_as_like_jobs_did():
    assert np.quantile(futures("u"), [0.25, 0.5, 0.75]) == pytest.approx([600, 1800, 7200], rel=0.2)
    assert likeness(futures("u")) == pytest.approx(0.85 ** 2, abs=0.08)
    assert abs(likeness(futures(""))) < 0.05, "of whom no user is told"
    assert abs(likeness(futures("new"))) < 0.05, "of whom nothing is known"


def test_a_running_job_lasts_at_least_as_long_as_it_has():
    state = scene(lasted_s=2 * HOUR)
    ahead = drawn(state, np.random.default_rng(1))
    jobs = ahead.arrays.jobs[ahead.running]
    assert (jobs.end > NOW).all()
    assert np.median(jobs.end - NOW) > 1800, "who has come so far goes on for longer than a new job would"


def test_nobody_runs_beyond_the_limit():
    state = scene(limit_s=HOUR, lasted_s=0.5 * HOUR)
    ahead = drawn(state, np.random.default_rng(1))
    assert (ahead.arrays.jobs.run[state.waiting] <= HOUR).all()
    assert (ahead.arrays.jobs.end[ahead.running] <= NOW + 0.5 * HOUR + 1).all()


def test_a_service_never_ends_whatever_became_of_its_like():
    service = Job("s", NOW - HOUR, JobState.RUNNING, "all", Request(1), start_s=NOW - HOUR,
                  owner_kind=OwnerKind.SERVICE, allocations=(Allocation("n000", 1),))
    snapshot = SchedulerSnapshot(NOW, (Node("n000", ("all",), 1, gpus_allocated=1),), jobs=(service,))
    state = ClusterState.from_snapshot(snapshot, NOW, predictor=foresight)
    assert drawn(state, np.random.default_rng(1)).arrays.jobs.end[0] > NOW + 60 * 24 * HOUR
    assert state.workload.limit[0] == np.inf
    batch = replace(service, owner_kind=OwnerKind.BATCH)
    state = ClusterState.from_snapshot(replace(snapshot, jobs=(batch,)), NOW, predictor=foresight)
    assert drawn(state, np.random.default_rng(1)).arrays.jobs.end[0] < NOW + 30 * 24 * HOUR


def test_the_next_to_end_is_found_first_and_the_state_stays_as_it_was():
    state = scene(lasted_s=600.0)
    before = state.arrays.jobs.tobytes()
    ahead = drawn(state, np.random.default_rng(1))
    heap, ends = ahead.running, ahead.arrays.jobs.end
    assert (np.diff(ends[heap]) >= 0).all()
    assert (ahead.arrays.jobs.place[heap] == np.arange(len(heap))).all()
    assert state.arrays.jobs.tobytes() == before


def test_of_whom_nothing_is_known_any_use_of_what_is_left_of_the_limit_is_as_likely():
    state = scene(user="new", lasted_s=HOUR, limit_s=5 * HOUR)
    ahead = drawn(state, np.random.default_rng(1))
    quarters = [0.25, 0.5, 0.75]
    assert np.quantile(ahead.arrays.jobs.run[state.waiting], quarters) == pytest.approx(
        [1.25 * HOUR, 2.5 * HOUR, 3.75 * HOUR], rel=0.15)
    assert np.quantile(ahead.arrays.jobs.end[state.running] - NOW, quarters) == pytest.approx(
        [HOUR, 2 * HOUR, 3 * HOUR], rel=0.15)


def test_without_limit_or_past_limit_a_job_still_ends():
    for limit_s, lasted_s in ((None, HOUR), (HOUR, 2 * HOUR)):
        ahead = drawn(scene(user="new", limit_s=limit_s, lasted_s=lasted_s), np.random.default_rng(1))
        assert np.isfinite(ahead.arrays.jobs.end[ahead.running]).all()
        assert (ahead.arrays.jobs.end[ahead.running] > NOW).all()
        assert (ahead.arrays.jobs.remaining > 0).all()


def test_the_same_chance_gives_the_same_future():
    state = scene()
    first, again, other = (drawn(state, np.random.default_rng(seed)).arrays.jobs.run for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from idlewatt.daemon.cycles import Cycle, CycleScheduler


@pytest.fixture
def beating():
    started = []

    def start(*cycles, **options):
        beat = CycleScheduler(cycles, **options)
        beat.start()
        started.append(beat)
        return beat

    yield start
    for beat in started:
        beat.stop()


def wait_until(condition, timeout_s=10.0):
    event, deadline = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        event.wait(0.005)


def test_a_cycle_runs_again_and_again_and_is_counted(beating):
    beat = beating(Cycle("scrape", 0.02, lambda: None))
    wait_until(lambda: beat.health()["scrape"].runs >= 3)
    health = beat.health()["scrape"]
    assert health.failures == 0
    assert health.last_duration_s < 5


def test_beats_do_not_drift_with_the_length_of_a_run(beating):
    times = []

    def run():
        times.append(time.monotonic())
        threading.Event().wait(0.05)

    beat = beating(Cycle("assess", 0.1, run))
    wait_until(lambda: beat.health()["assess"].runs >= 8)
    # 7 periods after the first beat, had the run time been added it would be 7 * 0.15.
    assert times[7] - times[0] < 0.85 + 0.1 * beat.health()["assess"].overruns


def test_a_run_that_is_too_long_skips_beats_never_overlaps_and_is_counted(beating, caplog):
    inside, most = [], []
    release = threading.Event()

    def run():
        inside.append(1)
        most.append(len(inside))
        release.wait(10)
        inside.pop()

    with caplog.at_level(logging.WARNING):
        beat = beating(Cycle("advise", 0.02, run))
        wait_until(lambda: beat.health()["advise"].overruns >= 2)
    release.set()
    assert max(most) == 1
    assert "cycle overran its period" in caplog.text


def test_a_cycle_that_raises_is_counted_logged_and_runs_again(beating, caplog):
    def run():
        raise ValueError("poison row")

    beat = beating(Cycle("record", 0.02, run))
    wait_until(lambda: beat.health()["record"].failures >= 2)
    assert "poison row" in caplog.text


def test_one_hanging_cycle_does_not_stop_another_and_is_named(beating):
    release = threading.Event()
    clock_offset = [0.0]
    beat = beating(Cycle("scrape", 0.02, lambda: None), Cycle("jobs", 0.02, lambda: release.wait(10)),
                   clock=lambda: time.monotonic() + clock_offset[0])
    wait_until(lambda: beat.health()["scrape"].runs >= 3)
    assert beat.hanging() == []
    clock_offset[0] = 100.0
    runs = beat.health()["scrape"].runs
    wait_until(lambda: beat.health()["scrape"].runs > runs + 1)
    assert beat.hanging() == ["jobs"]
    release.set()


def test_a_cycle_that_waits_for_others_first_runs_once_they_have(beating):
    release = threading.Event()
    beat = beating(Cycle("jobs", 60, lambda: release.wait(10)), Cycle("scrape", 60, lambda: None),
                   Cycle("assess", 60, lambda: None, 30, ("scrape", "jobs")))
    wait_until(lambda: beat.health()["scrape"].runs == 1)
    assert beat.health()["assess"].runs == 0
    release.set()
    wait_until(lambda: beat.health()["assess"].runs == 1)


def test_a_cycle_that_hangs_is_named_and_left_behind_at_the_end(beating, caplog):
    release, inside = threading.Event(), threading.Event()

    def run():
        inside.set()
        release.wait(20)

    beat = beating(Cycle("record", 60, run))
    assert inside.wait(10)
    beat.stop(0.01)
    assert "cycles hang and are not waited for" in caplog.text
    release.set()


def test_a_wall_clock_that_is_set_back_costs_no_beat(beating):
    """After it, due times that were right lie an hour ahead: as here."""
    beat = beating(Cycle("scrape", 0.05, lambda: None), Cycle("record", 60, lambda: None, 60))
    wait_until(lambda: beat.health()["scrape"].runs >= 2)
    for job in beat._scheduler.get_jobs():
        beat._scheduler.modify_job(job.id, next_run_time=job.next_run_time + timedelta(hours=1))
    runs = beat.health()["scrape"].runs
    beat.keep_time()
    wait_until(lambda: beat.health()["scrape"].runs >= runs + 3)
    away = beat._scheduler.get_job("record").next_run_time - datetime.now(UTC)
    assert away <= timedelta(seconds=60)


def test_a_clock_that_goes_right_moves_no_beat(beating):
    beat = beating(Cycle("record", 60, lambda: None, 60), Cycle("moves", 10, lambda: None, 30))
    before = {job.id: job.next_run_time for job in beat._scheduler.get_jobs()}
    beat.keep_time()
    assert {job.id: job.next_run_time for job in beat._scheduler.get_jobs()} == before


def test_a_run_that_goes_on_is_seen_with_its_length_while_it_does(beating):
    release = threading.Event()
    beat = beating(Cycle("scrape", 0.02, lambda: release.wait(10)))
    wait_until(lambda: (beat.health()["scrape"].running_s or 0.0) > 0.01)
    release.set()
    wait_until(lambda: beat.health()["scrape"].runs)


def test_whether_the_last_run_failed_is_known(beating):
    faults = [ValueError("once")]

    def run():
        if faults:
            raise faults.pop()

    beat = beating(Cycle("jobs", 0.02, run))
    wait_until(lambda: beat.health()["jobs"].runs >= 2)
    assert (beat.health()["jobs"].failures, beat.health()["jobs"].failed) == (1, False)
